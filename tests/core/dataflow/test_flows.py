"""Two pipelines that use all of the layer come to what plain Python makes of their input, under random faults (Dataflow 2)."""

from collections.abc import Callable

import pytest

from headrace.dataflow import contents
from headrace_properties.search.judging import JudgedRun
from tests.core.dataflow.flows import try_flows
from tests.core.dataflow.more_flows import try_more_flows
from tests.nights import others_at_night


@pytest.mark.parametrize("seed", others_at_night(range(3), range(100)))
@pytest.mark.parametrize("try_", [try_flows, try_more_flows])
def test_what_comes_out_is_what_plain_python_makes_of_the_input(
    try_: Callable[[int], JudgedRun], seed: int
) -> None:
    assert not try_(seed).failed


def test_no_fault_of_the_sound_engine_makes_a_record_late_of_which_plain_python_knows_nothing() -> None:
    """The plan of this seed delays a record until its window has been emitted."""
    assert not try_flows(83).failed


def test_values_that_are_combined_wrongly_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_combined", lambda *_: 1)
    assert "model" in try_flows(0).broken
