"""Arguments of the wrong kind are refused where a definition is written, with what was expected."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from headrace import MINUTE, SECOND, HeadraceError, JsonCodec, OptionsError, Pipeline, same_key
from headrace.dataflow import (
    COUNT,
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    CombineFn,
    Custom,
    DataflowError,
    Element,
    FixedWindows,
    GlobalWindows,
    MicroBatch,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    SlidingWindows,
    Streaming,
    When,
    Window,
    WindowMergeError,
    read,
    top,
)
from headrace_properties.reference import run_reference
from headrace_sim import FeedBuilder


class Instantly:
    """A trigger of a user's own, given as a class by mistake."""

    def start(self, instant: Any) -> Any: ...
    def on_element(self, state: Any, value: Any, instant: Any) -> Any: ...
    def is_ready(self, state: Any, instant: Any) -> Any: ...
    def wanted(self, state: Any, window: Any) -> Any: ...
    def merge(self, states: Any, instant: Any) -> Any: ...


def _scores() -> Any:
    return read("scores")


def _windowed() -> Any:
    return read("scores").window_into(FixedWindows(MINUTE))


def _flow() -> Any:
    return _windowed().sum().to("sums")


WRONG: list[tuple[str, Callable[[], Any], str]] = [
    # Windows
    ("a strategy's class", lambda: _scores().window_into(FixedWindows), r"FixedWindows'>: this is a class.*Call it"),
    ("no strategy", lambda: _scores().window_into(None), "cannot assign"),
    ("a length for a strategy", lambda: _scores().window_into(MINUTE), "cannot assign"),
    ("length none", lambda: FixedWindows(0), "size_us=0: expected a positive int"),
    ("negative length", lambda: FixedWindows(-MINUTE), "size_us=-60000000: expected a positive int"),
    ("float length", lambda: FixedWindows(1.5 * SECOND), "size_us=1500000.0"),  # type: ignore[arg-type]
    ("text as length", lambda: FixedWindows("1 min"), "size_us='1 min'"),  # type: ignore[arg-type]
    ("bool as length", lambda: FixedWindows(size_us=True), "size_us=True"),
    ("float offset", lambda: FixedWindows(MINUTE, 0.5), "offset_us=0.5: expected an int"),  # type: ignore[arg-type]
    ("bool offset", lambda: FixedWindows(MINUTE, offset_us=True), "offset_us=True"),
    ("no offset", lambda: FixedWindows(MINUTE, None), "offset_us=None"),  # type: ignore[arg-type]
    ("no bool", lambda: FixedWindows(MINUTE, phase_spread="no"), "phase_spread='no': expected True or"),  # type: ignore[arg-type]
    ("float offset, sliding", lambda: SlidingWindows(MINUTE, SECOND, 0.5), "offset_us=0.5"),  # type: ignore[arg-type]
    ("period none", lambda: SlidingWindows(MINUTE, 0), "period_us=0"),
    ("gap none", lambda: Sessions(0), "gap_us=0"),
    ("number for bool", lambda: Sessions(MINUTE, 5), "touching_merge=5: expected True or"),  # type: ignore[arg-type]
    ("end before start", lambda: Window(10, 5), r"window=\(10, 5\): expected .* before its end"),
    ("empty window", lambda: Window(10, 10), r"window=\(10, 10\)"),
    ("float in a window", lambda: Window(0, 1.5), r"window=\(0, 1.5\)"),  # type: ignore[arg-type]
    ("bool in a window", lambda: Window(start=False, end=5), r"window=\(False, 5\)"),
    # Triggers
    ("a trigger's class", lambda: _scores().trigger(AtWatermark), "trigger="),
    ("no trigger", lambda: _scores().trigger(None), "trigger=None"),
    ("a class inside", lambda: Repeat(AtWatermark), "Repeat=.*AtWatermark'>: expected a trigger"),  # type: ignore[arg-type]
    ("a class as until", lambda: RepeatUntil(AtCount(1), AtWatermark), "RepeatUntil="),  # type: ignore[arg-type]
    ("a list", lambda: SequenceOf([AtCount(1)]), r"SequenceOf=\[AtCount"),  # type: ignore[arg-type]
    ("a number in a pair", lambda: AnyOf(AtCount(1), 5), "AnyOf=5"),  # type: ignore[arg-type]
    ("none in a pair", lambda: AllOf(AtCount(1), None), "AllOf=None"),  # type: ignore[arg-type]
    ("nothing to repeat", AllOf, "AllOf="),
    ("count none", lambda: AtCount(0), "count=0"),
    ("bool as count", lambda: AtCount(count=True), "count=True"),
    ("float count", lambda: AtCount(2.0), "count=2.0"),  # type: ignore[arg-type]
    ("period of a trigger", lambda: AtPeriod(0), "period_us=0"),
    ("negative delay", lambda: AfterDelay(-1), "delay_us=-1"),
    ("text as delay", lambda: AfterDelay("1s"), "delay_us='1s'"),  # type: ignore[arg-type]
    ("percentile none", lambda: AtWatermark(0), "percentile=0"),
    ("bool as percentile", lambda: AtWatermark(percentile=True), "percentile=True"),
    ("text as percentile", lambda: AtWatermark("90"), "percentile='90'"),  # type: ignore[arg-type]
    ("no predicate", lambda: When(5), "predicate=5: expected a function"),  # type: ignore[arg-type]
    ("a class of one's own", lambda: Custom(Instantly), "Custom=.*Instantly'>: expected an object"),  # type: ignore[arg-type]
    ("half a trigger", lambda: Custom(print), "Custom=<built-in function print>"),  # type: ignore[arg-type]
    ("a trigger without grouping", lambda: _windowed().trigger(AtCount(1)).to("out"), "'out': no grouping follows trigger"),
    ("the default without grouping", lambda: _scores().trigger(Repeat(AtWatermark())).to("out"), "no grouping"),
    ("windows without grouping", lambda: _windowed().map(str).to("out"), "'out': no grouping follows window_into"),
    ("again after a grouping", lambda: _windowed().sum().trigger(AtCount(1)).to("out"), "no grouping"),
    # What
    ("a function as combiner", lambda: _windowed().combine(sum), "combine=.*sum.*: expected a CombineFn"),
    ("the maker of a combiner", lambda: _windowed().combine(top), "combine=<function top"),
    ("a combiner's class", lambda: _windowed().combine(CombineFn), "combine=<class"),
    ("no functions", lambda: CombineFn(0, max, max), "create=0: expected a function"),  # type: ignore[arg-type]
    ("no extraction", lambda: CombineFn(int, max, max, None), "extract=None: expected a function"),  # type: ignore[arg-type]
    ("no reversal", lambda: CombineFn(int, max, max, uncombine=5), "uncombine=5: expected a function"),  # type: ignore[arg-type]
    ("top none", lambda: top(0), "count=0: expected an int of at least 1"),
    ("negative top", lambda: _windowed().top(-1), "count=-1"),
    ("float top", lambda: top(2.5), "count=2.5"),  # type: ignore[arg-type]
    ("bool as top", lambda: top(count=True), "count=True"),
    ("no function to map", lambda: _scores().map(5), "map=5: expected a function"),
    ("nothing to map", lambda: _scores().map(None), "map=None"),
    ("no function to filter", lambda: _scores().filter(function=True), "filter=True"),
    ("no key", lambda: _scores().key_by("user"), "key_by='user'"),
    ("no time", lambda: _scores().with_time(5), "with_time=5"),
    ("no values", lambda: _scores().flat_map([1]), r"flat_map=\[1\]"),
    ("no pairs", lambda: _scores().par_do(None), "par_do=None"),
    # Names
    ("no name", lambda: _windowed().sum(name=""), "name='': expected a name"),
    ("a name of parts", lambda: _windowed().count(name="a/b"), "name='a/b'"),
    ("a number as name", lambda: _scores().map(str, name=5), "name=5"),
    ("no stream", lambda: _windowed().sum().to(""), "stream='': expected the name of a stream"),
    ("none as a stream", lambda: _windowed().sum().to(None), "stream=None"),
    ("no stream to read", lambda: read(""), "stream='': expected the name of a stream"),
    ("a number to read", lambda: read(5), "stream=5"),  # type: ignore[arg-type]
    ("a field as key", lambda: read("scores", key="user"), "key='user': expected a function"),  # type: ignore[arg-type]
    ("a codec's class", lambda: read("scores", codec=JsonCodec), "codec=.*JsonCodec'>: expected"),  # type: ignore[arg-type]
    ("a codec's name", lambda: read("scores", codec="json"), "codec='json': expected"),  # type: ignore[arg-type]
    ("text for bool", lambda: read("scores", bounded="no"), "bounded='no': expected True or"),  # type: ignore[arg-type]
    # Lateness
    ("negative lateness", lambda: _scores().allowed_lateness(-1), "allowed_lateness=-1"),
    ("bool as lateness", lambda: _scores().allowed_lateness(lateness_us=True), "allowed_lateness=True"),
    ("float lateness", lambda: _scores().allowed_lateness(1.5), "allowed_lateness=1.5"),
    # Engines and pipelines
    ("an engine's class", lambda: _flow().pipeline("games", engine=Batch), "engine=.*Batch'>: expected .*Batch()"),
    ("an engine's name", lambda: _flow().pipeline("games", engine="batch"), "engine='batch'"),
    ("false as engine", lambda: _flow().pipeline("games", engine=False), "engine=False"),
    ("a class to add to", lambda: _flow().add_to(Pipeline("games"), engine=Streaming), "engine="),
    ("a name to add to", lambda: _flow().add_to("games"), "pipeline='games': expected a Pipeline"),
    ("no batch", lambda: MicroBatch(0), "period_us=0"),
    ("float batch", lambda: MicroBatch(1.0), "period_us=1.0"),  # type: ignore[arg-type]
    ("a collection for a flow", lambda: _flow() + _windowed().sum(), r"flow=.*: expected a Flow, .*to\("),
]  # fmt: skip


