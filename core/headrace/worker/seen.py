"""The fast path of deduplication (MillWheel 6.1.1): a Bloom filter of known record fingerprints.

A miss proves "never seen". A hit proves nothing: then the row decides. Fingerprints are CRC-32, the same in every process.
The ids are kept in generations by the order of arrival; one whose ids have all been collected is forgotten.

Choice: there is one Bloom filter to ask however many ids there are. A Bloom filter can neither grow nor forget, so that the
fingerprints are kept beside it, in four bytes each, and it is built anew from them when it is full or mostly of forgotten ids.
It has room for some times what is alive then: building it costs an id about as much as adding it once more.
"""

from array import array
from zlib import crc32

from rbloom import Bloom

from headrace.api.time import MIN_TIME


def fingerprint(record_id: str) -> int:
    """Return a number for an id, equal in every process and under every PYTHONHASHSEED."""
    return crc32(record_id.encode())


_GROWTH = 2
"""How many times what is alive a new Bloom filter has room for."""

_PARTS = 16
"""A generation is full with this part of the room: what has been collected is kept that much longer, at most."""

_NOTHING = Bloom(1, 0.5)
"""What is known at first. Nobody adds to it: most filters of a simulation never get an id."""


class _Generation:
    __slots__ = ("newest_origin", "prints")

    def __init__(self) -> None:
        self.prints = array("I")
        self.newest_origin = -1


class ForgottenKeys:
    """Which keys' rows are only in the store.

    A key may be forgotten again and again, so that what is kept of it is kept once: when the filter is full, what is there twice
    goes. Nothing may be left out because the filter seems to know it: the next filter, which errs about others, would not.

    Args:
        capacity: initial capacity, in keys.
        error: rate of false positives when it is full.

    Attributes:
        known: to be asked: ``fingerprint(key) in known``. Not in: provably not forgotten. It may be another one after `add_all`.
    """

    __slots__ = ("_error", "_prints", "_room", "_smallest_room", "known")

    def __init__(self, capacity: int, error: float) -> None:
        self._smallest_room = capacity
        self._error = error
        self._prints = array("I")
        self._room = 0
        self.known = _NOTHING

    def add_all(self, prints: list[int]) -> None:
        """Note keys by their fingerprints."""
        if not prints:
            return
        if len(self._prints) + len(prints) > self._room:
            self._prints = array("I", sorted({*self._prints, *prints}))
            self._room = max(self._smallest_room, _GROWTH * len(self._prints))
            self.known = Bloom(self._room, self._error)
            self.known.update(self._prints)
        else:
            self._prints.fromlist(prints)
            self.known.update(prints)

    def check_invariants(self) -> None:
        """Assert that the filter is no larger than what is kept needs."""
        kept = len(self._prints)
        assert kept <= self._room <= max(self._smallest_room, _GROWTH * kept), (
            f"a filter for {self._room} keys knows {kept} of them"
        )


class SeenFilter:
    """Which record ids an interval may have seen.

    Args:
        capacity: initial capacity, in ids.
        error: rate of false positives when it is full.

    Attributes:
        known: to be asked: ``fingerprint(record_id) in known``. Not in: provably never seen. In: ask the row. It may be another
            one after each call of a method.
    """

    __slots__ = (
        "_below", "_capacity", "_error", "_generations", "_newest", "_room", "_taken", "_turns_at", "known",
    )  # fmt: skip

    def __init__(self, capacity: int, error: float) -> None:
        self._capacity = capacity
        self._error = error
        self._below = MIN_TIME
        self._generations: list[_Generation] = []
        self._newest = _Generation()
        self._room = self._taken = self._turns_at = 0
        self.known = _NOTHING

    def add_all(self, prints: list[int], newest_origin: int) -> None:
        """Remember ids by their fingerprints, unless they have all been collected. ``newest_origin``: the latest, microseconds.

        A zombie may be told only then that it has written them.
        """
        if newest_origin < self._below:
            return
        self._taken += len(prints)
        if self._taken > self._turns_at:
            self._turn(len(prints))
        newest = self._newest
        newest.prints.fromlist(prints)
        if newest_origin > newest.newest_origin:  # noqa: PLR1730  a write may be of one record
            newest.newest_origin = newest_origin
        self.known.update(prints)

    def _turn(self, coming: int) -> None:
        """Begin a generation, and a Bloom filter if this one has no room for what is coming."""
        if self._taken > self._room:
            self._build(coming)
        self._newest = _Generation()
        self._generations.append(self._newest)
        self._turns_at = self._taken - coming + self._room // _PARTS

    def forget_before(self, origin: int) -> None:
        """Drop the generations whose ids have all been collected, and take no more of these."""
        self._below = max(self._below, origin)
        kept = [generation for generation in self._generations if generation.newest_origin >= origin]
        if len(kept) == len(self._generations):
            return
        self._generations = kept
        self._turns_at = 0  # it may be the newest one that was dropped
        if _GROWTH * len(self) < self._taken:
            self._build(0)

    def _build(self, coming: int) -> None:
        """Begin a Bloom filter with what is alive."""
        self._taken = len(self) + coming
        if not self._taken:
            self._room, self.known = 0, _NOTHING
            return
        self._room = max(self._capacity, _GROWTH * self._taken)
        self.known = Bloom(self._room, self._error)
        for generation in self._generations:
            self.known.update(generation.prints)

    def check_invariants(self, collected_below: int) -> None:
        """Assert that ids are forgotten once they are collected, and that the filter is no larger than what is kept needs.

        Args:
            collected_below: rows have forgotten ids with an earlier origin, microseconds.
        """
        kept = len(self)
        assert all(
            generation.newest_origin >= collected_below
            for generation in self._generations
            if generation.prints
        ), f"the filter keeps ids with origins before {collected_below}, all of which are collected"
        assert kept <= self._taken <= _GROWTH * kept, f"the filter knows {self._taken} ids for {kept}"
        most = max(self._capacity, _GROWTH * self._taken) if self._taken else 0
        assert self._room <= most, f"a filter for {self._room} ids knows {self._taken}"

    def __len__(self) -> int:
        """Return how many ids it stands for, at most."""
        return sum([len(generation.prints) for generation in self._generations])
