"""A search is steered to where no fault has struck yet, and stays a function of its seed."""

from collections import Counter
from itertools import islice

from headrace_properties.search.application import Application
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import try_plan
from headrace_properties.search.plans import PLAN_BYTES, Plan
from headrace_properties.search.steering import AIMED, ROUND, Steering, drawn, spot_of
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.workloads import tallies
from headrace_sim import ClusterOptions, FaultSchedule

TALLIES = tallies()
FEED = TALLIES.feed(0)
APPLICATION = Application.with_input(TALLIES.pipeline, FEED)
OPTIONS = ClusterOptions()
NOTHING: Counter[Spot] = Counter()


def steering(seed: int = 0, aimed: int = AIMED) -> Steering:
    return Steering(APPLICATION, OPTIONS, seed, aimed=aimed)


def plans(one: Steering, covered: Counter[Spot] = NOTHING) -> list[Plan]:
    return [trial.plan for trial in one.round(covered)]


def test_the_bytes_of_a_round_are_drawn_anew_each_round_and_zeros_come_first() -> None:
    first, second = drawn(0, 0), drawn(0, 1)
    assert first[0] == bytes(PLAN_BYTES)
    assert all(any(data) for data in [*first[1:], *second])
    assert ROUND - 1 <= len(second) <= len(first) == ROUND
    assert first == drawn(0, 0)
    assert not set(first) & set(second)
    assert not set(second) & set(drawn(1, 1))


def test_each_plan_but_the_healthy_one_is_given_faults_beside_its_own() -> None:
    plain, aimed = plans(steering(aimed=0)), plans(steering())
    assert plain[0] == aimed[0] == Plan(FaultSchedule(heal_at_us=0), OPTIONS, 0)
    for one, other in zip(plain, aimed, strict=True):
        own = one.faults
        assert other.faults.faults == own.faults
        assert other.faults.at_steps[: len(own.at_steps)] == own.at_steps
        assert other.faults.count - own.count == (AIMED if own.count else 0)


def test_every_place_is_tried_before_one_is_tried_again() -> None:
    places = {spot_of(fault) for fault in single_faults(TALLIES.pipeline, FEED, OPTIONS)}
    plain, aimed = steering(aimed=0), steering()
    tried: Counter[Spot] = Counter()
    while tried.total() < len(places):
        for own, plan in zip(plans(plain), plans(aimed), strict=True):
            given = plan.faults.at_steps[len(own.faults.at_steps) :]
            tried.update(map(spot_of, islice(given, len(places) - tried.total())))
    assert tried == Counter(places)


def test_where_faults_have_struck_is_not_tried_before_the_rest() -> None:
    places = {spot_of(fault) for fault in single_faults(TALLIES.pipeline, FEED, OPTIONS)}
    struck = Counter({place: 5 for place in places if place.role != "injector"})
    own, aimed = plans(steering(aimed=0)), plans(steering(), struck)
    given = [
        spot_of(two)
        for one, plan in zip(own, aimed, strict=True)
        for two in plan.faults.at_steps[len(one.faults.at_steps) :]
    ]
    assert {one.role for one in given} == {"injector"}


def test_sixty_steered_runs_strike_at_many_more_places_than_as_many_others() -> None:
    reached = []
    for aimed in (0, AIMED):
        one, spots = steering(aimed=aimed), Counter[Spot]()
        for _ in range(2):
            for trial in one.round(spots.copy()):
                outcome = try_plan(APPLICATION, trial)
                assert not outcome.failed
                spots.update(outcome.covered)
        reached.append(len(spots))
    assert reached[1] > 1.5 * reached[0], reached
