"""Workloads for a case of their own: it comes up even without faults, and every oracle holds."""

from headrace import SECOND
from headrace.history import (
    Applied,
    ComputationRemoved,
    DeadLettered,
    Executed,
    History,
    Injected,
    SourceHeld,
)
from headrace.wire.messages import ChangeTopology
from headrace_properties.checkers import judge
from headrace_properties.search.workloads import HOUR_US, WORKLOADS
from headrace_properties.verdict import Holds, Violated
from headrace_sim import FaultSchedule, simulate
from headrace_sim.faults import NO_FAULTS, Operate


def run(name: str, faults: FaultSchedule = NO_FAULTS) -> History:
    workload = WORKLOADS[name]
    history = simulate(workload.deployed, workload.feed(0), options=workload.options, faults=faults)
    verdicts = judge(history, workload.deployed, workload.options.engine)
    assert not [verdict for verdict in verdicts.values() if isinstance(verdict, Violated)]
    assert isinstance(verdicts.get("S18", Holds(1)), Holds)
    return history


def test_malformed_input_goes_to_the_dead_letters_and_is_counted_there() -> None:
    history = run("malformed")
    letters = [event for event in history if isinstance(event, DeadLettered)]
    assert len(letters) == 3
    assert sum(isinstance(e, Executed) and e.computation == "clerks" for e in history) == 3


def test_a_source_that_is_hours_ahead_waits_for_the_other() -> None:
    history = run("apart")
    end_us = max(e.at_us for e in history if isinstance(e, SourceHeld) and e.process == "letters/0")
    ahead = [e.at_us for e in history if isinstance(e, Injected) and e.productions[0].timestamp > HOUR_US]
    assert min(ahead) > end_us


def test_what_leaves_drains_to_both_of_its_consumers() -> None:
    history = run("draining", FaultSchedule((Operate(at_us=SECOND, verb=ChangeTopology(1)),), 2 * SECOND))
    (removed,) = [event for event in history if isinstance(event, ComputationRemoved)]
    assert removed.computation == "auditor"
    fed = {
        name: sum(
            one.startswith("auditor@") for e in history if isinstance(e, Applied) and e.computation == name
            for one, _ in e.delta.seen
        )
        for name in ("readers", "copyists")
    }  # fmt: skip
    assert fed["readers"] == fed["copyists"] > 0


def test_timers_set_timers_that_are_due_at_once() -> None:
    history = run("chains")
    assert [
        event
        for event in history
        if isinstance(event, Executed) and event.timer is not None and event.timer.tag.endswith("+")
    ]
