"""The framework-level row cache (MillWheel 8.3): its capacity in bytes, and the order of eviction.

The framework knows more than a storage system: a row that buffers data until the watermark passes a window boundary will be
fetched then, so the most recently modified row is the one least likely to be fetched soon.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Protocol

import msgspec

from headrace.api.options import Eviction
from headrace.api.ropes import Encoded
from headrace.api.time import MAX_TIME
from headrace.rules import RULES, Leaving, Rules

_OVERHEAD_BYTES = 64
_ID_BYTES = 48
_FEW = 64


NO_IDS: Mapping[str, int] = MappingProxyType({})
"""The shared empty set of ids: most rows have seen nothing that can still be retried, and need no dict of their own."""


class CachedRow(msgspec.Struct, eq=False, gc=False):
    """The cached part of a row.

    Attributes:
        state: the user's state.
        seen: ids of records that it has consumed, with their origins; `NO_IDS`, or a dict.
    """

    state: Encoded = b""
    seen: Mapping[str, int] = NO_IDS


def compact(state: Encoded) -> Encoded:
    """Copy a state to be kept: an encoder's result may have as much spare room as it has bytes."""
    return b"%b" % state if type(state) is bytes else state


class Cacheable(Protocol):
    """What the cache needs to know of the owner of a row."""

    row: CachedRow | None
    busy: bool
    cached_bytes: int
    cache_boundary: int

    @property
    def timers(self) -> object:
        """False if it has no timers at all, and so no boundary."""
        ...

    def next_boundary(self) -> int:
        """Return when the row's next watermark timer is due, event time in microseconds; `MAX_TIME`: it waits for none."""
        ...


class RowCache:
    """Keeps the rows of all intervals of a worker within its capacity.

    Args:
        capacity_bytes: of states and ids; 0 keeps nothing between steps.
        eviction: the order of eviction.
        rules: what it asks.
    """

    __slots__ = (
        "_boundaries", "_by_boundary", "_capacity_bytes", "_lru", "_mark", "_may_evict", "_order", "_spent", "evicted",
        "used_bytes",
    )  # fmt: skip

    def __init__(self, capacity_bytes: int, eviction: Eviction, rules: Rules = RULES) -> None:
        self._capacity_bytes = capacity_bytes
        self._may_evict, self._order = rules.may_evict, rules.eviction_order(eviction)
        self._by_boundary = Leaving.FURTHEST_BOUNDARY in self._order
        self._lru: dict[Cacheable, None] = {}  # in the order of last use; owners are compared by identity
        self._boundaries: list[tuple[int, int, Cacheable]] = []
        # Empty rows that wait for nothing, in the order of last use: of windows that have ended, most of them.
        self._spent: dict[Cacheable, None] = {}
        self._mark = 0
        self.used_bytes = 0
        self.evicted = 0

    def keep(self, owner: Cacheable) -> None:
        """Account for a row that was just used or loaded, and make room."""
        row = owner.row
        assert row is not None
        size = _OVERHEAD_BYTES + len(row.state) + _ID_BYTES * len(row.seen)  # as `_size_of` does
        before, lru = owner.cached_bytes, self._lru
        if before:
            del lru[owner]
        lru[owner] = None
        if size != before:
            self.used_bytes += size - before
            owner.cached_bytes = size
        if self._by_boundary:
            if owner.timers or owner.cache_boundary != MAX_TIME:
                self._mark_boundary(owner)
            self._spent.pop(owner, None)
            if not row.state and not owner.timers:
                self._spent[owner] = None
        if self.used_bytes > self._capacity_bytes:
            self._make_room()

    def _mark_boundary(self, owner: Cacheable) -> None:
        boundary = owner.next_boundary()
        if boundary != owner.cache_boundary:
            owner.cache_boundary = boundary
            if boundary != MAX_TIME:
                self._mark += 1
                heappush(self._boundaries, (-boundary, self._mark, owner))
                if len(self._boundaries) > 2 * len(self._lru) + _FEW:
                    self._forget_past_boundaries()

    def _forget_past_boundaries(self) -> None:
        """Remove the boundaries that rows no longer wait for: they lie at the heap's bottom, and would stay there."""
        self._boundaries = [entry for entry in self._boundaries if entry[2].cache_boundary == -entry[0]]
        heapify(self._boundaries)

    def drop(self, owner: Cacheable) -> None:
        """Forget the owner's row."""
        self._lru.pop(owner, None)
        self._spent.pop(owner, None)
        self.used_bytes -= owner.cached_bytes
        owner.cached_bytes = 0
        owner.cache_boundary = MAX_TIME
        owner.row = None

    def _make_room(self) -> None:
        for leaving in self._order:
            match leaving:
                case Leaving.SPENT:
                    self._evict_in_order(self._spent)
                case Leaving.FURTHEST_BOUNDARY:
                    self._evict_by_boundary()
                case Leaving.LEAST_RECENTLY_USED:
                    self._evict_in_order(self._lru)

    def _evict_by_boundary(self) -> None:
        busy: list[tuple[int, int, Cacheable]] = []
        heap = self._boundaries
        while heap and self.used_bytes > self._capacity_bytes:
            entry = heappop(heap)
            owner = entry[2]
            if owner.row is None or owner.cache_boundary != -entry[0]:
                continue
            if self._may_evict(owner.busy):
                self._evict(owner)
            else:
                busy.append(entry)
        for entry in busy:
            heappush(heap, entry)

    def _evict_in_order(self, owners: Iterable[Cacheable]) -> None:
        """Evict rows in order, except busy ones."""
        excess_bytes, leaving = self.used_bytes - self._capacity_bytes, []
        for owner in owners:
            if excess_bytes <= 0:
                break
            if self._may_evict(owner.busy):
                leaving.append(owner)
                excess_bytes -= owner.cached_bytes
        for owner in leaving:
            self._evict(owner)

    def _evict(self, owner: Cacheable) -> None:
        self.evicted += 1
        self.drop(owner)

    def check_invariants(self) -> None:
        """Assert that the accounts agree with the rows, and that the cache is within its capacity, but for keys in use."""
        assert self.used_bytes == sum(owner.cached_bytes for owner in self._lru)
        kept = [(owner, owner.row) for owner in self._lru if owner.row is not None]
        assert len(kept) == len(self._lru)
        assert all(owner.busy or _size_of(row) <= owner.cached_bytes for owner, row in kept)
        assert all(owner in self._lru for owner in self._spent)
        excess_bytes = self.used_bytes - self._capacity_bytes
        assert excess_bytes <= 0 or all(owner.busy for owner in self._lru), (
            f"the cache keeps {excess_bytes} bytes more than its capacity, {self._capacity_bytes} bytes"
        )


def _size_of(row: CachedRow) -> int:
    return _OVERHEAD_BYTES + len(row.state) + _ID_BYTES * len(row.seen)
