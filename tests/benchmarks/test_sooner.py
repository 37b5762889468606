"""How soon a search finds what is wrong: what is hunted, and what counts as found, not how long it takes."""

import pytest

from headrace_benchmarks import sooner
from headrace_benchmarks.figures import BenchOptions
from headrace_benchmarks.sooner import (
    BUDGET_S,
    CODE,
    KINDS,
    PLANTED,
    PROTOCOLS,
    README,
    README_PROTOCOLS,
    Hunt,
    HuntResult,
    HuntTimes,
    Mistake,
)
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.search.parallel import spread
from tests.planted.trials import BUGS


def hunted(mistake: Mistake) -> float | None:
    result = sooner.hunt_apart(Hunt(mistake, "plain", 0))
    assert not result.why
    return result.cpu_s


def test_a_broken_protocol_and_a_planted_bug_are_found() -> None:
    for mistake in (Mistake(PROTOCOLS, "ack on receipt"), Mistake(PLANTED, "tests.planted.alert_twice")):
        assert 0 < (hunted(mistake) or 0) < BUDGET_S


def test_what_is_sound_takes_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sooner, "BUDGET_S", 0.5)
    assert hunted(Mistake(CODE, "headrace_scenarios.examples.orders")) is None


def test_a_changed_source_takes_the_place_of_the_file() -> None:
    name = "headrace_scenarios.examples.orders"
    changed = Hunt(Mistake(CODE, name, sources={name: "raise ValueError('changed')"}), "plain", 0)
    (result,) = spread(sooner.hunt_apart, [changed], 1, apart=True)  # where nothing has imported it
    assert (result.cpu_s, result.why) == (None, "ValueError: changed")


def test_what_is_not_found_counts_as_the_budget_in_medians_and_in_no_share() -> None:
    hunt = Hunt(Mistake(CODE, "some"), "plain", 0)
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


@pytest.mark.slow
def test_the_same_seed_draws_the_same_mutants_of_code_in_workers() -> None:
    options = BenchOptions(seed=3, runs=2)
    drawn = KINDS[CODE].mistakes(options)
    assert [mistake.what for mistake in drawn] == [mistake.what for mistake in KINDS[CODE].mistakes(options)]
    assert all("def feed" not in mistake.what and mistake.sources for mistake in drawn)
    assert len(drawn) == 2


def test_readmes_pipeline_is_hunted_as_the_page_has_it() -> None:
    on_page = Hunt(Mistake(README_PROTOCOLS, README, protocol="without sequencers"), "plain", 2)
    (result,) = spread(sooner.hunt_apart, [on_page], 1, apart=True)
    assert result.cpu_s is not None
