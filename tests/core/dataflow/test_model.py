"""The Dataflow layer against the brute-force model, on random groupings with random input (Dataflow 2)."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.dataflow import MAX, Accumulation, AtWatermark, Streaming, TimestampCombiner, Timing, Trigger
from headrace_scenarios.figures.groupings import EmittedPane
from tests.core.dataflow.drawn_groupings import GroupingCase, cases, merging_cases
from tests.core.dataflow.evidence import everywhere
from tests.core.dataflow.model import run_model
from tests.core.dataflow.transcripts.layer import run_layer_counting
from tests.core.dataflow.transcripts.matching import say


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


@given(cases(coinciding=True, retractions=True), st.integers(1, 6))
def test_so_it_does_where_values_are_kept_in_rows_of_chunks_of_any_size(
    case: GroupingCase, most: int
) -> None:
    """A maximum cannot be reversed. The model cannot tell of one that is taken back from a window that was collected."""
    query = replace(case.query, combine=MAX, allowed_lateness_us=None)
    assume(query.accumulation is not Accumulation.DISCARDING and "When(" not in repr(query.trigger))
    told = run_model(query, case.steps)
    assert run_layer_counting(query, case.steps, most) == (list(told.panes), len(told.dropped))


PERCENTILE = 60.0


def by_percentile(trigger: Trigger) -> Trigger:
    """A trigger that looks at a percentile watermark in the place of the low one."""
    return AtWatermark(percentile=PERCENTILE) if isinstance(trigger, AtWatermark) else trigger


@given(cases(coinciding=True))
def test_a_percentile_watermark_makes_the_panes_that_the_low_watermark_would(case: GroupingCase) -> None:
    """Nothing but the trigger looks at it: timing and event time of panes are the low watermark's."""
    end = TimestampCombiner.END_OF_WINDOW
    query = replace(case.query, allowed_lateness_us=None, engine=Streaming(), timestamps=end)
    changed = replace(query, trigger=everywhere(query.trigger, by_percentile))
    told = run_model(query, case.steps).panes
    emitted, _ = run_layer_counting(changed, case.steps, percentile=PERCENTILE)
    assert untimed(emitted, case) == untimed(told, case)


def untimed(panes: Iterable[EmittedPane], case: GroupingCase) -> list[EmittedPane]:
    """Leave out what is told at the end of time. What is emitted of several keys at an instant is in any order."""
    last = len(case.steps) - 1
    kept = [replace(pane, timing=Timing.EARLY, time=0) for pane in panes if pane.step < last]
    return sorted(kept, key=lambda pane: pane.key)


@pytest.mark.nightly
@given(cases(coinciding=True, retractions=True))
@settings(max_examples=10_000)
def test_so_it_does_ten_thousand_times(case: GroupingCase) -> None:
    agree(case)


@given(merging_cases())
def test_so_it_does_where_the_states_of_triggers_with_parts_merge(case: GroupingCase) -> None:
    agree(case)
