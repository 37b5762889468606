"""Nothing is lost in a grouping or between two (Dataflow 2.2, 2.3; MillWheel 4.5), on random groupings and the reference."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace as replaced

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from headrace import MIN_TIME, SECOND, TypedCodec
from headrace.dataflow import Accumulation, FixedWindows, Pane, TimestampCombiner, read
from headrace_properties.reference import run_reference
from headrace_scenarios.figures.groupings import InputStep, Query, feed_of
from tests.core.dataflow.drawn_groupings import SLOTS, GroupingCase, cases, micro_batches
from tests.core.dataflow.transcripts.layer import run_layer_counting

DIGIT_BITS = 3
"""An element is a digit of a sum, which says in how many windows it was: up to six (see `windows`)."""


def as_digits(steps: Iterable[InputStep]) -> list[InputStep]:
    """Give each element a value by which it can be told in any sum."""
    digits = iter(range(SLOTS))
    return [
        step
        if step.element is None
        else InputStep(step.at_us, replace(step.element, value=1 << DIGIT_BITS * next(digits)))
        for step in steps
    ]


def digits_of(total: int) -> Counter[int]:
    """Count each element in a sum."""
    return Counter({1 << n: total >> n & 7 for n in range(0, DIGIT_BITS * SLOTS, DIGIT_BITS)})


def grouped_twice(query: Query, steps: Sequence[InputStep]) -> Counter[int]:
    """Count each element in what comes out of a second grouping, which takes nothing that is late.

    Panes with the event times of elements are grouped by other windows, in which they would soon be late.
    """
    elements = read("events", bounded=True).allowed_lateness(query.allowed_lateness_us)
    panes = (
        elements.window_into(query.windows).trigger(query.trigger).timestamps_of_panes(query.timestamps).sum()
    )
    if query.timestamps is not TimestampCombiner.END_OF_WINDOW:
        panes = panes.window_into(FixedWindows(SECOND))
    pipeline = panes.allowed_lateness(0).sum().to("out").pipeline("twice", engine=query.engine)
    decode = TypedCodec(Pane).decode
    outputs = run_reference(pipeline, feed_of(pipeline, steps, lead_us=0)).outputs
    return digits_of(sum(decode(output.value).value for output in outputs.elements()))


def on_time(query: Query, steps: Iterable[InputStep]) -> Counter[int]:
    """Count for each element the windows whose end the watermark had not reached when it came."""
    watermark = MIN_TIME
    found: Counter[int] = Counter()
    for step in steps:
        watermark = max(watermark, step.watermark or MIN_TIME)
        if step.element is not None:
            windows = query.windows.assign_windows(step.element)
            found[step.element.value] = sum(window.end > watermark for window in windows)
    return found


def loses_nothing(case: GroupingCase) -> None:
    steps = as_digits(case.steps)
    assert not on_time(case.query, steps) - grouped_twice(case.query, steps)


@given(cases(settling=True))
def test_what_is_on_time_passes_a_second_grouping_that_takes_nothing_late(case: GroupingCase) -> None:
    loses_nothing(case)


@given(cases(settling=True, engine=micro_batches()))
@settings(max_examples=300)
def test_so_it_does_where_late_and_on_time_elements_share_a_batch(case: GroupingCase) -> None:
    loses_nothing(case)


def accounts_for_all(case: GroupingCase) -> int:
    """Return the number of elements that were dropped."""
    steps, query = as_digits(case.steps), replaced(case.query, accumulation=Accumulation.DISCARDING)
    panes, dropped = run_layer_counting(query, steps)
    found = digits_of(sum(pane.value for pane in panes))
    given = Counter(
        {
            step.element.value: len(list(query.windows.assign_windows(step.element)))
            for step in steps
            if step.element
        }
    )
    assert not found - given
    assert found.total() + dropped == given.total()
    return dropped


@given(cases(coinciding=True))
def test_each_element_goes_out_once_or_is_counted_as_dropped(case: GroupingCase) -> None:
    accounts_for_all(case)


@pytest.mark.nightly
@given(cases(settling=True))
@settings(max_examples=10_000)
def test_what_is_on_time_passes_ten_thousand_times(case: GroupingCase) -> None:
    loses_nothing(case)


@pytest.mark.nightly
@given(cases(coinciding=True))
@settings(max_examples=10_000)
def test_each_element_is_accounted_for_ten_thousand_times(case: GroupingCase) -> None:
    accounts_for_all(case)
