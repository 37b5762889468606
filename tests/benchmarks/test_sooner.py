"""How soon a search finds what is wrong: what is hunted, and what counts as found."""

import pytest

from headrace_benchmarks.figures import BenchOptions
from headrace_benchmarks.sooner import KINDS, PLANTED, PROTOCOLS, HuntTimes
from headrace_benchmarks.timed_hunts import BUDGET_S, Hunt, HuntResult, Mistake, hunt_code
from headrace_properties.proof.mutants import CATALOGUE
from tests.planted.trials import BUGS


def test_what_is_not_found_counts_as_the_budget_in_medians_and_in_no_share() -> None:
    hunt = Hunt(Mistake("some"), "plain", 0, hunt_code)
    times = HuntTimes([HuntResult(hunt, 1.0), HuntResult(hunt, 3.0), HuntResult(hunt)])
    assert [times.within(most_s) for most_s in (2, 5, 20)] == [1, 2, 2]
    assert times.median_s == 3.0
    assert times.percentile_s == pytest.approx(3 + 0.8 * (BUDGET_S - 3))


def test_all_broken_protocols_and_planted_bugs_are_hunted() -> None:
    left_out = {name for name, mutant in CATALOGUE.items() if mutant.directed}
    assert {each.name for each in KINDS[PROTOCOLS].mistakes(BenchOptions())} == CATALOGUE.keys() - left_out
    planted = KINDS[PLANTED].mistakes(BenchOptions())
    assert [each.name for each in planted] == [f"tests.planted.{bug}" for bug in BUGS]
    assert any(each.asked for each in planted)
