"""Transforms of more than one collection, several outputs, state and side inputs: equal to plain Python, also under faults."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from headrace import MAX_TIME, MILLISECOND, SECOND, OptionsError, Pipeline
from headrace.dataflow import (
    LIST,
    MEAN,
    SUM,
    AtCount,
    CombineFn,
    DataflowError,
    Element,
    FixedWindows,
    Flow,
    KeyContext,
    Pane,
    PCollection,
    Repeat,
    Sessions,
    SlidingWindows,
    WindowFn,
    co_group,
    flatten,
    read,
    top,
)
from headrace.dataflow.pardo import Shard, Unshard
from headrace_properties.reference import run_reference
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.user_code.record_orders import schedules_of
from headrace_properties.verdict import Violated
from headrace_sim import Feed, FeedBuilder

Row = tuple[str, str, Any, int]
"""Stream, key, value, event time in seconds."""

ROWS: list[Row] = [
    ("views", "ann", 1, 1),
    ("clicks", "ann", 10, 2),
    ("views", "bob", 2, 3),
    ("views", "ann", 3, 3),
    ("clicks", "ann", 30, 5),
    ("clicks", "cat", 40, 6),
    ("views", "cat", 5, 7),
]


def feed_of(pipeline: Pipeline, rows: Iterable[Row]) -> Feed:
    """Each row arrives a second after its event time."""
    builder = FeedBuilder(pipeline)
    for stream, key, value, time in rows:
        if stream not in pipeline.injectors:
            continue
        builder.record(
            at_us=(time + 1) * SECOND,
            stream=stream,
            injector=stream,
            key=key,
            value=value,
            timestamp=time * SECOND,
        )
        for name in pipeline.injectors:
            builder.watermark(at_us=(time + 1) * SECOND, injector=name, low_watermark=time * SECOND)
    for name in pipeline.injectors:
        builder.watermark(at_us=100 * SECOND, injector=name, low_watermark=MAX_TIME)
    return builder.build()


def elements(flow: Flow, rows: Iterable[Row] = ROWS, stream: str = "out") -> list[tuple[Any, ...]]:
    """(key, value, event time in seconds, net of retractions) of what goes to a stream."""
    pipeline = flow.pipeline("ads")
    net: Counter[tuple[str, str, int]] = Counter()
    values: dict[str, Any] = {}
    for emitted in run_reference(pipeline, feed_of(pipeline, rows)).outputs.elements():
        if emitted.stream == stream:
            made = pipeline.codec(stream).decode(emitted.value)
            value, time, sign = (
                (made.value, made.time + 1, -1 if made.retraction else 1)
                if isinstance(made, Pane)
                else (made, emitted.timestamp, 1)
            )
            values[repr(value)] = value
            net[emitted.key, repr(value), time // SECOND] += sign
    return sorted(
        ((key, values[value], time) for (key, value, time), count in net.items() for _ in range(count)),
        key=repr,
    )


def windowed(stream: str) -> PCollection[Any]:
    return read(stream).window_into(FixedWindows(4 * SECOND))


VIEWS, CLICKS = windowed("views"), windowed("clicks")


def test_a_flattened_collection_has_the_elements_of_all() -> None:
    assert elements(flatten(VIEWS, CLICKS).sum().to("out")) == [
        ("ann", 14, 4),
        ("ann", 30, 8),
        ("bob", 2, 4),
        ("cat", 45, 8),
    ]


def test_a_collection_may_be_flattened_with_itself() -> None:
    both = flatten(VIEWS, VIEWS.map(lambda views: -views), VIEWS)
    assert elements(both.count().to("out")) == [("ann", 6, 4), ("bob", 3, 4), ("cat", 3, 8)]


def test_a_flattened_collection_without_a_grouping_goes_to_its_stream() -> None:
    both = flatten(read("views"), read("clicks").map(lambda clicks: -clicks)).filter(
        lambda value: value not in (2, -30)
    )
    expected = [("ann", -10, 2), ("ann", 1, 1), ("ann", 3, 3), ("cat", -40, 6), ("cat", 5, 7)]
    assert elements(both.to("out")) == expected
    assert elements(flatten(read("views"), read("clicks").filter(lambda _: False)).to("out")) == [
        ("ann", 1, 1),
        ("ann", 3, 3),
        ("bob", 2, 3),
        ("cat", 5, 7),
    ]


def test_nothing_becomes_late_by_a_flatten_however_deep_its_parts_are() -> None:
    """By hand, sums of sums and plain elements in one grouping lose data: the sums come a microsecond later per grouping."""
    deep = (
        VIEWS.sum()
        .window_into(FixedWindows(4 * SECOND))
        .sum(name="again")
        .window_into(FixedWindows(4 * SECOND))
    )
    assert dropped(flatten(deep, VIEWS).sum(name="both").to("out")) == {}


def test_a_co_grouping_has_each_collections_values_by_label() -> None:
    both = co_group({"views": VIEWS, "clicks": CLICKS}).to("out")
    assert elements(both) == [
        ("ann", {"clicks": [10], "views": [1, 3]}, 4),
        ("ann", {"clicks": [30], "views": []}, 8),
        ("bob", {"clicks": [], "views": [2]}, 4),
        ("cat", {"clicks": [40], "views": [5]}, 8),
    ]


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("inner", []),
        ("left", [("bob", [2, None], 4)]),
        ("right", [("ann", [None, 30], 8)]),
        ("outer", [("ann", [None, 30], 8), ("bob", [2, None], 4)]),
    ],
)
def test_a_join_pairs_values_of_one_key_and_window(how: str, more: list[Any]) -> None:
    pairs = [("ann", [1, 10], 4), ("ann", [3, 10], 4), ("cat", [5, 40], 8), *more]
    assert elements(VIEWS.join(CLICKS, how=how).to("out")) == sorted(pairs, key=repr)


def test_a_join_without_windows_takes_back_what_was_no_pair() -> None:
    sides = (
        read(stream).trigger(Repeat(AtCount(1))).accumulating_and_retracting()
        for stream in ("views", "clicks")
    )
    views, clicks = sides
    found = elements(views.join(clicks, how="left").to("out"))
    assert [(key, value) for key, value, _ in found] == [
        ("ann", [1, 10]),
        ("ann", [1, 30]),
        ("ann", [3, 10]),
        ("ann", [3, 30]),
        ("bob", [2, None]),
        ("cat", [5, 40]),
    ]


def by_size(element: Element) -> list[tuple[str, str, Any]]:
    return [("big" if element.value > 2 else "small", element.key, element.value)]


def test_a_function_with_tagged_outputs_runs_once_for_all_of_them() -> None:
    sizes = read("views").par_do_tagged(by_size, "big", "small", "none")
    flow = sizes["big"].to("out") + sizes["small"].map(lambda value: -value).to("rest")
    assert elements(flow) == [("ann", 3, 3), ("cat", 5, 7)]
    assert elements(flow, stream="rest") == [("ann", -1, 1), ("bob", -2, 3)]
    computations = flow.pipeline("ads").computations
    assert [name for name, spec in computations.items() if spec.inputs.keys() == {"views"}] == ["par_do"]


class Timeout:
    """Tells keys that have been quiet for three seconds, with how often they were seen."""

    def initial_state(self) -> int:
        return 0

    def process(self, context: KeyContext, element: Element) -> list[tuple[str, Any]]:
        context.state += 1
        context.set_timer("quiet", element.time + 3 * SECOND)
        return []

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> list[tuple[str, Any]]:
        seen, context.state = context.state, 0
        return [(context.key, [tag, seen, time_us])]


def test_a_function_with_state_and_timers_sees_event_times_wherever_it_stands() -> None:
    rows: list[Row] = [("views", "ann", 1, second) for second in (1, 3, 5)]
    rows += [("views", "bob", 1, 11), ("views", "ann", 1, 12)]
    expected: list[Any] = [
        ("ann", ["quiet", 1, 15 * SECOND], 15),
        ("ann", ["quiet", 3, 8 * SECOND], 8),
        ("bob", ["quiet", 1, 14 * SECOND], 14),
    ]
    assert elements(read("views").par_do_stateful(Timeout()).to("out"), rows) == expected
    behind = read("views").window_into(FixedWindows(SECOND)).sum().par_do_stateful(Timeout()).to("out")
    assert elements(behind, rows) == [
        (key, [tag, seen, time_us + SECOND - 1], time + 1) for key, (tag, seen, time_us), time in expected
    ]


RATES: list[Row] = [
    ("rates", "ann", 2, 0),
    ("views", "ann", 1, 1),
    ("views", "ann", 5, 4),
    ("rates", "ann", 3, 3),
    ("views", "ann", 7, 3),
    ("views", "bob", 9, 5),
    ("rates", "bob", 4, 6),
]


def test_an_element_meets_the_sides_value_of_its_own_time() -> None:
    flow = read("views").enrich(read("rates"), lambda views, rate: [views, rate]).to("out")
    expected = {("ann", 1): 2, ("ann", 5): 3, ("ann", 7): 3, ("bob", 9): None}
    assert {(key, value[0]): value[1] for key, value, _ in elements(flow, RATES)} == expected


@pytest.mark.parametrize("shards", [1, 3])
def test_a_side_input_has_all_keys_values_of_the_elements_time(shards: int) -> None:
    flow = (
        read("views").side_input(read("rates"), lambda views, rates: [views, rates], shards=shards).to("out")
    )
    expected = {
        ("ann", 1): {"ann": 2},
        ("ann", 5): {"ann": 3},
        ("ann", 7): {"ann": 3},
        ("bob", 9): {"ann": 3},
    }
    assert {(key, value[0]): value[1] for key, value, _ in elements(flow, RATES)} == expected


def test_a_windows_result_holds_from_its_end_on() -> None:
    hourly = read("rates").window_into(FixedWindows(3 * SECOND)).sum()
    flow = read("views").enrich(hourly, lambda views, rate: [views, rate]).to("out")
    expected = {("ann", 1): None, ("ann", 5): 2, ("ann", 7): 2, ("bob", 9): None}
    assert {(key, value[0]): value[1] for key, value, _ in elements(flow, RATES)} == expected


def test_a_retracted_value_of_the_side_holds_no_more() -> None:
    sums = (
        read("rates")
        .window_into(FixedWindows(SECOND))
        .trigger(Repeat(AtCount(1)))
        .accumulating_and_retracting()
        .sum()
    )
    rows: list[Row] = [("rates", "ann", 2, 0), ("rates", "ann", 5, 0), ("views", "ann", 1, 4)]
    assert elements(read("views").enrich(sums, lambda _, rate: rate).to("out"), rows)[0][:2] == ("ann", 7)


def test_nothing_becomes_late_because_it_waits_for_a_side() -> None:
    enriched = small("views").enrich(small("clicks").sum(), lambda views, _: views)
    assert dropped(enriched.sum(name="both").to("out")) == {}


def test_a_session_that_became_part_of_a_longer_one_holds_no_more() -> None:
    sessions = (
        read("rates")
        .window_into(Sessions(2 * SECOND))
        .trigger(Repeat(AtCount(1)))
        .accumulating_and_retracting()
        .sum()
    )
    rows: list[Row] = [
        ("rates", "ann", 2, 0),
        ("rates", "ann", 5, 1),
        ("views", "ann", 1, 2),
        ("views", "ann", 1, 3),
    ]
    found = elements(read("views").enrich(sessions, lambda _, rate: rate).to("out"), rows)
    assert found == [("ann", 7, 3), ("ann", None, 2)]


def test_old_values_of_a_side_are_forgotten() -> None:
    pipeline = read("views").enrich(read("rates"), lambda views, rate: rate).to("out").pipeline("ads")
    rows: list[Row] = [("rates", "ann", second, second) for second in range(50)]
    outcome = run_reference(pipeline, feed_of(pipeline, rows))
    ((_, state),) = outcome.states.items()
    assert len(pipeline.computations["enrich"].state_codec.decode(state)["versions"]["ann"]) <= 3


def test_no_value_is_forgotten_that_an_element_waits_for_when_the_watermark_leaps() -> None:
    """The timer that forgets comes before the one that sends, and both when the watermark has passed a later value, too."""
    pipeline = read("views").enrich(read("rates"), _both).to("out").pipeline("ads")
    builder = FeedBuilder(pipeline)
    for stream, value, time in (("rates", 1, 1), ("rates", 3, 3), ("views", 7, 4), ("rates", 6, 6)):
        builder.record(
            at_us=SECOND, stream=stream, injector=stream, key="ann", value=value, timestamp=time * SECOND
        )
    for name in pipeline.injectors:
        builder.watermark(at_us=2 * SECOND, injector=name, low_watermark=MAX_TIME)
    feed = builder.build()
    ((sent, _),) = run_reference(pipeline, feed).outputs.items()
    assert pipeline.codec("out").decode(sent.value).value == [7, 3]
    assert search(Steering(Application.with_input(pipeline, feed)), examples=3).failure is None


def test_the_greatest_by_a_key_does_not_depend_on_the_order_of_arrival() -> None:
    rows: list[Row] = [
        ("views", "ann", {"name": name, "size": size}, 1) for name, size in (("a", 1), ("b", 2), ("c", 2))
    ]
    flow = windowed("views").top(1, key=lambda view: view["size"]).map(lambda best: best[0]["name"]).to("out")
    assert elements(flow, rows) == elements(flow, rows[::-1]) == [("ann", "c", 4)]


def test_distinct_values_are_told_once() -> None:
    rows: list[Row] = [("views", "ann", value, 1) for value in (1, {"a": 1}, 1, {"a": 1}, "1")]
    assert elements(windowed("views").distinct().to("out"), rows) == [
        ("ann", "1", 4),
        ("ann", 1, 4),
        ("ann", {"a": 1}, 4),
    ]


def test_functions_of_values_may_take_the_key_too() -> None:
    flow = (
        read("views")
        .filter(lambda key, _: key != "bob", with_key=True)
        .map(lambda key, views: f"{key}: {views}", with_key=True)
        .flat_map(lambda key, text: [key, text], with_key=True)
        .key_by(lambda key, _: key.upper(), with_key=True)
    )
    assert [key for key, _, _ in elements(flow.to("out"))] == ["ANN", "ANN", "ANN", "ANN", "CAT", "CAT"]


# Under faults


def many(pipeline: Pipeline, seed: int) -> Feed:
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(30):
        at_us = SECOND + number * 100 * MILLISECOND
        name = random.choice(sorted(pipeline.injectors))
        time = at_us - random.randrange(SECOND)
        time = random.choice([time, (time // SECOND + 1) * SECOND - 1])
        builder.record(
            at_us=at_us,
            stream=name,
            injector=name,
            value=random.randint(1, 9),
            timestamp=time,
            key=random.choice("ab"),
        )
        if number % 4 == 3:
            for injector in pipeline.injectors:
                builder.watermark(at_us=at_us, injector=injector, low_watermark=at_us - SECOND)
    return builder.build()


def small(stream: str) -> PCollection[Any]:
    return read(stream).window_into(FixedWindows(SECOND))


def dropped(flow: Flow) -> dict[str, int]:
    """What groupings drop in the cluster under faults, of input that is all on time."""
    pipeline = flow.pipeline("ads")
    found = search(Steering(Application(pipeline, lambda seed: many(pipeline, seed))), examples=20)
    assert found.failure is None
    return dict(found.dropped)


FLOWS: dict[str, Callable[[], Flow]] = {
    "join": lambda: small("views").join(small("clicks"), how="outer").to("out"),
    "sessions": lambda: co_group(
        {name: read(name).window_into(Sessions(SECOND)) for name in ("views", "clicks")}
    ).to("out"),
    "deep": lambda: (
        flatten(small("views").sum(), read("views").window_into(FixedWindows(SECOND)).count())
        .window_into(FixedWindows(2 * SECOND))
        .sum(name="both")
        .to("out")
    ),
    "stateful": lambda: read("views").par_do_stateful(Timeout()).to("out"),
    "enrich": lambda: read("views").enrich(read("clicks"), lambda views, clicks: [views, clicks]).to("out"),
    "fan-out": lambda: small("views").combine(SUM, fanout=3).to("out"),
    "side": lambda: (
        read("views").side_input(small("clicks").sum(), lambda *both: list(both), shards=2).to("out")
    ),
}


@pytest.mark.parametrize("shards", [0, 2], ids=["enrich", "side_input"])
def test_elements_that_wait_for_a_side_are_the_same_on_every_schedule(shards: int) -> None:
    views, rates = read("views"), read("clicks")
    enriched = views.side_input(rates, _both, shards=shards) if shards else views.enrich(rates, _both)
    pipeline = enriched.to("out").pipeline("ads")
    rows = [("views" if time % 3 else "clicks", "ann", time, time) for time in range(1, 20)]
    assert schedules_of(pipeline, feed_of(pipeline, rows), seed=0, schedules=9) is None


def test_a_version_that_is_retracted_before_its_time_leaves_nothing_behind() -> None:
    early = read("clicks").window_into(FixedWindows(5 * SECOND)).trigger(Repeat(AtCount(1)))
    side = early.accumulating_and_retracting().sum()
    rows: list[Row] = [
        ("clicks", "ann", 1, 1),
        ("clicks", "ann", 2, 2),
        ("views", "ann", 7, 9),
        ("clicks", "ann", 3, 12),
    ]
    assert elements(read("views").enrich(side, _both).to("out"), rows) == [("ann", [7, 3], 9)]


def _both(view: int, rates: Any) -> list[Any]:
    return [view, rates]


@pytest.mark.parametrize("name", FLOWS)
def test_no_fault_changes_what_comes_out(name: str) -> None:
    pipeline = FLOWS[name]().pipeline(name)
    found = search(Steering(Application(pipeline, lambda seed: many(pipeline, seed))), examples=12)
    assert found.failure is None
    assert [checker for checker, verdict in found.verdicts.items() if isinstance(verdict, Violated)] == []


# A hot key


@pytest.mark.parametrize("combine", [SUM, MEAN, LIST, top(3)], ids=["sum", "mean", "list", "top"])
@pytest.mark.parametrize(
    "windows", [FixedWindows(5 * SECOND), SlidingWindows(4 * SECOND, 2 * SECOND)], ids=["fixed", "sliding"]
)
def test_a_fan_out_changes_no_result(combine: CombineFn, windows: WindowFn) -> None:
    rows: list[Row] = [("views", "ann", number % 7, number) for number in (*range(1, 12), *range(15, 24))]
    plain = read("views").window_into(windows)
    expected = elements(plain.combine(combine).map(_ordered).to("out"), rows)
    found = elements(plain.combine(combine, fanout=4).map(_ordered).to("out"), rows)
    assert found == expected
    assert {key for key, *_ in found} == {"ann"}


def _ordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def test_a_hot_key_is_spread_over_distant_keys() -> None:
    shards = {made.key for time in range(100) for made in Shard(4)(Element("a/b", 1, time))}
    assert shards == {"00/a/b", "40/a/b", "80/a/b", "c0/a/b"}
    assert {made.key for key in shards for made in Unshard()(Element(key, 1, 0))} == {"a/b"}


def test_a_fan_out_that_could_change_a_result_is_refused() -> None:
    early = small("views").trigger(Repeat(AtCount(1))).accumulating_and_retracting().sum()
    with pytest.raises(DataflowError, match=r"accumulators of shards cannot take back\. Remove the fanout"):
        early.combine(SUM, fanout=2).to("out").pipeline("ads")
    with pytest.raises(DataflowError, match=r"Use windows that never merge"):
        ANY.window_into(Sessions(SECOND)).combine(SUM, fanout=2)
    with pytest.raises(DataflowError, match=r"the keys of shards\. Remove dropped_to"):
        small("views").allowed_lateness(0, dropped_to="late").combine(SUM, fanout=2)


# What is refused


ANY: Any = VIEWS
FLATTEN: Any = flatten
CO_GROUP: Any = co_group

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "flatten of one": (lambda: FLATTEN(VIEWS), "two or more collections"),
    "flatten of a name": (lambda: FLATTEN(VIEWS, "clicks"), "two or more collections"),
    "co_group of one": (lambda: CO_GROUP({"views": VIEWS}), "two or more collections by label"),
    "co_group of a list": (lambda: CO_GROUP([VIEWS, CLICKS]), "two or more collections by label"),
    "how": (lambda: ANY.join(CLICKS, how="cross"), "'inner', 'left', 'right', 'outer'"),
    "no tags": (lambda: ANY.par_do_tagged(by_size), "one or more different tags"),
    "a tag twice": (lambda: ANY.par_do_tagged(by_size, "a", "a"), "one or more different tags"),
    "a class": (lambda: ANY.par_do_stateful(Timeout), "an object with all methods"),
    "a function": (lambda: ANY.par_do_stateful(len), "an object with all methods"),
    "side": (lambda: ANY.enrich("rates", len), "a collection"),
    "function": (lambda: ANY.enrich(CLICKS, 5), "a function"),
    "fanout": (lambda: ANY.combine(SUM, fanout=0), "at least 1"),
    "a large fanout": (lambda: ANY.combine(SUM, fanout=257), "at most 256"),
    "shards": (lambda: ANY.side_input(CLICKS, len, shards=0), "at least 1"),
    "with_key": (lambda: ANY.map(len, with_key=1), "True or False"),
    "key": (lambda: ANY.top(2, key="size"), "a function"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_refused(wrong: str) -> None:
    call, expected = WRONG[wrong]
    with pytest.raises(OptionsError) as refused:
        call()
    assert expected in str(refused.value)


DIFFERENT = {
    "window_into": read("clicks"),
    "allowed_lateness": CLICKS.allowed_lateness(SECOND),
    "trigger": CLICKS.trigger(Repeat(AtCount(2))),
    "accumulation mode": CLICKS.accumulating(),
}


@pytest.mark.parametrize("call", DIFFERENT)
def test_collections_of_one_grouping_must_agree(call: str) -> None:
    with pytest.raises(DataflowError, match=f"differ in {call}"):
        flatten(VIEWS, DIFFERENT[call])


@pytest.mark.parametrize("made", [5, [("big", "ann")], [("huge", "ann", 1)], [("big", 0.5, 1)]], ids=repr)
def test_a_tagged_function_that_returns_something_else_is_named(made: Any) -> None:
    flow = read("views").par_do_tagged(lambda _: made, "big")["big"].to("out")
    with pytest.raises(Exception, match="par_do_tagged"):
        elements(flow)
