"""What a hunt finds, not how long it takes."""

import pytest

from headrace_benchmarks import timed_hunts
from headrace_benchmarks.timed_hunts import (
    BUDGET_S,
    README,
    Hunt,
    HuntResult,
    Mistake,
    draw_apart,
    hunt_apart,
    hunt_code,
    hunt_protocol,
)
from headrace_properties.search.parallel import spread

ORDERS = "headrace_scenarios.examples.orders"


def hunted_where_nothing_is_imported(mistake: Mistake, seed: int = 0) -> HuntResult:
    (result,) = spread(hunt_apart, [Hunt(mistake, "plain", seed, hunt_code)], 1, apart=True)
    return result


def test_a_broken_protocol_and_a_planted_bug_are_found() -> None:
    for name, how in (("ack on receipt", hunt_protocol), ("tests.planted.alert_twice", hunt_code)):
        assert 0 < (hunt_apart(Hunt(Mistake(name), "plain", 0, how)).cpu_s or 0) < BUDGET_S


def test_nothing_is_found_in_sound_code_when_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_hunts, "BUDGET_S", 0.5)
    result = hunt_apart(Hunt(Mistake(ORDERS), "plain", 0, hunt_code))
    assert (result.cpu_s, result.spent_s, result.why) == (None, None, "")


def test_a_search_that_comes_to_its_end_says_what_it_took() -> None:
    result = hunt_apart(Hunt(Mistake(ORDERS), "plain", 0, hunt_code, runs=1))
    assert result.cpu_s is None
    assert 0 < (result.spent_s or 0) < BUDGET_S


def test_a_changed_source_takes_the_place_of_the_file() -> None:
    result = hunted_where_nothing_is_imported(
        Mistake(ORDERS, sources={ORDERS: "raise ValueError('changed')"})
    )
    assert (result.cpu_s, result.why) == (None, "ValueError: changed")


def test_readmes_pipeline_is_hunted_as_the_page_has_it() -> None:
    mistake = Mistake(README, protocol="without sequencers")
    assert hunted_where_nothing_is_imported(mistake, seed=2).cpu_s is not None


def test_the_same_seed_draws_the_same_mutants_of_code_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_hunts, "_SURVEYED", 2)
    name, drawn = draw_apart((ORDERS, 3, 7))
    assert (name, len(drawn)) == (ORDERS, 3)
    assert draw_apart((ORDERS, 3, 7))[1] == drawn
    assert all("def feed" not in mutant.text for mutant in drawn)
