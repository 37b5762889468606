"""Oldest work (MillWheel 4.5, 7.2): the smallest of many pending times, kept up to date as work comes and goes.

It keeps a count for each distinct time, and a heap whose stale entries are dropped when the minimum is read.
"""

from heapq import heappop, heappush

from headrace.api.time import MAX_TIME

_SPARE = 64


class OldestWork:
    """A multiset of times in microseconds, with its minimum.

    >>> work = OldestWork()
    >>> work.add(30), work.add(20), work.remove(20)
    (None, None, None)
    >>> work.oldest()
    30
    """

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, time_us: int) -> None:
        """Add pending work with this time."""
        counts = self._counts
        if time_us in counts:
            counts[time_us] += 1
            return
        counts[time_us] = 1
        heap = self._heap
        heappush(heap, time_us)
        if len(heap) > _SPARE + 4 * len(counts):  # stale entries pile up behind a time that stays pending
            self._heap = sorted(counts)

    def remove(self, time_us: int) -> None:
        """Remove work with this time: it is done."""
        counts = self._counts
        left = counts[time_us] - 1
        if left:
            counts[time_us] = left
        else:
            del counts[time_us]

    def oldest(self) -> int:
        """Return the smallest time; `MAX_TIME` if no work is pending."""
        heap, counts = self._heap, self._counts
        while heap:
            if heap[0] in counts:
                return heap[0]
            heappop(heap)
        return MAX_TIME

    def buckets(self, width_us: int) -> tuple[tuple[int, int], ...]:
        """Return sorted (time rounded down to ``width_us``, count) pairs, for percentile watermarks (7.2)."""
        counts: dict[int, int] = {}
        for time_us, count in self._counts.items():
            bucket = time_us // width_us * width_us
            counts[bucket] = counts.get(bucket, 0) + count
        return tuple(sorted(counts.items()))

    def check_invariants(self) -> None:
        """Assert that the buckets hold exactly what is pending."""
        assert self.buckets(1) == tuple(sorted(self._counts.items()))

    def __len__(self) -> int:
        """Count the pending work."""
        return sum(self._counts.values())
