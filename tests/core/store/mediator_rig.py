"""A store whose computation "counter" has intervals, and what is asked of it."""

from collections.abc import Iterable

from headrace import KeyInterval
from headrace.api.options import EngineOptions
from headrace.wire import messages as m
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import MintChange
from headrace.wire.rows import RowDelta
from tests.core.driver import Shop


def change(
    interval: KeyInterval = ALL_KEYS, owner: str = "worker-0", computation: str = "counter"
) -> MintChange:
    return MintChange(computation, interval, owner, 1)


def shop(*intervals: KeyInterval, page_rows: int = 1_000) -> Shop:
    """A store in which "counter" has these intervals, with sequencers 1, 2 ..."""
    made = Shop(options=EngineOptions(scan_page_rows=page_rows))
    made.mint(*map(change, intervals or (ALL_KEYS,)))
    return made


def delta(
    key: str = "dog", number: int = 1, state: bytes = b"1", seen: Iterable[tuple[str, int]] = ()
) -> RowDelta:
    return RowDelta(key, number, state=state, seen=tuple(seen))


def write(
    *deltas: RowDelta, sequencer: int = 1, request: int = 7, delivered: tuple[tuple[str, str, str], ...] = ()
) -> m.Write:
    return m.Write(request, "counter", sequencer, deltas, delivered)
