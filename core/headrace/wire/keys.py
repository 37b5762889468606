"""Key intervals (MillWheel 7.1): lexicographic ranges that together cover all keys.

Keys are ``str``, ordered by code point, which is also the order of their UTF-8 bytes.
"""

from collections.abc import Iterable

from headrace.wire.value import Value


class KeyInterval(Value, frozen=True, gc=False):
    """The keys from ``low`` (inclusive) to ``high`` (exclusive; ``None``: no end).

    >>> KeyInterval("a", "m").contains("cat videos")
    True
    >>> str(KeyInterval("m"))
    "['m', end)"
    """

    low: str = ""
    high: str | None = None

    def contains(self, key: str) -> bool:
        """Return whether the interval contains a key."""
        return self.low <= key and (self.high is None or key < self.high)

    def overlaps(self, other: "KeyInterval") -> bool:
        """Return whether the two intervals share a key."""
        return (self.high is None or other.low < self.high) and (other.high is None or self.low < other.high)

    def __str__(self) -> str:
        """Format in mathematical notation."""
        return f"[{self.low!r}, {'end' if self.high is None else repr(self.high)})"


ALL_KEYS = KeyInterval()


def split_all_keys(boundaries: Iterable[str]) -> list[KeyInterval]:
    """Split the whole key space at these boundaries.

    >>> [str(interval) for interval in split_all_keys(["m"])]
    ["['', 'm')", "['m', end)"]
    """
    lows = ["", *sorted(set(boundaries) - {""})]
    highs: list[str | None] = [*lows[1:], None]
    return [KeyInterval(low, high) for low, high in zip(lows, highs, strict=True)]


def cover_same_keys(left: Iterable[KeyInterval], right: Iterable[KeyInterval]) -> bool:
    """Return whether two sets of disjoint intervals cover exactly the same keys."""
    return _coalesce(left) == _coalesce(right)


def _coalesce(intervals: Iterable[KeyInterval]) -> list[KeyInterval]:
    merged: list[KeyInterval] = []
    for interval in sorted(intervals, key=lambda interval: interval.low):
        if merged and merged[-1].high == interval.low:
            merged[-1] = KeyInterval(merged[-1].low, interval.high)
        else:
            merged.append(interval)
    return merged
