"""Event times at the ends of time: an element has none, and windows reach as far as the global one."""

from typing import Any

import pytest

from headrace import HOUR, MAX_TIME, MIN_TIME, SECOND, HeadraceError, Pipeline
from headrace.dataflow import (
    END_OF_TIME,
    Batch,
    DataflowError,
    Element,
    Engine,
    FixedWindows,
    Sessions,
    SlidingWindows,
    Streaming,
    Window,
    WindowFn,
    read,
)
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_sim import Feed, FeedBuilder, simulate

LONG = 30 * HOUR
"""Longer than what lies between the end of the global window and the end of time."""


def moved_to(times: list[Any], windows: WindowFn, engine: Engine | None = None) -> tuple[Pipeline, Feed]:
    """Elements at these event times, counted by window twice."""

    def time_of(number: int) -> Any:
        return times[number]

    counts = read("scores").with_time(time_of).window_into(windows).count().sum()
    pipeline = counts.to("out").pipeline("games", engine=engine)
    return pipeline, feed_of(pipeline, [SECOND] * len(times))


def feed_of(pipeline: Pipeline, timestamps: list[int]) -> Feed:
    builder = FeedBuilder(pipeline)
    for number, timestamp in enumerate(timestamps):
        builder.record(at_us=SECOND, value=number, timestamp=timestamp, key="ann")
    builder.watermark(at_us=2 * SECOND, low_watermark=SECOND)
    return builder.build()


def refusals(pipeline: Pipeline, feed: Feed) -> list[str]:
    found = []
    for run in (run_reference, simulate):
        with pytest.raises(HeadraceError) as caught:
            run(pipeline, feed)
        assert isinstance(caught.value, DataflowError)
        found.append(str(caught.value))
    return found


@pytest.mark.parametrize(
    "time",
    [MAX_TIME, MAX_TIME - 1, END_OF_TIME, 2**70, MIN_TIME, MIN_TIME - 1, 1.5, None, True, "1"],
    ids=str,
)
def test_a_moved_element_is_refused_with_the_time_that_it_got(time: Any) -> None:
    for text in refusals(*moved_to([time], FixedWindows(LONG))):
        assert text.startswith("element with key 'ann', value 0: with_time(")
        assert f"returned {time!r}" in text
        assert "Return an int of microseconds after MIN_TIME and before END_OF_TIME" in text


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "only mapped"])
def test_a_record_beyond_the_global_window_is_refused_with_its_place(grouped: bool) -> None:  # noqa: FBT001  a parameter of the test
    scores = read("scores")
    flow = scores.window_into(FixedWindows(SECOND)).sum() if grouped else scores.map(str)
    pipeline = flow.to("out").pipeline("games")
    for text in refusals(pipeline, feed_of(pipeline, [END_OF_TIME])):
        assert text.startswith(
            "stream 'scores', record scores/0:0, key 'ann': event time 9223371950454775807 "
        )
        assert "before END_OF_TIME" in text


@pytest.mark.parametrize("engine", [Streaming(), Batch()], ids=["streaming", "batch"])
@pytest.mark.parametrize(
    ("windows", "counts"),
    [
        (FixedWindows(LONG), [1, 2]),
        (FixedWindows(HOUR), [1, 1, 1]),
        (Sessions(LONG), [1, 2]),
        (SlidingWindows(LONG, LONG // 2), [1, 1, 2, 2]),
    ],
    ids=["fixed", "short", "sessions", "sliding"],
)
def test_a_window_that_would_reach_beyond_the_ends_of_time_is_cut_off_there(
    windows: WindowFn, counts: list[int], engine: Engine
) -> None:
    """Each element is counted, here and in a second grouping, in windows that lie in the global one."""
    times = [MIN_TIME + 1, END_OF_TIME - 3 * HOUR, END_OF_TIME - 1]
    pipeline, feed = moved_to(times, windows, engine)
    for outputs in (run_reference(pipeline, feed).outputs, outputs_of(simulate(pipeline, feed))):
        panes = [pipeline.codec("out").decode(output.value) for output in outputs.elements()]
        assert sorted(pane.value for pane in panes) == counts
        assert all(MIN_TIME <= pane.window.start < pane.window.end <= END_OF_TIME for pane in panes)


def test_a_merge_that_reaches_beyond_the_ends_of_time_is_cut_off_there() -> None:
    class Eras:
        """All of a key in one window, which is wider than time."""

        def assign_windows(self, element: Element) -> Any:
            return Sessions(SECOND).assign_windows(element)

        def merge_windows(self, windows: Any) -> Any:
            del windows
            return [Window(-(2**64), 2**64)]

    pipeline, feed = moved_to([0, 5 * SECOND], Eras())
    (out,) = run_reference(pipeline, feed).outputs.elements()
    pane = pipeline.codec("out").decode(out.value)
    assert (pane.value, pane.window.start, pane.window.end) == (2, MIN_TIME, END_OF_TIME)
