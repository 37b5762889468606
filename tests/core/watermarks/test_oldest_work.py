"""Oldest work (MillWheel 4.5, 7.2): a multiset with its minimum."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.time import MAX_TIME
from headrace.watermarks.oldest_work import OldestWork


@given(st.lists(st.integers(-3, 3) | st.none(), max_size=40))
def test_after_any_additions_and_removals_the_oldest_is_the_smallest_remaining(
    moves: list[int | None],
) -> None:
    work, model = OldestWork(), Counter[int]()
    for move in moves:
        if move is not None:
            work.add(move)
            model[move] += 1
        elif model.total():
            done = next(iter(sorted(model.elements(), key=lambda time: (-model[time], time))))
            work.remove(done)
            model[done] -= 1
        assert work.oldest() == min(model.elements(), default=MAX_TIME)
        assert len(work) == model.total()
        assert work.buckets(2) == tuple(sorted(Counter(time // 2 * 2 for time in model.elements()).items()))


def test_without_work_the_oldest_is_the_end_of_time() -> None:
    work = OldestWork()
    assert (work.oldest(), work.buckets(10), len(work)) == (MAX_TIME, (), 0)


def test_one_of_two_equal_times_keeps_it() -> None:
    work = OldestWork()
    work.add(5)
    work.add(5)
    work.remove(5)
    assert (work.oldest(), len(work)) == (5, 1)


def test_what_was_never_added_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        OldestWork().remove(5)


def test_buckets_round_down_also_before_the_epoch() -> None:
    work = OldestWork()
    for time in (-1, 0, 9, 10):
        work.add(time)
    assert work.buckets(10) == ((-10, 1), (0, 2), (10, 1))


def test_while_one_time_is_held_the_work_behind_it_takes_no_room_when_it_is_done() -> None:
    work = OldestWork()
    work.add(0)
    for time in range(1, 10_000):
        work.add(time)
        work.remove(time)
        work.oldest()
    assert len(work._heap) < 1_000
