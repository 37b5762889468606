"""The soft state of one key (MillWheel 6.2): its timers, its row if cached, and the deliveries that wait for it.

What is built for each record is a struct: like a class with slots, but built several times faster.
"""

from collections.abc import Iterable

import msgspec

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME
from headrace.wire.rows import Production, StoredTimer
from headrace.worker.cache import CachedRow


class QueuedDelivery(msgspec.Struct, eq=False, gc=False):
    """A delivery that waits for its turn, or is being processed.

    Attributes:
        production: the record.
        sender: whom to ACK: the latest who sent it.
        print: its id's fingerprint.
        maybe_seen: the filter knows it, or takes it for another one that it knows.
    """

    production: Production
    sender: str
    print: int
    maybe_seen: bool


class LiveTimer:
    """A durable pending timer in its owner's memory, and whether it holds watermark and horizon back."""

    __slots__ = ("holds_horizon", "holds_watermark", "timer")

    def __init__(self, timer: StoredTimer, holds_watermark: bool, holds_horizon: bool) -> None:  # noqa: FBT001  fields
        self.timer = timer
        self.holds_watermark = holds_watermark
        self.holds_horizon = holds_horizon


class KeySlot(msgspec.Struct, eq=False, gc=False):
    """The soft state of one key (6.2): its timers, always; its row, if cached; what waits for it.

    A worker has one for each key that it knows, so that its size is what a key costs (``headrace paper bench kernels``).

    Attributes:
        key: the key.
        row: what is cached of its row.
        busy: locked by a read, a step, or a pause after failed user code; the key is serial (4.1).
        stored: the store has a row for it, so that a missing ``row`` must be read.
        due: a timer of it may be due.
        queue: what waits for its turn, in order of arrival; a list, since it is short and mostly empty.
        timers: by tag; ``None``: there are none.
        hold: event time at which its state holds the watermark; `MAX_TIME`: none.
        holds_watermark: it is counted in the interval's oldest work.
        cached_bytes: what the cache has accounted for its row.
        cache_boundary: under which boundary it stands there.
    """

    key: str
    row: CachedRow | None = None
    busy: bool = False
    stored: bool = False
    due: bool = False
    queue: list[QueuedDelivery] | None = None
    timers: dict[str, LiveTimer] | None = None
    hold: int = MAX_TIME
    holds_watermark: bool = False
    cached_bytes: int = 0
    cache_boundary: int = MAX_TIME

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it waits, is under way, or holds anything back."""
        return not (self.busy or self.queue or self.due or self.timers or self.hold != MAX_TIME)

    def next_boundary(self) -> int:
        """Return when its next watermark timer is due, event time in microseconds; `MAX_TIME`: it has none."""
        return next_due([live.timer for live in self.timers.values()]) if self.timers else MAX_TIME


def next_due(timers: Iterable[StoredTimer]) -> int:
    """Return when the first of these watermark timers is due, event time in microseconds; `MAX_TIME`: there is none."""
    return min([timer.due for timer in timers if timer.clock is Clock.WATERMARK], default=MAX_TIME)
