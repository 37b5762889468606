"""The Bloom filter of record ids (MillWheel 6.1.1): a miss proves "never seen"."""

from hypothesis import given
from hypothesis import strategies as st

from millrace._seen_filter import SeenFilter, fingerprint
from tests.core.driver import printed_elsewhere


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=60), st.integers(1, 9))
def test_there_are_no_false_negatives(record_ids: list[str], capacity: int) -> None:
    seen = SeenFilter(capacity, 0.01)
    for record_id in record_ids:
        seen.add(fingerprint(record_id), 0)
    assert all(seen.may_have(fingerprint(record_id)) for record_id in record_ids)
    assert len(seen) == len(record_ids)


def test_false_positives_are_about_as_rare_as_was_asked_for() -> None:
    seen = SeenFilter(4_096, 0.01)
    for number in range(4_096):
        seen.add(fingerprint(f"feed/0:{number}"), number)
    hits = sum(seen.may_have(fingerprint(f"other/0:{number}")) for number in range(10_000))
    assert 0 < hits < 300


def test_an_empty_filter_has_nothing() -> None:
    assert not SeenFilter(8, 0.01).may_have(fingerprint("r1"))


def test_ids_behind_the_horizon_are_forgotten_with_their_generation_and_not_before() -> None:
    """Generations of two, and of eight times as many: [5, 1], [9, ...], [2]. Only those whose newest origin is behind may go."""
    many = [f"c{number}" for number in range(16)]
    seen = SeenFilter(2, 0.0001)
    for record_id, origin in [("a", 5), ("b", 1), *((one, 9) for one in many), ("e", 2)]:
        seen.add(fingerprint(record_id), origin)
    asked = ["a", "b", many[0], many[-1], "e"]
    seen.forget_before(5)
    assert [seen.may_have(fingerprint(one)) for one in asked] == [True, True, True, True, False]
    seen.forget_before(6)
    assert [seen.may_have(fingerprint(one)) for one in asked] == [False, False, True, True, False]
    assert len(seen) == 16
    seen.add(fingerprint("f"), 20)
    seen.forget_before(10)
    assert [seen.may_have(fingerprint(one)) for one in ("c0", "c15", "f")] == [False, False, True]


def test_there_are_few_generations_to_ask_however_many_ids_there_are() -> None:
    seen = SeenFilter(8, 0.01)
    for number in range(20_000):
        seen.add(fingerprint(f"feed/0:{number}"), number)
    assert len(seen._blooms) <= 5


def test_it_is_the_same_in_every_process_under_every_hash_seed() -> None:
    program = (
        "from millrace._seen_filter import SeenFilter, fingerprint\n"
        "seen = SeenFilter(50, 0.3)\n"
        "for n in range(50): seen.add(fingerprint(f'a{n}'), n)\n"
        "print([n for n in range(300) if seen.may_have(fingerprint(f'b{n}'))], fingerprint('feed/0:17'))"
    )
    (output,) = printed_elsewhere(program)
    assert len(output) > 100, "there are some false positives to compare"
