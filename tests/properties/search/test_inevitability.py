"""When a failure became inevitable: a run is continued in other ways from its moments, and the event that decided it is found."""

import msgspec
import pytest

from headrace.history import FaultStruck, History
from headrace.wire.messages import MergeIntervals
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.inevitability import CONTINUATIONS, FailureRates, failure_rates
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.search.plans import Plan
from headrace_sim import ClusterOptions, Does, FaultSchedule, Redraw, Step
from headrace_sim import faults as f
from tests.sim.rig import letters, mail

BROKEN = MUTANTS["without sequencers"]
APPLICATION = Application.with_input(mail(), letters(mail(), 20))
MERGE_US = 2_500_000
FAILING = PipelineTrial(
    Plan(
        FaultSchedule(
            (
                f.StallSource(at_us=0, process="mail/0", for_us=800_000),
                f.Operate(at_us=MERGE_US, verb=MergeIntervals("sorter", "")),
            ),
            heal_at_us=5_950_000,
        ),
        ClusterOptions(),
        0,
    ),
    kept=(14,),
)
"""An operator's merge breaks S6 without sequencers."""


@pytest.fixture(scope="module")
def history() -> History:
    history, verdicts, _ = run_plan(APPLICATION, FAILING, BROKEN)
    assert violations(verdicts).keys() == {"S6"}
    return history


def rates(
    history: History, trial: PipelineTrial = FAILING, jobs: int = 1, continuations: int = 4
) -> FailureRates:
    return failure_rates(
        APPLICATION,
        trial,
        history.events,
        ["S6"],
        protocol=BROKEN,
        until_us=3_000_000,
        continuations=continuations,
        jobs=jobs,
    )


def test_the_event_that_decides_is_where_the_rate_jumps(history: History) -> None:
    found = rates(history)
    assert found.rise is not None
    assert found.jump is not None
    assert [point.rate for point in found.rise] == [0, 1]
    assert found.rise[1].at_us == MERGE_US
    decisive = history.events[found.jump[0]]
    assert isinstance(decisive, FaultStruck)
    assert (decisive.kind, decisive.detail) == ("operate", "MergeIntervals")
    assert [point.at_us for point in found.points] == sorted({point.at_us for point in found.points})
    assert len(found.points) >= 12


def test_the_result_does_not_depend_on_the_number_of_processes(history: History) -> None:
    assert rates(history, jobs=2) == rates(history)


def test_a_continuation_equals_the_run_up_to_its_moment_and_differs_afterwards(history: History) -> None:
    at_us = 2_200_000
    tails = set()
    for seed in (1, 2):
        trial = msgspec.structs.replace(FAILING, redraw=Redraw(at_us, seed))
        other, _, _ = run_plan(APPLICATION, trial, BROKEN)
        assert [event for event in other if event.at_us < at_us] == [
            event for event in history if event.at_us < at_us
        ]
        tails.add(other.digest())
        assert not any(type(event) is FaultStruck and event.at_us > at_us for event in other), (
            "the merge is dropped"
        )
    assert len(tails) == 2


def test_faults_at_steps_no_longer_begin(history: History) -> None:
    """Without the redraw, the same schedule crashes a worker later."""
    step = f.StepFault(
        Step("worker-0", Does.SENDS, "Report", 3),
        f.Crash(at_us=0, process="worker-0"),
    )
    plan = msgspec.structs.replace(FAILING.plan, faults=FaultSchedule((), 5_950_000, at_steps=(step,)))
    struck = [
        any(
            type(event) is FaultStruck
            for event in run_plan(APPLICATION, PipelineTrial(plan, redraw=redraw))[0]
        )
        for redraw in (None, Redraw(1, 1))
    ]
    assert struck == [True, False]


def test_a_run_without_faults_has_no_decisive_event(history: History) -> None:
    plan = msgspec.structs.replace(FAILING.plan, faults=FaultSchedule())
    assert rates(history, PipelineTrial(plan)) == FailureRates((), None)


def test_a_run_that_stopped_with_an_error_is_measured_by_time() -> None:
    found = failure_rates(APPLICATION, FAILING, [], ["S6"], protocol=BROKEN, continuations=1)
    assert found.jump is None
    assert found.rise is not None
    assert found.rise[0].at_us < MERGE_US <= found.rise[1].at_us + 1
    assert CONTINUATIONS == 50
