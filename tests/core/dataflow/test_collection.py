"""The fluent API makes ordinary pipelines; in the reference they come to what a plain computation does."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from headrace import MAX_TIME, SECOND, Pipeline, Record
from headrace.dataflow import (
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    Element,
    Engine,
    FixedWindows,
    Flow,
    KeyState,
    MicroBatch,
    Pane,
    PCollection,
    Repeat,
    Sessions,
    Streaming,
    Timing,
    Window,
    read,
)
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_sim import Feed, FeedBuilder, simulate

Score = tuple[int, int, str, int]
"""Arrival, event time (both in seconds), player, points."""

SCORES: list[Score] = [
    (1, 0, "ann", 5),
    (2, 2, "bob", 3),
    (3, 1, "ann", 4),
    (6, 5, "bob", 8),
    (9, 2, "ann", 7),
]


def feed_of(pipeline: Pipeline, scores: Iterable[Score] = SCORES, slack: int = 1) -> Feed:
    builder = FeedBuilder(pipeline)
    for at, time, player, points in scores:
        builder.record(at_us=at * SECOND, value=points, timestamp=time * SECOND, key=player)
        builder.watermark(at_us=at * SECOND, low_watermark=(at - slack) * SECOND)
    builder.watermark(at_us=20 * SECOND, low_watermark=MAX_TIME)
    return builder.build()


def panes_of(outputs: Counter[Emitted], pipeline: Pipeline, stream: str) -> list[tuple[str, Pane]]:
    found = [
        (output.key, pipeline.codec(stream).decode(output.value))
        for output in outputs.elements()
        if output.stream == stream
    ]
    return sorted(found, key=lambda each: (each[0], each[1].window.order, each[1].index, each[1].retraction))


def run(flow: Flow, stream: str = "out", engine: Engine | None = None) -> list[tuple[Any, ...]]:
    pipeline = flow.pipeline("games", engine=engine)
    panes = panes_of(run_reference(pipeline, feed_of(pipeline)).outputs, pipeline, stream)
    return [(key, pane.window.start // SECOND, pane.value) for key, pane in panes]


def teams(scores: PCollection[Any]) -> PCollection[Any]:
    return scores.par_do(lambda element: [("team", element.value)])


def test_sums_in_fixed_windows() -> None:
    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(FixedWindows(4 * SECOND))
        .accumulating()
        .sum()
        .to("out")
    )
    assert run(flow) == [("ann", 0, 9), ("ann", 0, 16), ("bob", 0, 3), ("bob", 4, 8)]


def test_no_lateness_is_allowed_unless_it_is_asked_for() -> None:
    """As in Beam: a key's row has the windows that are open, and not all that there ever were."""
    pipeline = read("scores").window_into(FixedWindows(4 * SECOND)).sum().to("out").pipeline("games")
    outcome = run_reference(pipeline, feed_of(pipeline))
    panes = panes_of(outcome.outputs, pipeline, "out")
    assert [(key, pane.value) for key, pane in panes] == [("ann", 9), ("bob", 3), ("bob", 8)]
    decode = pipeline.computations["sum"].state_codec.decode
    left = {key: decode(state) for (_, key), state in outcome.states.items()}
    assert left == {"ann": KeyState(dropped=1)}


def test_what_is_dropped_can_go_to_a_stream_of_its_own() -> None:
    late = read("scores").allowed_lateness(0, dropped_to="late").window_into(FixedWindows(4 * SECOND))
    pipeline = late.sum().sum().to("out").pipeline("games")
    panes = panes_of(run_reference(pipeline, feed_of(pipeline)).outputs, pipeline, "late")
    assert panes == [("ann", Pane(7, Window(0, 4 * SECOND), 2 * SECOND, timing=Timing.LATE))]


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        (Streaming(), [("ann", 0, 9), ("ann", 0, 16), ("bob", 0, 3), ("bob", 4, 8)]),
        (Batch(), [("ann", 0, 16), ("bob", 0, 3), ("bob", 4, 8)]),
        (MicroBatch(5 * SECOND), [("ann", 0, 9), ("ann", 0, 16), ("bob", 0, 3), ("bob", 4, 8)]),
    ],
    ids=["streaming", "batch", "micro-batch"],
)
def test_one_definition_runs_on_three_engines(engine: Engine, expected: list[Any]) -> None:
    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(FixedWindows(4 * SECOND))
        .accumulating()
        .sum()
        .to("out")
    )
    assert run(flow, engine=engine) == expected


def test_functions_are_applied_to_each_element_before_it_is_grouped() -> None:
    flow = (
        read("scores")
        .allowed_lateness(None)
        .filter(lambda points: points > 3)
        .flat_map(lambda points: [points, points])
        .map(lambda points: {"points": points})
        .key_by(lambda value: "big" if value["points"] > 6 else "small")
        .window_into(FixedWindows(10 * SECOND))
        .count()
        .to("out")
    )
    assert run(flow, engine=Batch()) == [("big", 0, 4), ("small", 0, 4)]


