"""The Bloom filter of record ids (MillWheel 6.1.1): a miss proves "never seen"."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.worker.seen import ForgottenKeys, SeenFilter, fingerprint
from tests.core.driver import printed_elsewhere

IDS = st.text(st.characters(exclude_categories=["Cs"]))


def add(seen: SeenFilter, record_ids: Iterable[str], origin: int) -> None:
    seen.add_all([fingerprint(record_id) for record_id in record_ids], origin)


def known(seen: SeenFilter, record_ids: Iterable[str]) -> list[bool]:
    return [fingerprint(record_id) in seen.known for record_id in record_ids]


@given(
    st.lists(st.tuples(st.lists(IDS, min_size=1, max_size=20), st.integers(0, 9), st.integers(0, 9))),
    st.integers(1, 9),
)
def test_the_filter_has_no_false_negatives(writes: list[tuple[list[str], int, int]], capacity: int) -> None:
    """Writes, each with its newest origin, and what is collected after it; origins come in any order."""
    seen = SeenFilter(capacity, 0.01)
    added: list[tuple[str, int]] = []
    collected = 0
    for record_ids, origin, below in writes:
        add(seen, record_ids, origin)
        added += [(record_id, origin) for record_id in record_ids]
        collected = max(collected, below)
        seen.forget_before(below)
        added = [(record_id, origin) for record_id, origin in added if origin >= collected]
        seen.check_invariants(collected)
        assert all(known(seen, [record_id for record_id, _ in added]))
        assert len(seen) >= len(added)
        assert added or not len(seen)


@pytest.mark.parametrize("count", [4_000, 4_096, 4_160, 12_000, 30_000])
def test_false_positives_stay_near_the_requested_rate_for_any_number_of_ids(
    count: int,
) -> None:
    seen = SeenFilter(4_096, 0.01)
    for first in range(0, count, 50):
        add(seen, [f"feed/0:{number}" for number in range(first, min(first + 50, count))], first)
    assert len(seen) == count
    assert 0 < sum(known(seen, [f"other/0:{number}" for number in range(20_000)])) < 300


@given(st.lists(st.lists(IDS, max_size=20)), st.integers(1, 9), st.sampled_from([0.01, 0.5]))
def test_no_forgotten_key_is_overlooked(rounds: list[list[str]], capacity: int, error: float) -> None:
    forgotten = ForgottenKeys(capacity, error)
    noted: list[int] = []
    for keys in rounds:
        prints = [fingerprint(key) for key in keys]
        forgotten.add_all(prints)
        noted += prints
        assert all(print_ in forgotten.known for print_ in noted)
        forgotten.check_invariants()


def test_a_key_that_is_forgotten_again_and_again_is_kept_a_few_times_at_most() -> None:
    forgotten = ForgottenKeys(4, 0.01)
    for _ in range(1_000):
        forgotten.add_all([fingerprint("dog"), fingerprint("cat")])
    assert len(forgotten._prints) <= 4


def test_an_empty_filter_has_nothing() -> None:
    seen = SeenFilter(8, 0.01)
    assert known(seen, ["r1"]) == [False]
    add(seen, [], 5)
    assert known(seen, ["r1"]) == [False]
    assert len(seen) == len(seen._generations) == 0


def test_what_one_filter_learns_another_does_not() -> None:
    one, other = SeenFilter(8, 0.0001), SeenFilter(8, 0.0001)
    add(one, ["r1"], 0)
    one.forget_before(1)
    add(one, ["r2"], 1)
    assert known(other, ["r1", "r2"]) == [False, False]


def test_ids_behind_the_horizon_are_forgotten_with_their_generation_and_not_before() -> None:
    """Generations of two: [5, 1], [9, 9], [2]. Only those may go whose newest origin is behind; the last one goes first."""
    seen = SeenFilter(32, 0.0001)
    for record_ids, origin in [(["a"], 5), (["b"], 1), (["c", "d"], 9), (["e"], 2)]:
        add(seen, record_ids, origin)
    seen.forget_before(5)
    assert known(seen, ["a", "b", "c", "d"]) == [True] * 4
    assert len(seen) == 4
    seen.forget_before(6)
    assert known(seen, ["c", "d"]) == [True] * 2
    assert len(seen) == 2
    add(seen, ["f"], 20)
    seen.forget_before(10)
    assert known(seen, ["a", "b", "c", "d", "e", "f"]) == [False] * 5 + [True]
    seen.forget_before(21)
    assert known(seen, ["f"]) == [False]
    assert len(seen) == 0


def test_its_size_depends_on_the_live_ids_and_not_on_all_past_ones() -> None:
    """A hundred thousand ids, of which a thousand are alive at any time."""
    seen = SeenFilter(16, 0.01)
    most, largest = 0, 0
    for first in range(0, 100_000, 50):
        add(seen, [f"feed/0:{number}" for number in range(first, first + 50)], first + 49)
        seen.forget_before(first - 1_000)
        most, largest = max(most, len(seen)), max(largest, seen.known.size_in_bits)
    assert 1_000 < most < 1_500
    assert largest < 10 * 2 * 1_500, "ten bits an id, and room for twice as many"
    assert len(seen._generations) < 100


def test_a_filter_that_keeps_collected_ids_or_is_too_large_is_detected() -> None:
    seen = SeenFilter(4, 0.01)
    add(seen, ["a", "b"], 10)
    seen.check_invariants(10)
    with pytest.raises(AssertionError, match="keeps ids with origins before 11"):
        seen.check_invariants(11)
    seen._room = 100
    with pytest.raises(AssertionError, match="a filter for 100 ids knows 2"):
        seen.check_invariants(10)
    seen._taken = 5
    with pytest.raises(AssertionError, match="knows 5 ids for 2"):
        seen.check_invariants(10)


def test_an_oversized_filter_of_forgotten_keys_is_detected() -> None:
    forgotten = ForgottenKeys(4, 0.01)
    forgotten.add_all([1, 2])
    forgotten.check_invariants()
    forgotten._room = 5
    with pytest.raises(AssertionError, match="a filter for 5 keys knows 2"):
        forgotten.check_invariants()


def test_it_is_the_same_in_every_process_under_every_hash_seed() -> None:
    program = (
        "from headrace.worker.seen import ForgottenKeys, SeenFilter, fingerprint\n"
        "seen = SeenFilter(50, 0.3)\n"
        "for n in range(50): seen.add_all([fingerprint(f'a{n}')], n)\n"
        "print([n for n in range(300) if fingerprint(f'b{n}') in seen.known], fingerprint('feed/0:17'))"
    )
    (output,) = printed_elsewhere(program)
    assert len(output) > 100, "there are some false positives to compare"
