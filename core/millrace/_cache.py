"""The framework-level row cache (MillWheel 8.3): a capacity in bytes, and who leaves first.

The framework knows more than a storage system: a row that buffers data until the watermark passes a window boundary will be
fetched then, so the most recently modified row is the one least likely to be fetched soon.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Protocol

import msgspec

from millrace._options import Eviction
from millrace._time import MAX_TIME

_OVERHEAD_BYTES = 64
_ID_BYTES = 48


NO_IDS: Mapping[str, int] = MappingProxyType({})
"""What most rows have seen that can still come again: nothing, for which nobody needs a dict of his own."""


class CachedRow(msgspec.Struct, eq=False, gc=False):
    """The part of a row that is worth keeping near.

    Attributes:
        state: of the user.
        seen: ids of records that it has consumed, with their origins; `NO_IDS`, or a dict.
    """

    state: bytes = b""
    seen: Mapping[str, int] = NO_IDS


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
        """When the row's next watermark timer is due, event time in microseconds; `MAX_TIME`: it waits for none."""
        ...


class RowCache:
    """Keeps the rows of all intervals of a worker within its capacity.

    Args:
        capacity_bytes: of states and ids; 0 keeps nothing between steps.
        eviction: who leaves first.
    """

    __slots__ = ("_boundaries", "_by_boundary", "_capacity_bytes", "_lru", "_mark", "evicted", "used_bytes")

    def __init__(self, capacity_bytes: int, eviction: Eviction) -> None:
        self._capacity_bytes = capacity_bytes
        self._by_boundary = eviction is Eviction.BOUNDARY
        self._lru: dict[Cacheable, None] = {}  # in the order of last use; owners are compared by identity
        self._boundaries: list[tuple[int, int, Cacheable]] = []
        self._mark = 0
        self.used_bytes = 0
        self.evicted = 0

    def keep(self, owner: Cacheable) -> None:
        """The owner's row was just used (or loaded): account for it, and make room."""
        row = owner.row
        assert row is not None
        size, before, lru = (
            _OVERHEAD_BYTES + len(row.state) + _ID_BYTES * len(row.seen),
            owner.cached_bytes,
            self._lru,
        )
        if before:
            del lru[owner]
        lru[owner] = None
        if size != before:
            self.used_bytes += size - before
            owner.cached_bytes = size
        if self._by_boundary and (owner.timers or owner.cache_boundary != MAX_TIME):
            self._mark_boundary(owner)
        if self.used_bytes > self._capacity_bytes:
            self._make_room()

    def _mark_boundary(self, owner: Cacheable) -> None:
        boundary = owner.next_boundary()
        if boundary != owner.cache_boundary:
            owner.cache_boundary = boundary
            if boundary != MAX_TIME:
                self._mark += 1
                heappush(self._boundaries, (-boundary, self._mark, owner))

    def drop(self, owner: Cacheable) -> None:
        """Forget the owner's row."""
        self._lru.pop(owner, None)
        self.used_bytes -= owner.cached_bytes
        owner.cached_bytes = 0
        owner.cache_boundary = MAX_TIME
        owner.row = None

    def _make_room(self) -> None:
        busy: list[tuple[int, int, Cacheable]] = []
        heap = self._boundaries
        while heap and self.used_bytes > self._capacity_bytes:
            entry = heappop(heap)
            owner = entry[2]
            if owner.row is None or owner.cache_boundary != -entry[0]:
                continue
            if owner.busy:
                busy.append(entry)
            else:
                self._evict(owner)
        for entry in busy:
            heappush(heap, entry)
        if self.used_bytes > self._capacity_bytes:
            for owner in [one for one in self._lru if not one.busy]:
                self._evict(owner)
                if self.used_bytes <= self._capacity_bytes:
                    break

    def _evict(self, owner: Cacheable) -> None:
        self.evicted += 1
        self.drop(owner)

    def check_invariants(self) -> None:
        """Assert that the accounts agree with the rows."""
        assert self.used_bytes == sum(owner.cached_bytes for owner in self._lru)
        assert all(owner.row is not None for owner in self._lru)
