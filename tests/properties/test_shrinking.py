"""One driver makes everything small: no part of its result can be left out, and it stops when its budget is spent."""

import pytest

from headrace_properties.shrinking import Budget, Shrinker, fewest


@pytest.mark.parametrize("needed", [set(), {0}, {9}, {0, 9}, {2, 3, 7}, set(range(10))], ids=str)
def test_exactly_the_parts_that_are_needed_are_left(needed: set[int]) -> None:
    parts = tuple(range(10))
    assert fewest(parts, lambda kept: needed <= {*kept}, Budget(1_000)) == tuple(sorted(needed))


def test_no_part_of_the_result_can_be_left_out_where_leaving_out_one_allows_another() -> None:
    """Either both of a pair are there, or none."""

    def shows(kept: tuple[int, ...]) -> bool:
        return 7 in kept and all((part in kept) == (part + 1 in kept) for part in (0, 2, 4))

    assert fewest(tuple(range(8)), shows, Budget(1_000)) == (7,)


def test_parts_are_tried_in_order_or_the_last_ones_first() -> None:
    tried: list[tuple[int, ...]] = []
    parts: tuple[int, ...] = (0, 1, 2)

    def shows(kept: tuple[int, ...]) -> bool:
        tried.append(kept)
        return False

    Shrinker(parts, shows, Budget(100)).leave_out(parts, tuple, least=1, order=reversed)
    assert tried == [(0, 1), (0, 2), (1, 2)]
    tried.clear()
    Shrinker(parts, shows, Budget(100)).leave_out(parts, tuple)
    assert tried == [(), (1, 2), (0, 2), (0, 1)]


def test_the_budget_is_kept_and_what_equals_the_smallest_so_far_is_not_tried() -> None:
    runs = 0

    def shows(_: int) -> bool:
        nonlocal runs
        runs += 1
        return True

    shrinker = Shrinker(5, shows, Budget(2))
    assert [shrinker.tries(number) for number in (5, 4, 4, 3, 2)] == [False, True, False, True, False]
    assert (runs, shrinker.best, shrinker.spent) == (2, 3, True)
    assert Shrinker(5, shows, Budget(9, cpu_s=0.0)).spent
