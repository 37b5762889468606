"""The row cache (MillWheel 8.3): never over its capacity, and each policy evicts what it should."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, EngineOptions, Eviction
from headrace.api.codecs import JsonCodec
from headrace.api.records import Clock
from headrace.wire.rows import StoredTimer, Version
from headrace.worker.cache import CachedRow, RowCache, compact
from headrace.worker.slot import KeySlot, LiveTimer

ROW_BYTES = 164
"""Of a row with 100 bytes of state and no ids, with its overhead."""


class Owner:
    """The part of a key that the cache reads."""

    def __init__(self, name: str = "", boundary: int = MAX_TIME, size: int = 100, ids: int = 0) -> None:
        self.name = name
        self.boundary = boundary
        self.row: CachedRow | None = None
        self.busy = False
        self.cached_bytes = 0
        self.cache_boundary = MAX_TIME
        self.fill(size, ids)

    def fill(self, size: int = 100, ids: int = 0) -> None:
        self.row = CachedRow(b"x" * size, {f"r{number}": 0 for number in range(ids)})

    @property
    def timers(self) -> bool:
        return self.boundary != MAX_TIME

    def next_boundary(self) -> int:
        return self.boundary


def kept(cache: RowCache, *owners: Owner) -> str:
    """Keep these in turn, and return the names of those left."""
    for owner in owners:
        cache.keep(owner)
        cache.check_invariants()
    return "".join(sorted({owner.name for owner in owners if owner.row is not None}))


def test_the_least_recently_used_leaves_first() -> None:
    a, b, c = Owner("a"), Owner("b"), Owner("c")
    cache = RowCache(2 * ROW_BYTES, Eviction.LRU)
    assert kept(cache, a, b, a, c) == "ac"
    assert (cache.used_bytes, cache.evicted) == (2 * ROW_BYTES, 1)


def test_lru_ignores_boundaries() -> None:
    a, b, c = Owner("a", boundary=1), Owner("b", boundary=99), Owner("c", boundary=50)
    assert kept(RowCache(2 * ROW_BYTES, Eviction.LRU), a, b, c) == "bc"


def test_by_boundary_the_one_that_will_be_fetched_last_leaves_first() -> None:
    a, b, c = Owner("a", boundary=10), Owner("b", boundary=99), Owner("c", boundary=50)
    assert kept(RowCache(2 * ROW_BYTES, Eviction.BOUNDARY), a, b, c) == "ac"


def test_by_boundary_the_row_that_was_just_modified_may_be_the_one_to_leave() -> None:
    a, b, c = Owner("a", boundary=10), Owner("b", boundary=20), Owner("c", boundary=99)
    assert kept(RowCache(2 * ROW_BYTES, Eviction.BOUNDARY), a, b, c) == "ab"


def test_by_boundary_rows_without_one_leave_after_all_others_the_least_recently_used_first() -> None:
    a, b, c, d = Owner("a"), Owner("b"), Owner("c", boundary=99), Owner("d")
    cache = RowCache(3 * ROW_BYTES, Eviction.BOUNDARY)
    assert kept(cache, a, b, c, d) == "abd"
    e = Owner("e")
    assert kept(cache, e) == "e"
    assert [owner.name for owner in (a, b, d, e) if owner.row is not None] == ["b", "d", "e"]


def test_by_boundary_empty_rows_that_wait_for_nothing_leave_before_any_that_waits() -> None:
    """Keys whose windows have ended: however many there are, they take no room from those whose windows have not."""
    waiting, ended = Owner("w", boundary=99), [Owner(f"{number}", size=0) for number in range(5)]
    cache = RowCache(ROW_BYTES + 2 * 64, Eviction.BOUNDARY)
    kept(cache, waiting, *ended[:2], ended[0], *ended[2:])
    assert [owner.name for owner in (waiting, *ended) if owner.row is not None] == ["w", "3", "4"]
    assert cache.evicted == 3


def test_by_boundary_a_row_that_is_filled_again_waits_for_its_turn_with_the_others() -> None:
    a, b = Owner("a", size=0), Owner("b", boundary=99)
    cache = RowCache(2 * ROW_BYTES, Eviction.BOUNDARY)
    kept(cache, a)
    a.fill()
    assert kept(cache, a, b, Owner("c")) == "ac"


def test_past_boundaries_are_eventually_forgotten() -> None:
    a, cache = Owner("a"), RowCache(2 * ROW_BYTES, Eviction.BOUNDARY)
    for boundary in range(1_000):
        a.boundary = boundary
        cache.keep(a)
    assert len(cache._boundaries) < 100


def test_by_boundary_a_row_counts_by_where_its_boundary_is_now() -> None:
    a, b, c = Owner("a", boundary=99), Owner("b", boundary=50), Owner("c", boundary=20)
    cache = RowCache(2 * ROW_BYTES, Eviction.BOUNDARY)
    kept(cache, a, b)
    a.boundary = 10
    assert kept(cache, a, b, c) == "ac"


def test_a_row_that_came_back_with_the_boundary_it_had_can_leave_again() -> None:
    a, b = Owner("a", boundary=99), Owner("b", boundary=10)
    cache = RowCache(ROW_BYTES, Eviction.BOUNDARY)
    assert kept(cache, a, b) == "b"
    a.fill()
    assert kept(cache, a, b) == "b"
    assert cache.evicted == 2


def test_a_busy_row_stays_and_another_leaves_in_its_place() -> None:
    for eviction in Eviction:
        a, b, c = Owner("a", boundary=99), Owner("b", boundary=50), Owner("c", boundary=10)
        cache = RowCache(2 * ROW_BYTES, eviction)
        a.busy = True
        assert kept(cache, a, b, c) == "ac"
        a.busy = False
        d = Owner("d", boundary=1)
        kept(cache, d)
        assert a.row is None, "it may leave when it is not busy any more"


def test_busy_rows_alone_may_exceed_the_capacity() -> None:
    a, b = Owner("a"), Owner("b")
    a.busy = b.busy = True
    cache = RowCache(ROW_BYTES, Eviction.LRU)
    assert kept(cache, a, b) == "ab"
    assert cache.used_bytes == 2 * ROW_BYTES


def test_without_capacity_nothing_is_kept() -> None:
    for eviction in Eviction:
        assert kept(RowCache(0, eviction), Owner("a"), Owner("b", boundary=3)) == ""


def test_a_row_that_has_grown_is_counted_as_it_is_now() -> None:
    a = Owner("a", ids=2)
    cache = RowCache(10_000, Eviction.LRU)
    kept(cache, a)
    assert cache.used_bytes == ROW_BYTES + 2 * 48
    a.fill(size=0)
    kept(cache, a)
    assert cache.used_bytes == 64


def test_an_oversized_cache_is_detected() -> None:
    cache, owner = RowCache(ROW_BYTES, Eviction.LRU), Owner("a")
    kept(cache, owner)
    owner.fill(size=101)
    with pytest.raises(AssertionError):
        cache.check_invariants()
    cache._capacity_bytes = ROW_BYTES - 1
    owner.fill()
    with pytest.raises(AssertionError, match="1 bytes more than its capacity, 163 bytes"):
        cache.check_invariants()
    owner.busy = True
    cache.check_invariants()


def test_a_dropped_row_takes_no_room_and_is_no_eviction() -> None:
    a, b = Owner("a", boundary=5), Owner("b")
    cache = RowCache(2 * ROW_BYTES, Eviction.BOUNDARY)
    kept(cache, a, b)
    cache.drop(a)
    cache.check_invariants()
    assert (a.row, a.cached_bytes, cache.used_bytes, cache.evicted) == (None, 0, ROW_BYTES, 0)


@given(
    st.sampled_from(Eviction),
    st.integers(0, 1_000),
    st.lists(
        st.tuples(
            st.integers(0, 4), st.integers(0, 300), st.sampled_from([1, 2, 3, MAX_TIME]), st.booleans()
        ),
        max_size=40,
    ),
)
def test_it_exceeds_its_capacity_only_with_busy_rows(
    eviction: Eviction, capacity: int, uses: list[tuple[int, int, int, bool]]
) -> None:
    cache = RowCache(capacity, eviction)
    owners = [Owner(str(number)) for number in range(5)]
    for index, size, boundary, busy in uses:
        owner = owners[index]
        owner.fill(size)
        owner.boundary, owner.busy = boundary, busy
        cache.keep(owner)
        cache.check_invariants()
        busy_bytes = sum(owner.cached_bytes for owner in owners if owner.busy)
        assert cache.used_bytes <= max(capacity, busy_bytes)


def test_the_default_policy_is_the_one_that_uses_what_the_framework_knows() -> None:
    assert EngineOptions().eviction is Eviction.BOUNDARY


def slot_with(*timers: StoredTimer) -> KeySlot:
    slot = KeySlot("dog")
    slot.timers = {
        timer.tag: LiveTimer(timer, holds_watermark=False, holds_horizon=False) for timer in timers
    }
    return slot


def timer(tag: str, due: int, clock: Clock = Clock.WATERMARK) -> StoredTimer:
    return StoredTimer(tag, due, clock, due, overdue=False, hold=None, set_by=Version(1, 1), origin=0)


def test_a_keys_boundary_is_its_next_watermark_timer() -> None:
    assert KeySlot("dog").next_boundary() == MAX_TIME
    assert slot_with(timer("a", 30), timer("b", 20)).next_boundary() == 20


def test_a_wall_timer_is_no_boundary() -> None:
    assert slot_with(timer("a", 5, Clock.WALL)).next_boundary() == MAX_TIME
    assert slot_with(timer("a", 5, Clock.WALL), timer("b", 20)).next_boundary() == 20


def test_an_idle_state_takes_no_more_room_than_it_needs() -> None:
    encoded = JsonCodec().encode("x" * 300)
    tracemalloc.start()
    try:
        kept = compact(encoded)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept == encoded
    assert len(encoded) < size < len(encoded) + 100
