"""The progress of a computation (MillWheel 4.5, 5): figures for monitoring a job, the same on every host.

They are for people and dashboards; nothing in the protocol depends on them.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headrace.api.time import MIN_TIME


@dataclass(frozen=True, slots=True)
class ComputationProgress:
    """The progress of one computation.

    Attributes:
        name: the computation's name.
        records: number of records received so far, including duplicates on hosts that count deliveries.
        late_records: how many of these were behind its low watermark on arrival.
        outputs: number of records produced so far; one with several consumers counts once.
        low_watermark: event time in microseconds; `MIN_TIME`: not known yet; `MAX_TIME`: the input has ended.
        lag_us: distance from the low watermark to the newest timestamp that any computation of the job has seen, event time in
            microseconds; ``None``: not known yet. *Choice*: measured in event time, not against the wall clock, since a job that
            processes last year's records is not a year behind.
        timers: number of pending timers; ``None``: not counted by this host.
        keys: number of keys that have a row: state, timers, or remembered record ids; ``None``: not counted by this host.
        state_bytes: stored size of these rows, bytes; ``None``: not measured by this host.
        hot_key: a key with a large part of the latest records, all of which one key interval has to process; ``None``: there is
            none, or this host does not look for one.
        hot_share: its part of these records, above 0 and up to 1; 0: there is none.
        dropped: number of elements that it dropped so far as too late, if it is a grouping of the Dataflow layer; ``None``:
            not counted by this host.
    """

    name: str
    records: int
    late_records: int
    outputs: int
    low_watermark: int
    lag_us: int | None
    timers: int | None = None
    keys: int | None = None
    state_bytes: int | None = None
    hot_key: str | None = None
    hot_share: float = 0.0
    dropped: int | None = None


@runtime_checkable
class CountsDropped(Protocol):
    """A computation whose states count the elements that were dropped."""

    def count_dropped(self, state: Any) -> int:
        """Return how many elements a key has dropped so far."""
        ...


def lag_of(low_watermark: int, newest: int) -> int | None:
    """Return how far a low watermark is behind the newest timestamp, both event time in microseconds (`MIN_TIME`: unknown).

    >>> lag_of(5, 12), lag_of(12, 5), lag_of(MIN_TIME, 12)
    (7, 0, None)
    """
    if MIN_TIME in (low_watermark, newest):
        return None
    return max(0, newest - low_watermark)
