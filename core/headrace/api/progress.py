"""How far a computation has come (MillWheel 4.5, 5): figures for those who watch a job, in one form for every host.

They are for people and dashboards: nothing in the protocol depends on them.
"""

from dataclasses import dataclass

from headrace.api.time import MIN_TIME


@dataclass(frozen=True, slots=True)
class ComputationProgress:
    """The state of one computation.

    Attributes:
        name: of the computation.
        records: that it has got, ever; where hosts count what comes, and not what is applied, with those that came twice.
        late_records: of these, how many were behind its low watermark when they came.
        outputs: records that it has produced, ever; one that several computations consume counts once.
        low_watermark: event time in microseconds; `MIN_TIME`: nothing is known yet; `MAX_TIME`: the input has ended.
        lag_us: how far the low watermark is behind the newest timestamp that any computation of the job has seen, event time in
            microseconds; ``None``: not known yet. *Choice*: against event time and not the clock on the wall, since a job that
            works on last year's records is not a year behind.
        timers: pending ones; ``None``: this host does not count them.
        keys: that have a row: state, timers, or remembered record ids; ``None``: this host does not count them.
        state_bytes: size of these rows as they are stored, bytes; ``None``: this host does not measure it.
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


def lag_of(low_watermark: int, newest: int) -> int | None:
    """How far a low watermark is behind the newest timestamp, both event time in microseconds (`MIN_TIME`: none is known).

    >>> lag_of(5, 12), lag_of(12, 5), lag_of(MIN_TIME, 12)
    (7, 0, None)
    """
    if MIN_TIME in (low_watermark, newest):
        return None
    return max(0, newest - low_watermark)
