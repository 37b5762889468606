"""A search is steered to where no fault has struck yet, and stays a function of its seed."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec
import pytest
from hypothesis.internal.conjecture import providers

from headrace import SECOND
from headrace_properties.proof.workloads import tallies
from headrace_properties.search.application import Application
from headrace_properties.search.coverage import Spot
from headrace_properties.search.fault_kinds import FIRST_TABLE
from headrace_properties.search.ground import Ground
from headrace_properties.search.judging import try_plan
from headrace_properties.search.plans import PLAN_BYTES, Plan
from headrace_properties.search.steering import AIMED, ROUND, Steering, drawn, spot_of
from headrace_properties.search.step_faults import STEP_TABLES, faults_at, single_faults
from headrace_sim import ClusterOptions, Does, FaultSchedule, Step, StepFault
from headrace_sim.faults import Slow

TALLIES = tallies()
FEED = TALLIES.feed(0)
APPLICATION = Application.with_input(TALLIES.pipeline, FEED)
OPTIONS = ClusterOptions()
NOTHING: Counter[Spot] = Counter()


def steering(seed: int = 0, aimed: int = AIMED) -> Steering:
    return Steering(APPLICATION, seed=seed, feeds=1, aimed=aimed)


def plans(steered: Steering, covered: Counter[Spot] = NOTHING) -> list[Plan]:
    return [trial.plan for trial in steered.round(covered)]


def test_the_bytes_of_a_round_are_drawn_anew_each_round_and_zeros_come_first() -> None:
    first, second = drawn(0, 0), drawn(0, 1)
    assert first[0] == bytes(PLAN_BYTES)
    assert all(any(data) for data in [*first[1:], *second])
    assert ROUND - 1 <= len(second) <= len(first) == ROUND
    assert first == drawn(0, 0)
    assert not set(first) & set(second)
    assert not set(second) & set(drawn(1, 1))


def test_no_module_is_searched_for_literals_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    monkeypatch.setattr(providers, "_get_local_constants", lambda: searched.append("modules"))
    assert drawn(3, 1) == drawn(3, 1)
    assert searched == []


def test_each_plan_but_the_healthy_one_is_given_faults_beside_its_own() -> None:
    plain, aimed = plans(steering(aimed=0)), plans(steering())
    assert plain[0] == aimed[0] == Plan(FaultSchedule(heal_at_us=0), OPTIONS, 0)
    for plain_plan, aimed_plan in zip(plain, aimed, strict=True):
        own = plain_plan.faults
        assert aimed_plan.faults.faults == own.faults
        assert aimed_plan.faults.at_steps[: len(own.at_steps)] == own.at_steps
        assert aimed_plan.faults.count - own.count == (AIMED if own.count else 0)


def test_every_place_is_tried_before_one_is_tried_again() -> None:
    places = {spot_of(fault) for fault in single_faults(TALLIES.pipeline, FEED, OPTIONS)}
    plain, aimed = steering(aimed=0), steering()
    tried: Counter[Spot] = Counter()
    while tried.total() < len(places):
        for own, plan in zip(plans(plain), plans(aimed), strict=True):
            given = plan.faults.at_steps[len(own.faults.at_steps) :]
            tried.update(map(spot_of, islice(given, len(places) - tried.total())))
    assert tried == Counter(places)


def test_adding_a_kind_keeps_the_targets_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a search that names the new table has faults of the new kind."""
    newest = max(STEP_TABLES)
    before, singles = (
        [plans(steering(seed)) for seed in range(3)],
        single_faults(TALLIES.pipeline, FEED, OPTIONS),
    )
    monkeypatch.setitem(STEP_TABLES, newest + 1, (_added, *STEP_TABLES[newest]))
    assert [plans(steering(seed)) for seed in range(3)] == before
    assert single_faults(TALLIES.pipeline, FEED, OPTIONS) == singles
    new = plans(Steering(APPLICATION, feeds=1, table=newest + 1))
    assert [
        step for plan in new for step in plan.faults.at_steps if getattr(step.fault, "for_us", 0) == 12_345
    ]


def _added(step: Step, _: Ground) -> Iterator[StepFault]:
    yield StepFault(step, Slow(at_us=0, process=step.process, factor=2, for_us=12_345))


def test_the_first_table_means_what_it_has_always_meant() -> None:
    """If this fails, a table was changed: put the change into a new one instead."""
    ground = Ground(
        workers=("worker-0", "worker-1"),
        leaders=("master-0", "master-1", "authority-0.0"),
        injectors=("letters/0",),
        computations=("sorter", "counter"),
        keys=("c", "g", "m", "s"),
        horizon_us=9 * SECOND,
        boundaries=(("m",), ()),
    )
    steps = [
        Step("worker-0", Does.SENDS, "Write", 1, "sorter"),
        Step("worker-1", Does.RECEIVES, "Written", 2),
        Step("master-0", Does.SENDS, "Table", 1),
        Step("authority-0.0", Does.RECEIVES, "Report", 3),
        Step("letters/0", Does.RECEIVES, "SourceRecord", 1),
    ]
    digests = [
        hashlib.sha256(
            msgspec.json.encode([fault for step in steps for fault in faults_at(step, on, FIRST_TABLE)])
        ).hexdigest()[:16]
        for on in (ground, msgspec.structs.replace(ground, versions=2))
    ]
    assert digests == ["4797abb9922b218e", "1b9e08e99aa33d85"]


def test_places_already_struck_are_not_tried_before_the_rest() -> None:
    places = {spot_of(fault) for fault in single_faults(TALLIES.pipeline, FEED, OPTIONS)}
    struck = Counter({place: 5 for place in places if place.role != "injector"})
    own, aimed = plans(steering(aimed=0)), plans(steering(), struck)
    given = [
        spot_of(two)
        for own_plan, plan in zip(own, aimed, strict=True)
        for two in plan.faults.at_steps[len(own_plan.faults.at_steps) :]
    ]
    assert {spot.role for spot in given} == {"injector"}


def test_sixty_steered_runs_strike_at_many_more_places_than_as_many_others() -> None:
    reached = []
    for aimed in (0, AIMED):
        steered, spots = steering(aimed=aimed), Counter[Spot]()
        for _ in range(2):
            for trial in steered.round(spots.copy()):
                outcome = try_plan(APPLICATION, trial)
                assert not outcome.failed
                spots.update(outcome.covered)
        reached.append(len(spots))
    assert reached[1] > 1.5 * reached[0], reached
