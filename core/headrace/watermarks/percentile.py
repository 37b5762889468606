"""Heuristic watermarks (MillWheel 7.2): the progress of p percent of the timestamps, for users who prefer early results.

Rules of this file:

* Of all pending records of a computation and everything upstream, at most (100 - p) percent are before its p % watermark.
* It never goes back, never falls behind the low watermark, and never runs ahead of the sources' watermark: records that a source
  has not read yet are not pending, so they cannot be discarded as outliers.

Choice: pending records are those that reports name. Between the report in which a sender no longer has a record and the one in
which its consumer has it, nobody counts it, and a percentile watermark may pass it. A low watermark cannot: it waits for the
consumer's own.
"""

from collections.abc import Iterable

from headrace.rules import RULES, Rules


def percentile_watermark(
    percent: float,
    previous: int,
    low_watermark: int,
    frontier: int,
    pending: Iterable[tuple[int, int]],
    rules: Rules = RULES,
) -> int:
    """Return the watermark that this percentage of the pending records has reached.

    >>> percentile_watermark(90, previous=0, low_watermark=10, frontier=60, pending=[(10, 1), (40, 9), (50, 1)])
    40

    Args:
        percent: more than 0 and at most 100.
        previous: its previous value, event time in microseconds.
        low_watermark: low watermark of the same computation, event time in microseconds.
        frontier: the sources' own watermark, event time in microseconds.
        pending: (event time, count) of pending records, in any order; times may repeat.
        rules: the rules of the protocol.

    Returns:
        Event time in microseconds.
    """
    counts: dict[int, int] = {}
    for time_us, count in pending:
        counts[time_us] = counts.get(time_us, 0) + count
    left_behind = rules.outliers(percent, sum(counts.values()))
    for time_us in sorted(counts):
        left_behind -= counts[time_us]
        if left_behind < 0:
            frontier = min(frontier, time_us)
            break
    return max(previous, low_watermark, frontier)