@pytest.mark.parametrize(("define", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_an_argument_of_the_wrong_kind_is_refused_where_it_is_written(
    define: Callable[[], Any], message: str
) -> None:
    with pytest.raises(HeadraceError, match=message) as caught:
        define()
    assert isinstance(caught.value, OptionsError | DataflowError)


@pytest.mark.parametrize(
    "define",
    [
        lambda: FixedWindows(MINUTE, -SECOND, phase_spread=True),
        lambda: SlidingWindows(SECOND, MINUTE, -1),
        lambda: Sessions(1, touching_merge=False),
        lambda: AtWatermark(90),
        lambda: top(1),
        lambda: _scores().map(str).map(int).to("out"),
        lambda: _windowed().combine(COUNT).map(str).to("out"),
        lambda: _windowed().trigger(AtCount(1)).trigger(Repeat(AtCount(2))).sum().to("out"),
        lambda: _scores().allowed_lateness(0).accumulating().to("out"),
        lambda: read("scores", key=same_key, codec=JsonCodec(), bounded=True),
        lambda: _scores().window_into(GlobalWindows()).allowed_lateness(None).sum(name="a b"),
    ],
    ids=[
        "negative offset", "gaps", "no touching", "int percentile", "top one", "only mapped", "after a grouping",
        "another trigger", "lateness without grouping", "all of read", "all else",
    ],
)  # fmt: skip
def test_what_is_right_passes(define: Callable[[], Any]) -> None:
    define()


# Strategies of a user's own, which only tell what they make of an element when they run


class Own:
    """A strategy that gives what it is told to."""

    def __init__(self, assigned: Any, merged: Any = None) -> None:
        self.assigned, self.merged = assigned, merged

    def __repr__(self) -> str:
        return "Own()"

    def assign_windows(self, element: Element) -> Any:
        del element
        return self.assigned

    def merge_windows(self, windows: Any) -> Any:
        return windows if self.merged is None else self.merged


@pytest.mark.parametrize(
    ("strategy", "error", "message"),
    [
        (
            Own(None),
            DataflowError,
            r"windows Own\(\): assign_windows returned None .* key 'ann'.*Return an iterable",
        ),
        (Own(Window(0, 5)), DataflowError, r"assign_windows returned Window\[0.000000s, 0.000005s\)"),
        (Own([(0, 5)]), DataflowError, r"assign_windows returned \[\(0, 5\)\]"),
        (Own([Window(2**63, 2**64)]), DataflowError, r"assign_windows returned \[Window\[end, end\)\]"),
        (Own([Window(0, 5)], 5), DataflowError, r"merge_windows returned 5 .*Return an iterable"),
        (Own([Window(0, 5)], [(0, 5)]), DataflowError, r"merge_windows returned \[\(0, 5\)\]"),
        (Own([Window(0, 5)], []), WindowMergeError, "must be covered by exactly one"),
    ],
    ids=["none", "one window", "a pair", "beyond time", "merged to a number", "merged to a pair", "lost"],
)
def test_a_strategy_that_gives_no_windows_is_named_with_the_element(
    strategy: Own, error: type[HeadraceError], message: str
) -> None:
    pipeline = read("scores").window_into(strategy).sum().to("out").pipeline("games")
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value=5, timestamp=0, key="ann")
    with pytest.raises(error, match=message):
        run_reference(pipeline, builder.build())


class TwoDays(FixedWindows):
    """Merge all windows of a key."""

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        return [Window(min(window.start for window in windows), max(window.end for window in windows))]


def test_a_subclass_of_fixed_windows_may_merge_them() -> None:
    pipeline = read("scores").window_into(TwoDays(SECOND)).sum().to("out").pipeline("games")
    builder = FeedBuilder(pipeline)
    for at in (0, SECOND):
        builder.record(at_us=at, value=5, timestamp=at, key="ann")
    builder.watermark(at_us=3 * SECOND, low_watermark=3 * SECOND)
    (pane,) = run_reference(pipeline, builder.build()).outputs
    assert b"10" in pane.value


def test_a_strategy_may_put_an_element_into_no_window() -> None:
    pipeline = read("scores").window_into(Own(())).sum().to("out").pipeline("games")
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value=5, timestamp=0, key="ann")
    assert not run_reference(pipeline, builder.build()).outputs
