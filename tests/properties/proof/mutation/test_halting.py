"""Runs that must stop do, with an error that says where; one that says something else is noticed."""

import pytest

from headrace.worker import running
from headrace_properties.proof.mutation.halting import try_halting
from headrace_properties.proof.oracles import fired


def test_the_sound_engine_stops_with_the_right_error() -> None:
    assert [fired(try_halting(seed)) for seed in range(10)] == [()] * 10


def test_an_error_that_names_another_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = running.final_error
    monkeypatch.setattr(running, "final_error", lambda where, _, *rest: right(where, "z", *rest))
    assert [bool(fired(try_halting(seed))) for seed in range(5)] == [True, True, False, False, False]


def test_a_run_that_goes_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.StepRun, "give_up", lambda *_: True)
    assert "the run went on" in str(try_halting(0).error)
