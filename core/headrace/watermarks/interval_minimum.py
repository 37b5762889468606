"""The smallest of one value over all intervals of a map, read without looking at all of them (MillWheel 4.5, 7.2).

Values mostly rise, so that a report seldom touches anything here: what is out of date is looked at when it comes to the front,
and the bucket that it moves to is found at once, however many intervals there are.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

import msgspec

from headrace.api.time import MIN_TIME
from headrace.wire.keys import KeyInterval

Pending = tuple[tuple[int, int], ...]
"""(event time rounded down, count) of pending work, as reports carry it."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """What is known of one interval.

    ``number`` orders entries; ``in_map`` ends when the entry is cut; ``is_listed``: it is among those that may be unconfirmed.
    What each report asks for stands together: with very many entries, what costs is what the processor has not in its caches.
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
        """The store has taken what is known."""
        return self.low_watermark == self.confirmed_low_watermark and self.horizon == self.confirmed_horizon


_Slot = tuple[int, int, Entry]
"""A value that was an entry's, the entry's number, and the entry."""
_BUCKET_BITS = 10
"""Choice: about a millisecond. What intervals report is some hundred milliseconds apart, so that a bucket has few of them."""


class Minimum:
    """The smallest of one value over all entries of a map.

    Each entry is in a bucket at or below its value. Those of the first bucket are sorted when it is opened, and what comes to it
    later is in a heap. What is stale at the front moves to the bucket of its value as it is now. An entry whose value fell is in
    two places for a while, which does no harm; all are put in order anew when there are too many.
    """

    __slots__ = (
        "_buckets", "_count", "_entries", "_first", "_late", "_number", "_order", "_value_of",
    )  # fmt: skip

    def __init__(self, value_of: Callable[[Entry], int], entries: Mapping[str, Entry]) -> None:
        self._value_of = value_of
        self._entries = entries
        self._clear()

    def _clear(self) -> None:
        self._buckets: dict[int, list[Entry]] = {}
        self._order: list[int] = []
        self._number = MIN_TIME >> _BUCKET_BITS
        self._first: list[_Slot] = []
        self._late: list[_Slot] = []
        self._count = 0

    def lowered(self, entry: Entry) -> None:
        """Note an entry that is new, or whose value fell."""
        self._count += 1
        if self._count > 2 * len(self._entries) + 64:
            self.rebuild()
        else:
            self._put(self._value_of(entry), entry)

    def rebuild(self) -> None:
        """Put all entries in order anew."""
        self._clear()
        self._count = len(self._entries)
        for entry in self._entries.values():
            self._put(self._value_of(entry), entry)

    def _put(self, value: int, entry: Entry) -> None:
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
            if bucket is not None:  # as `_put` does, without a call for each
                bucket.append(entry)
            else:
                self._put(current, entry)

    def _open(self) -> None:
        """Make the next bucket the first one, the smallest last. What has another bucket by now goes there at once."""
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
