"""The life of a step (MillWheel 6.1.1 to 6.1.3): every state meets every input, declared or refused."""

from collections.abc import Iterator
from itertools import product

import pytest

from headrace.worker.slot import KeySlot
from headrace.worker.step import STEP, KeyStep, StepInput, StepState
from tests.core.driver import Rig, counter

RUN = Rig(counter()).interval.commits.prepare(0, KeySlot("dog"))
STRONG = (StepInput.COMPLETE, StepInput.WRITE, StepInput.WRITTEN)
WEAK = (StepInput.SENT, *STRONG)
WEAK_STRAGGLER = (StepInput.SENT, StepInput.STRAGGLING, StepInput.WRITE, StepInput.WRITTEN)
STATELESS = (StepInput.SENT, StepInput.COMPLETE, StepInput.SKIP_WRITE)


def step_in(state: StepState) -> KeyStep:
    step = KeyStep(RUN.slot, RUN.version, RUN)
    step.state = state
    return step


@pytest.mark.parametrize(
    ("state", "input_"), list(product(StepState, StepInput)), ids=lambda value: value.name
)
def test_each_pair_is_declared_or_raises(state: StepState, input_: StepInput) -> None:
    step = step_in(state)
    if (state, input_) in STEP:
        step.advance(input_)
        assert step.state is STEP[state, input_]
    else:
        with pytest.raises(AssertionError, match=f"{input_.name} in {state.name}"):
            step.advance(input_)
        assert step.state is state


@pytest.mark.parametrize(
    "path", [STRONG, WEAK, WEAK_STRAGGLER, STATELESS], ids=["strong", "weak", "straggler", "stateless"]
)
def test_each_kind_of_step_reaches_its_end(path: tuple[StepInput, ...]) -> None:
    step = KeyStep(RUN.slot, RUN.version, RUN)
    for input_ in path:
        assert step.state is not StepState.DONE
        step.advance(input_)
    assert step.state is StepState.DONE


def test_every_state_can_be_reached_and_only_done_is_an_end() -> None:
    reached, frontier = {StepState.RUNNING}, [StepState.RUNNING]
    while frontier:
        state = frontier.pop()
        following = [after for (before, _), after in STEP.items() if before is state]
        assert bool(following) is (state is not StepState.DONE)
        frontier.extend(after for after in following if after not in reached)
        reached.update(following)
    assert reached == set(StepState)


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
    assert set(lives(StepState.RUNNING)) == {(*start, *end) for start in ready for end in ends}


def test_no_step_is_done_before_its_write_is_durable_or_proved_needless() -> None:
    assert {input_ for (_, input_), after in STEP.items() if after is StepState.DONE} == {
        StepInput.WRITTEN,
        StepInput.SKIP_WRITE,
    }
