"""The minimum of a value over all intervals of a map, read without visiting all of them (MillWheel 4.5, 7.2).

Values mostly rise, so reports seldom change anything here: an outdated entry is updated when it reaches the front, and moves to
its new bucket in constant time, however many intervals there are.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

import msgspec

from headrace.api.time import MIN_TIME
from headrace.wire.keys import KeyInterval

Pending = tuple[tuple[int, int], ...]
"""(event time rounded down, count) of pending work, as in reports."""


class IntervalValues(msgspec.Struct, eq=False, gc=False):
    """The known values of one interval.

    ``number``: orders entries; ``in_map``: false once the entry has been replaced; ``is_listed``: whether it is listed as
    unconfirmed. The fields that every report reads are adjacent: with very many entries, CPU cache misses dominate the cost.
    """

    interval: KeyInterval
    sequencer: int = 0
    low_watermark: int = MIN_TIME
    horizon: int = MIN_TIME
    heard: bool = False
    is_listed: bool = False
    number: int = 0
    in_map: bool = True
    pending: Pending = ()
    confirmed_low_watermark: int = MIN_TIME
    confirmed_horizon: int = MIN_TIME

    @property
    def is_confirmed(self) -> bool:
        """Whether the store has confirmed its values."""
        return self.low_watermark == self.confirmed_low_watermark and self.horizon == self.confirmed_horizon


_Slot = tuple[int, int, IntervalValues]
"""A former value of an entry, the entry's number, and the entry."""
_BUCKET_BITS = 10
"""Choice: about a millisecond. Intervals' values lie within some hundred milliseconds, so a bucket holds few of them."""


class Minimum:
    """The minimum of a value over all entries of a map.

    Each entry is in a bucket at or below its value. The first bucket is sorted when it is opened, and later additions to it are
    kept in a heap. A stale entry at the front moves to the bucket of its current value. An entry whose value fell is in two
    places for a while, which is harmless; everything is rebuilt when there are too many of these.
    """

    def __init__(
        self, value_of: Callable[[IntervalValues], int], entries: Mapping[str, IntervalValues]
    ) -> None:
        self._value_of = value_of
        self._entries = entries
        self._clear()

    def _clear(self) -> None:
        self._buckets: dict[int, list[IntervalValues]] = {}
        self._order: list[int] = []
        self._number = MIN_TIME >> _BUCKET_BITS
        self._first: list[_Slot] = []
        self._late: list[_Slot] = []
        self._count = 0

    def lowered(self, entry: IntervalValues) -> None:
        """Add an entry that is new, or whose value fell."""
        self._count += 1
        if self._count > 2 * len(self._entries) + 64:
            self.rebuild()
        else:
            self._put(self._value_of(entry), entry)

    def rebuild(self) -> None:
        """Sort all entries into buckets again."""
        self._clear()
        self._count = len(self._entries)
        for entry in self._entries.values():
            self._put(self._value_of(entry), entry)

    def _put(self, value: int, entry: IntervalValues) -> None:
        number = value >> _BUCKET_BITS
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket.append(entry)
        elif number <= self._number:
            heappush(self._late, (value, entry.number, entry))
        else:
            self._buckets[number] = [entry]
            heappush(self._order, number)

    def read(self) -> int:
        """Return the smallest value."""
        value_of, first, late, buckets = self._value_of, self._first, self._late, self._buckets
        while True:
            if late and not (first and first[-1][0] <= late[0][0]):
                value, _, entry = late[0]
                current = value_of(entry)
                if current == value and entry.in_map:
                    return value
                heappop(late)
            elif first:
                value, _, entry = first[-1]
                current = value_of(entry)
                if current == value and entry.in_map:
                    return value
                del first[-1]
            else:
                self._open()
                continue
            if not entry.in_map:
                self._count -= 1
                continue
            bucket = buckets.get(current >> _BUCKET_BITS)
            if bucket is not None:  # inlined from `_put`
                bucket.append(entry)
            else:
                self._put(current, entry)

    def _open(self) -> None:
        """Make the next bucket the first one, sorted smallest last; move entries that belong to another bucket by now."""
        value_of = self._value_of
        number = self._number = heappop(self._order)
        slots = [(value_of(entry), entry.number, entry) for entry in self._buckets.pop(number)]
        slots.sort(reverse=True)
        end, others = number + 1 << _BUCKET_BITS, 0
        for value, _, entry in slots:
            if value < end:
                break
            self._put(value, entry)
            others += 1
        self._first += slots[others:] if others else slots
