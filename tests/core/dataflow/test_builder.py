"""What several collections, flows and functions make of one pipeline: names, streams and keys."""

from collections import Counter
from typing import Any

import pytest

from headrace import SECOND, DuplicateNameError, HeadraceError, JsonCodec, PickleCodec, Pipeline
from headrace.dataflow import (
    AfterDelay,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    DataflowError,
    Element,
    Engine,
    FixedWindows,
    Flow,
    MicroBatch,
    PCollection,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Streaming,
    Trigger,
    When,
    read,
)
from headrace_properties.reference import run_reference
from headrace_sim import Feed, FeedBuilder, simulate


def feed_of(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    for stream in next(iter(pipeline.injectors.values())).outputs:
        builder.record(at_us=SECOND, value=5, timestamp=0, key="ann", stream=stream)
    return builder.build()


def values_of(pipeline: Pipeline, stream: str) -> list[Any]:
    outputs: Counter[Any] = run_reference(pipeline, feed_of(pipeline)).outputs
    return [
        pipeline.codec(stream).decode(output.value)
        for output in outputs.elements()
        if output.stream == stream
    ]


def windowed() -> PCollection[Any]:
    return read("scores").window_into(FixedWindows(SECOND))


# Names


def test_functions_on_elements_are_one_computation_with_the_name_that_was_given_last() -> None:
    named = (
        read("scores")
        .par_do(lambda element: [(element.key, element.value)], name="parse")
        .map(lambda value: value)
        .flat_map(lambda value: [value], name="split")
        .filter(lambda value: value, name="keep")
        .key_by(str, name="by value")
        .with_time(lambda value: value, name="stamp")
    )
    assert list(named.to("out").pipeline("games").computations) == ["stamp"]
    assert list(named.map(str, name="text").to("out").pipeline("games").computations) == ["text"]


def test_a_name_is_one_chains_alone() -> None:
    flow = windowed().map(str, name="text").count().map(str).to("out")
    assert list(flow.pipeline("games").computations) == ["text", "count", "par_do"]


def test_flows_with_names_of_their_own_are_added_to_one_pipeline() -> None:
    pipeline = Pipeline("games")
    pipeline.injector("scores")
    for name in ("first", "second"):
        windowed().map(str, name=f"{name} text").count(name=name).to(name).add_to(pipeline)
    assert pipeline.output_streams == ("first", "second")


def test_a_name_that_two_flows_have_is_refused_with_what_gives_another() -> None:
    pipeline = Pipeline("games")
    pipeline.injector("scores")
    read("scores").map(str).to("one").add_to(pipeline)
    with pytest.raises(
        DuplicateNameError, match=r"the name 'par_do' is used twice\. .*map\(\.\.\., name=\.\.\.\)"
    ):
        read("scores").map(str).to("two").add_to(pipeline)


def test_a_name_that_looks_like_a_number_of_another_is_left_to_who_was_given_it() -> None:
    flow = windowed().sum(name="sum-2").sum().sum().to("out")
    assert list(flow.pipeline("games").computations) == ["sum-2", "sum", "sum-3"]


# Streams


def test_two_collections_may_go_to_one_stream() -> None:
    both = windowed().sum().to("out") + windowed().count().to("out")
    assert sorted(pane.value for pane in values_of(both.pipeline("games"), "out")) == [1, 5]
    plain = read("scores").map(str).to("out") + read("scores").map(float).to("out")
    assert sorted(values_of(plain.pipeline("games"), "out"), key=str) == ["5", 5.0]


def test_two_flows_may_go_to_one_stream() -> None:
    pipeline = Pipeline("games")
    pipeline.injector("scores")
    windowed().sum().to("out").add_to(pipeline)
    windowed().count().to("out").add_to(pipeline)
    assert sorted(pane.value for pane in values_of(pipeline, "out")) == [1, 5]


def refused(flow: Flow, *words: str) -> None:
    with pytest.raises(DataflowError) as caught:
        flow.pipeline("games")
    assert [word for word in words if word not in str(caught.value)] == []


def test_panes_and_plain_values_do_not_go_to_one_stream() -> None:
    plain, panes = read("scores").map(str).to("out"), windowed().sum().to("out")
    for flow in (plain + panes, panes + plain):
        refused(flow, "stream 'out'", "panes and plain values", "separate streams")


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "mapped"])
def test_one_collection_goes_to_a_stream_once(grouped: bool) -> None:  # noqa: FBT001  a parameter of the test
    one = windowed().sum() if grouped else read("scores").map(str)
    refused(one.to("out") + one.to("out"), "stream 'out'", "the same collection twice")