def test_a_do_fn_sees_key_time_and_window() -> None:
    def describe(element: Element) -> list[tuple[str, Any]]:
        return [(element.key, [element.time // SECOND, element.window.start // SECOND, element.value])]

    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(FixedWindows(4 * SECOND))
        .sum()
        .par_do(describe)
        .to("out")
    )
    assert run(flow, engine=Batch()) == [("ann", 0, [3, 0, 16]), ("bob", 0, [3, 0, 3]), ("bob", 4, [7, 4, 8])]


def test_elements_can_be_moved_in_time() -> None:
    moved = read("scores").with_time(lambda points: points * SECOND).key_by(lambda points: "all")
    flow = moved.window_into(FixedWindows(4 * SECOND)).sum().to("out") + moved.to("moved")
    pipeline = flow.pipeline("games", engine=Batch())
    outputs = run_reference(pipeline, feed_of(pipeline)).outputs
    sums = [(pane.window.start // SECOND, pane.value) for _, pane in panes_of(outputs, pipeline, "out")]
    assert sums == [(0, 3), (4, 16), (8, 8)]
    assert {pane.time // SECOND == pane.value for _, pane in panes_of(outputs, pipeline, "moved")} == {True}


def test_a_second_grouping_by_the_same_windows_has_each_pane_on_time() -> None:
    """A pane's event time lies in its window, and its record is not late where it goes."""
    flow = teams(read("scores").allowed_lateness(None).window_into(FixedWindows(4 * SECOND)).sum()).sum()
    pipeline = teams(flow).sum().to("out").pipeline("games")
    feed = feed_of(pipeline, slack=7)
    for outputs in (run_reference(pipeline, feed).outputs, outputs_of(simulate(pipeline, feed))):
        panes = panes_of(outputs, pipeline, "out")
        assert [(pane.value, pane.timing.value) for _, pane in panes] == [(19, "on_time"), (8, "on_time")]


def test_a_second_grouping_gets_its_retractions() -> None:
    """Ann's session grows when the 7 comes late: what it counted for before is taken back."""
    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(Sessions(SECOND))
        .accumulating_and_retracting()
        .sum()
    )
    by_size = flow.key_by(lambda points: "long" if points > 10 else "short").window_into(
        FixedWindows(10 * SECOND)
    )
    flow_of_counts = by_size.count().to("out") + flow.to("sessions")
    pipeline = flow_of_counts.pipeline("games")
    for outputs in (
        run_reference(pipeline, feed_of(pipeline)).outputs,
        outputs_of(simulate(pipeline, feed_of(pipeline))),
    ):
        net: Counter[str] = Counter()
        for key, pane in panes_of(outputs, pipeline, "out"):
            net[key] += -pane.value if pane.retraction else pane.value
        assert net == {"long": 1, "short": 2}
        sessions = panes_of(outputs, pipeline, "sessions")
        assert sum(-pane.value if pane.retraction else pane.value for _, pane in sessions) == 27


def test_a_stream_that_goes_outside_and_on_is_there_for_both() -> None:
    sums = read("scores").allowed_lateness(None).window_into(FixedWindows(4 * SECOND)).sum()
    pipeline = (sums.to("sums") + sums.map(str).to("texts") + sums.count().to("counts")).pipeline("games")
    assert pipeline.output_streams == ("counts", "sums", "texts")
    outputs = run_reference(pipeline, feed_of(pipeline)).outputs
    assert len(panes_of(outputs, pipeline, "sums")) == len(panes_of(outputs, pipeline, "texts")) == 4


def test_what_was_never_grouped_goes_out_as_values() -> None:
    pipeline = read("scores").map(lambda points: points * 2).to("doubled").pipeline("games")
    outputs = run_reference(pipeline, feed_of(pipeline)).outputs
    assert sorted(pipeline.codec("doubled").decode(output.value) for output in outputs.elements()) == [
        6,
        8,
        10,
        14,
        16,
    ]


def test_a_count_and_a_period_need_no_watermark() -> None:
    assert run(read("scores").trigger(Repeat(AtCount(2))).sum().to("out"))[0][2] == 9
    panes = run(read("scores").trigger(Repeat(AtPeriod(5 * SECOND))).accumulating().sum().to("out"))
    assert [value for key, _, value in panes if key == "ann"] == [9, 16]


def test_the_reader_names_the_key() -> None:
    def first_letter(record: Record) -> str:
        return record.key[0]

    flow = read("scores", key=first_letter).window_into(FixedWindows(10 * SECOND)).sum().to("out")
    assert run(flow, engine=Batch()) == [("a", 0, 16), ("b", 0, 11)]


def test_a_flow_is_added_to_a_pipeline_that_has_the_stream() -> None:
    pipeline = Pipeline("games")
    pipeline.injector("scores")
    read("scores").allowed_lateness(None).window_into(FixedWindows(SECOND)).sum().to("sums").add_to(pipeline)
    assert pipeline.output_streams == ("sums",)


def test_a_percentile_trigger_has_a_companion_with_that_watermark() -> None:
    """All but the 7 are in when the first window's end is passed by half of what is pending."""
    trigger = Repeat(AtWatermark(percentile=50))
    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(FixedWindows(4 * SECOND))
        .trigger(trigger)
        .accumulating()
        .sum()
        .to("out")
    )
    pipeline = flow.pipeline("games")
    assert pipeline.computations["sum at 50 percent"].watermark_percentile == 50
    for outputs in (
        run_reference(pipeline, feed_of(pipeline)).outputs,
        outputs_of(simulate(pipeline, feed_of(pipeline))),
    ):
        last = {(key, pane.window.start): pane.value for key, pane in panes_of(outputs, pipeline, "out")}
        assert last == {("ann", 0): 16, ("bob", 0): 3, ("bob", 4 * SECOND): 8}


def test_computations_of_one_name_are_numbered() -> None:
    flow = read("scores").allowed_lateness(None).window_into(FixedWindows(SECOND)).sum().sum().to("out")
    assert list(flow.pipeline("games").computations) == ["sum", "sum-2"]


def test_a_grouping_may_be_given_a_name() -> None:
    flow = (
        read("scores")
        .allowed_lateness(None)
        .window_into(FixedWindows(SECOND))
        .count(name="games played")
        .top(3, name="best")
        .to("out")
    )
    assert list(flow.pipeline("games").computations) == ["games played", "best"]
