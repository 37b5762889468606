"""The fast path of deduplication (MillWheel 6.1.1): a Bloom filter of known record fingerprints.

A miss proves "never seen". A hit proves nothing: then the row decides. Fingerprints are CRC-32, the same in every process.
The filter is kept in generations by the order of arrival; one whose ids have all been collected is forgotten.

Choice: a new generation has room for some times what the filter stands for already, so that there are few to ask however many ids
there are; what they take is a byte or two an id all the same.
"""

from zlib import crc32

from rbloom import Bloom


def fingerprint(record_id: str) -> int:
    """A number for an id, equal in every process and under every PYTHONHASHSEED."""
    return crc32(record_id.encode())


_GROWTH = 8
"""How many times what there is a new generation has room for."""


class _Generation:
    __slots__ = ("bloom", "capacity", "count", "newest_origin")

    def __init__(self, capacity: int, error: float) -> None:
        self.bloom = Bloom(capacity, error)
        self.capacity = capacity
        self.count = 0
        self.newest_origin = -1


class SeenFilter:
    """Which record ids an interval may have seen.

    Args:
        capacity: ids in the first generation.
        error: rate of false positives of one generation.
    """

    __slots__ = ("_blooms", "_capacity", "_error", "_generations")

    def __init__(self, capacity: int, error: float) -> None:
        self._capacity = capacity
        self._error = error
        self._generations: list[_Generation] = []
        self._blooms: list[Bloom] = []

    def add(self, print_: int, origin: int) -> None:
        """Remember an id by its fingerprint and the record's origin in microseconds."""
        generations = self._generations
        newest = generations[-1] if generations else self._begin(self._capacity)
        if newest.count >= newest.capacity:
            newest = self._begin(max(self._capacity, _GROWTH * len(self)))
        newest.bloom.add(print_)
        newest.count += 1
        if origin > newest.newest_origin:  # noqa: PLR1730  a call of max() for each record
            newest.newest_origin = origin

    def _begin(self, capacity: int) -> _Generation:
        generation = _Generation(capacity, self._error)
        self._generations.append(generation)
        self._blooms.append(generation.bloom)
        return generation

    def may_have(self, print_: int) -> bool:
        """``False``: provably never seen. ``True``: ask the row."""
        for bloom in self._blooms:  # noqa: SIM110  a generator would cost more than the look-up
            if print_ in bloom:
                return True
        return False

    def forget_before(self, origin: int) -> None:
        """Drop the generations whose ids have all been collected."""
        self._generations = [one for one in self._generations if one.newest_origin >= origin]
        self._blooms = [one.bloom for one in self._generations]

    def __len__(self) -> int:
        """How many ids it stands for, at most."""
        return sum(generation.count for generation in self._generations)