def test_an_output_is_not_a_stream_that_the_layer_uses_inside() -> None:
    flow = windowed().sum().sum().to("sums") + read("scores").to("sum panes")
    refused(flow, "stream 'sum panes'", "between two transforms", "another name")


def test_a_codec_that_the_panes_stream_has_already_is_refused() -> None:
    pipeline = Pipeline("games")
    pipeline.injector("scores")
    pipeline.stream("out", PickleCodec())
    with pytest.raises(
        DataflowError, match=r"stream 'out': it gets panes, but has the codec PickleCodec\(\)"
    ):
        windowed().sum().to("out").add_to(pipeline)


def test_a_stream_is_read_with_one_codec() -> None:
    one, other = read("scores", codec=JsonCodec()).to("a"), read("scores", codec=PickleCodec()).to("b")
    refused(one + other, "stream 'scores'", "JsonCodec()", "PickleCodec()", "one codec")
    late = read("scores").to("a") + read("scores", codec=PickleCodec()).to("b")
    assert isinstance(late.pipeline("games").codec("scores"), PickleCodec)


# Keys


def no_pairs(element: Element) -> Any:
    return [element.value]


def no_key(element: Element) -> Any:
    return [(element.value / 10, element.value)]


def nothing(_: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("collection", "words"),
    [
        (read("scores").key_by(lambda value: [value]), ["key_by(", "returned [5] as a key", "Return a str"]),
        (
            read("scores").key_by(lambda _: "\ud800"),
            ["key_by(", r"returned '\ud800' as a key", "Return a str"],
        ),
        (read("scores").par_do(no_key), ["par_do(no_key)", "returned 0.5 as a key", "a str"]),
        (read("scores").par_do(no_pairs), ["par_do(no_pairs)", "returned 5", "(key, value) pairs"]),
        (read("scores").par_do(nothing), ["par_do(nothing)", "returned None", "(key, value) pairs"]),
        (read("scores").flat_map(nothing), ["flat_map(nothing)", "returned None", "iterable of values"]),
    ],
    ids=["key", "surrogate", "key of a pair", "no pair", "no pairs", "no values"],
)
def test_what_a_function_gives_wrongly_is_named_with_function_and_element(
    collection: PCollection[Any], words: list[str]
) -> None:
    pipeline = collection.to("out").pipeline("games")
    for run in (run_reference, simulate):
        with pytest.raises(HeadraceError) as caught:
            run(pipeline, feed_of(pipeline))
        assert isinstance(caught.value, DataflowError)
        assert str(caught.value).startswith("element with key 'ann', value 5: ")
        assert [word for word in words if word not in str(caught.value)] == []


# What a trigger declares


@pytest.mark.parametrize(
    ("trigger", "engine", "declared"),
    [
        (Repeat(AtWatermark()), Streaming(), False),
        (Repeat(AtWatermark()), Batch(), False),
        (SequenceOf(AtWatermark(), AtWatermark()), Streaming(), False),
        (Repeat(AtWatermark()), MicroBatch(SECOND), True),
        (Repeat(AtWatermark(95)), Streaming(), True),
        (Repeat(AtCount(2)), Streaming(), True),
        (RepeatUntil(AtPeriod(SECOND), AtWatermark()), Streaming(), True),
        (SequenceOf(AtWatermark(), Repeat(AfterDelay(SECOND))), Streaming(), True),
        (AnyOf(AtWatermark(), When(bool)), Streaming(), True),
    ],
)
def test_panes_that_depend_on_when_elements_arrive_are_declared(
    trigger: Trigger, engine: Engine, *, declared: bool
) -> None:
    pipeline = (
        windowed()
        .trigger(trigger, allow_unsafe_triggers=True)
        .sum(name="sum")
        .to("out")
        .pipeline("games", engine=engine)
    )
    assert pipeline.computations["sum"].ordered is declared
