"""The fast path of deduplication (MillWheel 6.1.1): a Bloom filter of known record fingerprints.

A miss proves "never seen". A hit proves nothing: then the row decides. Fingerprints are CRC-32, the same in every process.
The filter is kept in generations by the order of arrival; one whose ids have all been collected is forgotten.
"""

from zlib import crc32

from rbloom import Bloom


def fingerprint(record_id: str) -> int:
    """A number for an id, equal in every process and under every PYTHONHASHSEED."""
    return crc32(record_id.encode())


class _Generation:
    __slots__ = ("bloom", "count", "newest_origin")

    def __init__(self, capacity: int, error: float) -> None:
        self.bloom = Bloom(capacity, error)
        self.count = 0
        self.newest_origin = -1


class SeenFilter:
    """Which record ids an interval may have seen.

    Args:
        capacity: ids in one generation.
        error: rate of false positives of one generation.
    """

    __slots__ = ("_capacity", "_error", "_generations")

    def __init__(self, capacity: int, error: float) -> None:
        self._capacity = capacity
        self._error = error
        self._generations: list[_Generation] = []

    def add(self, print_: int, origin: int) -> None:
        """Remember an id by its fingerprint and the record's origin in microseconds."""
        generations = self._generations
        if not generations or generations[-1].count >= self._capacity:
            generations.append(_Generation(self._capacity, self._error))
        newest = generations[-1]
        newest.bloom.add(print_)
        newest.count += 1
        if origin > newest.newest_origin:  # noqa: PLR1730  a call of max() for each record
            newest.newest_origin = origin

    def may_have(self, print_: int) -> bool:
        """``False``: provably never seen. ``True``: ask the row."""
        for generation in self._generations:  # noqa: SIM110  a generator would cost more than the look-up
            if print_ in generation.bloom:
                return True
        return False

    def forget_before(self, origin: int) -> None:
        """Drop the generations whose ids have all been collected."""
        self._generations = [one for one in self._generations if one.newest_origin >= origin]

    def __len__(self) -> int:
        """How many ids it stands for, at most."""
        return sum(generation.count for generation in self._generations)
