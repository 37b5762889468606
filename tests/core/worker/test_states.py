"""The tables of states (MillWheel 6.1, 6.2, 7.1): every state meets every input, declared or refused."""

import enum
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from headrace.worker.slot import KeySlot
from headrace.worker.states import (
    INTERVAL,
    PACE,
    STEP,
    AssignmentState,
    IntervalInput,
    Pace,
    PaceInput,
    StepInput,
    StepState,
)
from headrace.worker.step import KeyStep
from tests.core.driver import Rig, counter

RUN = Rig(counter()).interval.commits.prepare(0, KeySlot("dog"))
STRONG = (StepInput.COMPLETE, StepInput.WRITE, StepInput.WRITTEN)
WEAK = (StepInput.SENT, *STRONG)
WEAK_STRAGGLER = (StepInput.SENT, StepInput.STRAGGLING, StepInput.WRITE, StepInput.WRITTEN)
STATELESS = (StepInput.SENT, StepInput.COMPLETE, StepInput.SKIP_WRITE)


def interval_moved(state: AssignmentState, input_: IntervalInput) -> AssignmentState:
    interval = Rig(counter()).interval
    interval.state = state
    try:
        interval.move(input_)
    except AssertionError:
        assert interval.state is state
        raise
    return interval.state


def step_moved(state: StepState, input_: StepInput) -> StepState:
    step = KeyStep(RUN.view.slot, RUN.view.version, RUN.outcome)
    step.state = state
    try:
        step.advance(input_)
    except AssertionError:
        assert step.state is state
        raise
    return step.state


def pace_moved(state: Pace, input_: PaceInput) -> Pace:
    commits = Rig(counter()).interval.commits
    commits.pace = state
    return commits._move(input_)


@pytest.mark.parametrize(
    ("table", "move", "state", "input_"),
    [
        pytest.param(table, move, state, input_, id=f"{state.name}-{input_.name}")
        for table, states, inputs, move in (
            (INTERVAL, AssignmentState, IntervalInput, interval_moved),
            (STEP, StepState, StepInput, step_moved),
            (PACE, Pace, PaceInput, pace_moved),
        )
        for state, input_ in product(states, inputs)
    ],
)
def test_each_pair_is_declared_or_raises(
    table: Mapping[Any, Any], move: Any, state: enum.Enum, input_: enum.Enum
) -> None:
    if (state, input_) in table:
        assert move(state, input_) is table[state, input_]
    else:
        with pytest.raises(AssertionError, match=f"{input_.name} in {state.name}"):
            move(state, input_)


# An assignment


def test_nothing_revives_a_dropped_interval() -> None:
    assert not [state for state, _ in INTERVAL if state is AssignmentState.DROPPED]


def test_only_the_end_of_its_scan_makes_an_interval_owned() -> None:
    assert [pair for pair, after in INTERVAL.items() if after is AssignmentState.OWNED] == [
        (AssignmentState.SCANNING, IntervalInput.SCAN_ENDED),
        (AssignmentState.RECOVERING, IntervalInput.SCAN_ENDED),
    ]


def test_an_interval_is_dropped_by_a_refusal_and_by_a_table_at_any_time_of_its_life() -> None:
    for state in (AssignmentState.SCANNING, AssignmentState.RECOVERING, AssignmentState.OWNED):
        for input_ in (IntervalInput.REFUSED, IntervalInput.REASSIGNED):
            assert INTERVAL[state, input_] is AssignmentState.DROPPED


@pytest.mark.parametrize(
    "input_", [IntervalInput.REFUSED, IntervalInput.REASSIGNED], ids=lambda value: value.name
)
def test_dropping_twice_is_dropping_once(input_: IntervalInput) -> None:
    interval = Rig(counter()).interval
    interval.drop(IntervalInput.REFUSED)
    interval.drop(input_)
    assert interval.state is AssignmentState.DROPPED


# A step


@pytest.mark.parametrize(
    "path", [STRONG, WEAK, WEAK_STRAGGLER, STATELESS], ids=["strong", "weak", "straggler", "stateless"]
)
def test_each_kind_of_step_reaches_its_end(path: tuple[StepInput, ...]) -> None:
    step = KeyStep(RUN.view.slot, RUN.view.version, RUN.outcome)
    for input_ in path:
        assert step.state is not StepState.DONE
        step.advance(input_)
    assert step.state is StepState.DONE


def lives(state: StepState, so_far: tuple[StepInput, ...] = ()) -> Iterator[tuple[StepInput, ...]]:
    """Every sequence of inputs from a state to the end."""
    assert len(so_far) <= len(StepInput), "a step's life has no circle"
    if state is StepState.DONE:
        yield so_far
    for (before, input_), after in STEP.items():
        if before is state:
            yield from lives(after, (*so_far, input_))


def test_a_steps_life_is_one_of_these() -> None:
    sending = [(), (StepInput.SENT,)]
    ready = {(*sent, StepInput.COMPLETE) for sent in sending} | {(StepInput.SENT, StepInput.STRAGGLING)}
    ends = [(StepInput.WRITE, StepInput.WRITTEN), (StepInput.SKIP_WRITE,)]
    assert {StepState.RUNNING, *STEP.values()} == set(StepState)
    assert set(lives(StepState.RUNNING)) == {(*start, *end) for start in ready for end in ends}


# The next write


def test_no_write_is_sent_without_room_for_it() -> None:
    writes = {PaceInput.WROTE, PaceInput.WROTE_LAST}
    assert {pace for pace, input_ in PACE if input_ in writes} == set(Pace) - {Pace.AWAITING_ANSWER}


def test_only_an_answer_makes_room() -> None:
    leaving = [input_ for (pace, input_), after in PACE.items() if pace is Pace.AWAITING_ANSWER is not after]
    assert leaving == [PaceInput.ANSWERED]


def test_an_answer_may_come_at_any_time_and_the_clock_may_be_put_back() -> None:
    for input_ in (PaceInput.ANSWERED, PaceInput.CLOCK_SET_BACK):
        assert {pace for pace, accepted in PACE if accepted is input_} == set(Pace)


def test_the_host_is_asked_for_a_wake_once_and_its_wake_is_awaited_also_when_the_clock_was_put_back() -> None:
    assert [pace for (pace, _), after in PACE.items() if after is Pace.AWAITING_WAKE is not pace] == [
        Pace.LINGERING
    ]
    assert PACE[Pace.AWAITING_WAKE, PaceInput.CLOCK_SET_BACK] is Pace.AWAITING_WAKE


def test_every_pace_can_be_reached_and_left() -> None:
    for pace in Pace:
        assert any(after is pace is not before for (before, _), after in PACE.items())
        assert any(before is pace is not after for (before, _), after in PACE.items())
