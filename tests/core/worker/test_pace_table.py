"""What the next write waits for (MillWheel 6.1.1): every state meets every input, declared or refused."""

from itertools import product

import pytest

from headrace.worker.pace import PACE, Pace, PaceInput, moved


@pytest.mark.parametrize(("pace", "input_"), list(product(Pace, PaceInput)), ids=lambda value: value.name)
def test_each_pair_is_declared_or_raises(pace: Pace, input_: PaceInput) -> None:
    if (pace, input_) in PACE:
        assert moved(pace, input_) is PACE[pace, input_]
    else:
        with pytest.raises(AssertionError, match=f"{input_.name} in {pace.name}"):
            moved(pace, input_)


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


def test_every_state_can_be_reached_and_left() -> None:
    for pace in Pace:
        assert any(after is pace is not before for (before, _), after in PACE.items())
        assert any(before is pace is not after for (before, _), after in PACE.items())
