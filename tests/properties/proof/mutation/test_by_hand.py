"""Groupings by hand, and functions that return the wrong thing: the sound layer passes, and one that does not is noticed."""

from typing import Any

import pytest

from headrace.dataflow import firing, pardo
from headrace_properties.proof.mutation.flows import MODEL
from headrace_properties.proof.mutation.halting_flows import try_halting_flows
from headrace_properties.proof.mutation.mutant_runs import BY_HAND, engine_spec


def test_a_watermark_that_must_pass_the_end_of_a_window_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = engine_spec(2, (BY_HAND,)).load()
    assert [runs.run(BY_HAND, number).broken for number in range(2)] == [{}, {}]
    monkeypatch.setattr(firing.Seen, "has_passed", lambda seen, _: seen.watermark > seen.window.end)
    assert any(MODEL in runs.run(BY_HAND, number).broken for number in range(2))


def test_each_function_is_named_that_returned_the_wrong_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [try_halting_flows(number).error for number in range(10)] == [None] * 10

    def several(element: Any, call: str, function: Any, made: Any, remedy: str) -> Any:
        del element, call, function, remedy
        return made

    monkeypatch.setattr(pardo, "_several", several)
    assert "not iterable" in str(try_halting_flows(0).error)
