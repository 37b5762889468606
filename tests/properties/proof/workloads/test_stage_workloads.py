"""Workloads for special cases: each is reached even without faults, and every oracle holds."""

from typing import Any

import pytest
from msgspec.structs import replace

from headrace import MAX_TIME, MILLISECOND, SECOND
from headrace.history import (
    Applied,
    ComputationRemoved,
    DeadLettered,
    Executed,
    History,
    Injected,
    SourceHeld,
)
from headrace.injector.file_injector import FileInjectorSource
from headrace.rules import Rules
from headrace.wire.effects import SourceEvent
from headrace.wire.messages import ChangeTopology
from headrace_properties.checkers import judge
from headrace_properties.proof.workloads import HOUR_US, WORKLOADS, read_files
from headrace_properties.verdict import Holds, Violated
from headrace_sim import SOUND, FaultSchedule, FeedBuilder, Protocol, simulate
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


def test_the_dead_letter_of_a_record_without_a_time_has_that_of_its_arrival() -> None:
    """Every third record has the time that no record may have."""
    pipeline = WORKLOADS["malformed"].pipeline
    builder = FeedBuilder(pipeline)
    arrivals_us = range(SECOND, 4 * SECOND, SECOND // 3)
    for number, at_us in enumerate(arrivals_us):
        builder.raw(at_us=at_us, data=b"1", timestamp=at_us if number % 3 else MAX_TIME, key="ab")
        builder.watermark(at_us=at_us + 1, low_watermark=at_us - 300 * MILLISECOND)
    history = simulate(pipeline, builder.build())
    letters = [one for event in history if isinstance(event, Injected) for one in event.productions]
    assert [one.timestamp for one in letters if one.stream == "unread"] == [*arrivals_us[::3]]


def test_a_source_that_is_hours_ahead_waits_for_the_other() -> None:
    history = run("apart")
    end_us = max(e.at_us for e in history if isinstance(e, SourceHeld) and e.process == "letters/0")
    ahead = [e.at_us for e in history if isinstance(e, Injected) and e.productions[0].timestamp > HOUR_US]
    assert min(ahead) > end_us


def test_a_leaving_computation_drains_to_both_of_its_consumers() -> None:
    history = run("draining", FaultSchedule((Operate(at_us=SECOND, verb=ChangeTopology(1)),), 2 * SECOND))
    (removed,) = [event for event in history if isinstance(event, ComputationRemoved)]
    assert removed.computation == "auditor"
    fed = {
        name: sum(
            record_id.startswith("auditor@") for e in history if isinstance(e, Applied) and e.computation == name
            for record_id, _ in e.delta.seen
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


def test_a_chain_leaves_from_its_head_on_and_comes_back() -> None:
    """Both computations retire at once; the second may still get something from the first, and so goes later."""
    there = Operate(at_us=SECOND, verb=ChangeTopology(1))
    history = run("withdrawing", FaultSchedule((there,), 4 * SECOND))
    removed = [event.computation for event in history if isinstance(event, ComputationRemoved)]
    assert removed == ["senders", "clerks"]
    back = Operate(at_us=1_010 * MILLISECOND, verb=ChangeTopology(0))
    history = run("withdrawing", FaultSchedule((there, back), 4 * SECOND))
    assert not [event for event in history if isinstance(event, ComputationRemoved)]


@pytest.mark.parametrize("name", ["receive", "record", "finish", "end"])
def test_a_source_of_files_that_tells_another_watermark_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = getattr(FileInjectorSource, name)

    def later(source: FileInjectorSource, *given: Any) -> list[SourceEvent]:
        return [replace(event, arrived_us=event.arrived_us + 1) for event in sound(source, *given)]

    read_files(0)
    monkeypatch.setattr(FileInjectorSource, name, later)
    with pytest.raises(AssertionError):
        [read_files(seed) for seed in range(10)]


def never(*_: object) -> bool:
    return False


@pytest.mark.parametrize("rule", ["is_overloaded", "is_idle"])
def test_load_that_moves_nothing_is_noticed(rule: str) -> None:
    workload = WORKLOADS["busy"]
    lazy = Protocol(rule, rules=type(rule, (Rules,), {rule: never})())
    for protocol, holds in ((SOUND, True), (lazy, False)):
        history = simulate(workload.deployed, workload.feed(0), options=workload.options, protocol=protocol)
        assert (workload.unexpected(history) == "") is holds


def test_user_code_that_is_told_something_else_is_noticed() -> None:
    workload = WORKLOADS["witnesses"]
    events = list(simulate(workload.deployed, workload.feed(0), options=workload.options))
    assert workload.unexpected(History(events)) == ""
    (number, told), *_ = [(number, e) for number, e in enumerate(events) if isinstance(e, Executed)]
    for changed in (
        replace(told, cause="another"),
        replace(told, late=not told.late),
        replace(told, input_watermark=told.input_watermark + 1),
        replace(told, at_us=told.at_us + 2 * SECOND),
    ):
        assert workload.unexpected(History([*events[:number], changed, *events[number + 1 :]]))
