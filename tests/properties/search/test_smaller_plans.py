"""Our own shrinker, on runs that cost nothing: a predicate decides which fail."""

from collections import Counter
from collections.abc import Callable

import pytest

from headrace import SECOND
from headrace_properties.proof.workloads import tallies
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import Failure, JudgedRun
from headrace_properties.search.plans import PLAN_BYTES, Plan, decode_plan, ground_of
from headrace_properties.search.smaller_plans import BUDGET, shrink
from headrace_properties.shrinking import Budget
from headrace_properties.verdict import Violated
from headrace_sim import Does, Feed, Step, StepFault
from headrace_sim import faults as f

TALLIES = tallies()
FEED = TALLIES.feed(0)
APPLICATION = Application.with_input(TALLIES.pipeline, FEED)
BASE = TALLIES.options
BIG = decode_plan(
    b"\x00\x00" + bytes(range(1, PLAN_BYTES - 1)), ground_of(TALLIES.pipeline, FEED, BASE), BASE
)
BROKEN = {"S1": Violated("lost", ())}


def verdict_by(
    fails: Callable[[Plan, Feed], bool], broken: dict[str, Violated]
) -> Callable[[PipelineTrial], JudgedRun]:
    def test(trial: PipelineTrial) -> JudgedRun:
        return JudgedRun(
            dict(broken) if fails(trial.plan, APPLICATION.input_of(trial)) else {},
            {},
            Counter(),
            Counter(),
            1,
            "d",
        )

    return test


def smallest(fails: Callable[[Plan, Feed], bool], plan: Plan = BIG) -> Failure:
    assert fails(plan, FEED)
    return shrink(Failure(plan, 0, BROKEN, "d"), APPLICATION, BASE, verdict_by(fails, BROKEN))


def test_a_permanent_failure_shrinks_to_nothing() -> None:
    found = smallest(lambda *_: True)
    assert (found.plan.faults.count, found.kept, found.plan.options, found.plan.seed) == (0, (), BASE, 0)


def test_only_the_faults_that_matter_are_left() -> None:
    kinds = [type(fault) for fault in BIG.faults.faults]
    wanted = {kinds[0], kinds[-1]}
    assert len(kinds) > len(wanted)
    found = smallest(lambda plan, _: wanted <= {type(fault) for fault in plan.faults.faults})
    assert {type(fault) for fault in found.plan.faults.faults} == wanted
    assert found.plan.faults.count == len(wanted)


def test_only_the_records_that_matter_are_left_with_offsets_that_count_up() -> None:
    values = [entry.event.timestamp for entry in FEED.entries if hasattr(entry.event, "timestamp")]
    wanted = {values[1], values[4]}
    found = smallest(
        lambda _, feed: wanted <= {getattr(entry.event, "timestamp", None) for entry in feed.entries}
    )
    assert found.kept == (1, 4)
    assert [entry.event.offset for entry in FEED.only((1, 4)).entries] == list(range(len(FEED.entries) - 3))


def test_a_knob_that_matters_stays_and_the_others_go_back() -> None:
    header = b"\0\0\0\xff\xff\xff\x07\0"
    ground = ground_of(TALLIES.pipeline, FEED, BASE)
    plan = decode_plan(header + bytes(PLAN_BYTES - len(header)), ground, BASE)
    found = smallest(lambda plan, _: plan.options.engine.scan_page_rows == 1, plan)
    assert found.plan.options.engine.scan_page_rows == 1
    assert found.plan.options.engine.eviction is BASE.engine.eviction
    assert found.plan.options.clock_skew == BASE.clock_skew
    assert found.plan.seed == 0


def test_times_are_rounded_and_steps_come_earlier() -> None:
    tied = StepFault(
        Step("worker-0", Does.SENDS, "Write", 9), f.Pause(at_us=0, process="worker-0", for_us=2_345_678)
    )
    timed = f.DelayCommit(at_us=1_234_567, process="worker-0", by_us=1_765_432, count=3)
    plan = Plan(f.FaultSchedule((timed,), 9 * SECOND, at_steps=(tied,)), BASE, 0)

    def fails(plan: Plan, _: Feed) -> bool:
        faults = plan.faults
        return (
            [type(fault) for fault in faults.faults] == [f.DelayCommit]
            and [step.step.nth >= 3 for step in faults.at_steps] == [True]
            and faults.faults[0].at_us > SECOND
        )

    found = smallest(fails, plan).plan.faults
    assert found.faults == (f.DelayCommit(at_us=1_200_000, process="worker-0", by_us=SECOND),)
    assert [(step.step.nth, step.fault) for step in found.at_steps] == [
        (3, f.Pause(at_us=0, process="worker-0", for_us=2 * SECOND))
    ]


def test_shrinking_does_not_slip_to_another_bug() -> None:
    other = {"S2": Violated("twice", ())}
    found = shrink(Failure(BIG, 0, BROKEN, "d"), APPLICATION, BASE, verdict_by(lambda *_: True, other))
    assert found.plan == BIG


@pytest.mark.parametrize("budget", [Budget(1_000, cpu_s=0.0), Budget(0), Budget(7), BUDGET], ids=str)
def test_shrinking_ends_in_time(budget: Budget) -> None:
    runs = 0

    def fails(*_: object) -> bool:
        nonlocal runs
        runs += 1
        return False

    failure = Failure(BIG, 0, BROKEN, "d")
    assert shrink(failure, APPLICATION, BASE, verdict_by(fails, BROKEN), budget) == failure
    assert runs <= (budget.runs if budget.cpu_s else 0)
