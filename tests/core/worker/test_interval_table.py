"""The life of an assignment (MillWheel 6.2, 7.1): every state meets every input, declared or refused."""

from itertools import product

import pytest

from headrace.worker.interval_state import INTERVAL, AssignmentState, IntervalInput
from tests.core.driver import Rig, counter


@pytest.mark.parametrize(
    ("state", "input_"), list(product(AssignmentState, IntervalInput)), ids=lambda value: value.name
)
def test_each_pair_is_declared_or_raises(state: AssignmentState, input_: IntervalInput) -> None:
    interval = Rig(counter()).interval
    interval.state = state
    if (state, input_) in INTERVAL:
        interval.move(input_)
        assert interval.state is INTERVAL[state, input_]
    else:
        with pytest.raises(AssertionError, match=f"{input_.name} in {state.name}"):
            interval.move(input_)
        assert interval.state is state


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
