"""The Dataflow layer against the brute-force model, on random groupings with random input (Dataflow 2)."""

import pytest
from hypothesis import given, settings

from headrace_properties.proof.dataflow.drawn_groupings import GroupingCase, cases, merging_cases
from headrace_properties.proof.dataflow.model import run_model
from headrace_properties.proof.dataflow.transcripts import run_layer_counting, say


def agree(case: GroupingCase) -> int:
    """Every pane, in order, to the microsecond; and as many elements dropped, whose number is returned."""
    told = run_model(case.query, case.steps)
    emitted, dropped = run_layer_counting(case.query, case.steps)
    if emitted != list(told.panes):
        assert [say(pane) for pane in emitted] == [say(pane) for pane in told.panes]
    assert emitted == list(told.panes)
    assert dropped == len(told.dropped)
    return dropped


@given(cases())
def test_the_layer_emits_what_the_model_tells(case: GroupingCase) -> None:
    agree(case)


@given(cases(coinciding=True))
def test_so_it_does_where_arrivals_watermarks_and_boundaries_coincide(case: GroupingCase) -> None:
    agree(case)


@given(cases(coinciding=True, retractions=True))
def test_so_it_does_where_elements_are_taken_back(case: GroupingCase) -> None:
    agree(case)


@pytest.mark.nightly
@given(cases(coinciding=True, retractions=True))
@settings(max_examples=10_000)
def test_so_it_does_ten_thousand_times(case: GroupingCase) -> None:
    agree(case)


@given(merging_cases())
def test_so_it_does_where_the_states_of_triggers_with_parts_merge(case: GroupingCase) -> None:
    agree(case)
