"""Strong against weak in one table: what each code shows, each way (6.1.2, 6.1.3)."""

from functools import cache

import pytest

from headrace_benchmarks.section8.paper import TWO_VALUES
from headrace_benchmarks.section8.strong_weak import AGAIN, CHANGED, CODES, LATENCY, REPEATED, sample
from headrace_properties.search.production_modes import WAYS

pytestmark = pytest.mark.slow

FILTER, SUM, WALL_TIME = CODES


@cache
def found(code: str) -> dict[str, dict[str, float]]:
    """Return the figures of each way, summed over seeds."""
    ways: dict[str, dict[str, float]] = {way.name: {} for way in WAYS}
    for seed in range(2):
        for point, figure, value in sample(code, seed).values:
            figures = ways[point.removeprefix(f"{code}, ")]
            figures[figure] = figures.get(figure, 0.0) + value
    return ways


def ways_with(code: str, figure: str) -> set[str]:
    return {way for way, figures in found(code).items() if figures[figure]}


@pytest.mark.parametrize("code", CODES)
def test_nothing_is_lost_and_no_promise_is_broken_whichever_way(code: str) -> None:
    assert not ways_with(code, "lost per run")
    assert not ways_with(code, "invariants broken")
    for figures in found(code).values():
        assert len(figures) == 10


def test_a_filter_repeats_only_where_duplicates_make_new_productions() -> None:
    assert ways_with(FILTER, REPEATED) == {"strong, exactly-once off"}
    assert not ways_with(FILTER, CHANGED)


def test_a_sum_is_wrong_only_without_exactly_once() -> None:
    assert ways_with(SUM, CHANGED) == {"strong, exactly-once off", "weak, exactly-once off"}


def test_a_strong_sum_is_emitted_once_and_a_zombie_may_emit_a_weak_one() -> None:
    assert "strong" not in ways_with(SUM, REPEATED)
    assert "weak" in ways_with(SUM, REPEATED)


def test_only_a_weak_wall_time_count_makes_two_values_with_one_id() -> None:
    assert ways_with(WALL_TIME, TWO_VALUES) <= {way.name for way in WAYS if "weak" in way.name}
    assert ways_with(WALL_TIME, TWO_VALUES)


def test_weak_productions_are_faster_and_repeat_more_work() -> None:
    strong, weak = found(FILTER)["strong"], found(FILTER)["weak"]
    assert weak[LATENCY] * 3 < strong[LATENCY]
    assert strong[AGAIN] < weak[AGAIN]
