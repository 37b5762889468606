"""The fluent API (Dataflow 2.2.3, 2.4): calls on a `PCollection` describe a computation, and `Flow.pipeline` builds it.

>>> from headrace import MINUTE
>>> from headrace.dataflow import FixedWindows, read
>>> totals = read("scores").window_into(FixedWindows(2 * MINUTE)).accumulating().sum().to("totals")
>>> pipeline = totals.pipeline("games")
>>> pipeline.output_streams
('totals',)

Rules of this file: a collection is a value; each call returns a new one. Consecutive functions on elements are fused into one
`ParDo`. A trigger applies to the next grouping only; windows, accumulation and allowed lateness stay until they are changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from headrace import Codec, OptionsError, Pipeline, Record, same_key
from headrace.dataflow.arguments import check_bool, check_count, check_function, check_name, check_stream
from headrace.dataflow.builder import (
    Branch,
    Builder,
    Chain,
    Enriched,
    Flattened,
    Grouped,
    KeyedParDo,
    Node,
    ReadNode,
    Split,
    StreamOutput,
)
from headrace.dataflow.checks import (
    check_combine,
    check_engine,
    check_lateness,
    check_trigger,
    check_windows,
)
from headrace.dataflow.combining import COUNT, DISTINCT, LIST, MAX, MEAN, MIN, SUM, CombineFn, by_label, top
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.engines import Engine
from headrace.dataflow.enriching import Enrich
from headrace.dataflow.grouping import Grouping
from headrace.dataflow.key_text import TextKey
from headrace.dataflow.panes import Accumulation, TimestampCombiner
from headrace.dataflow.pardo import (
    Do,
    DoFn,
    Filter,
    FlatMap,
    KeyBy,
    Labelled,
    Map,
    MoveInTime,
    Shard,
    Step,
    TaggedDoFn,
    Tagging,
    Typed,
    Unshard,
)
from headrace.dataflow.stateful import StatefulFn
from headrace.dataflow.triggers import DEFAULT_TRIGGER, Trigger
from headrace.dataflow.value_codecs import is_convertible
from headrace.dataflow.windows import GlobalWindows, WindowFn, never_merges

V = TypeVar("V")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class PCollection(Generic[V]):
    """A collection of elements (key, value, event time, window), described but not computed (2.1, 2.2). Begin with `read`.

    Attributes:
        chain: source of the elements, and functions applied to each before the next grouping.
        windows: windowing strategy of the next grouping; ``None``: elements keep their windows.
        merging: windowing strategy of the elements' current windows.
        when: trigger of the next grouping; ``None``: the default trigger.
        accumulation: how the next grouping's panes relate.
        compacts: whether it leaves out panes that would replace one by the same.
        timestamps: what the event times of its panes are.
        lateness_us: how long its windows are kept behind the watermark, event time in microseconds; ``None``: without limit.
        allow_unsafe_triggers: whether its trigger may finish while elements still arrive for its window.
        dropped_to: stream for the elements that it drops; ``""``: none.
    """

    chain: Chain
    windows: WindowFn | None = None
    merging: WindowFn = field(default_factory=GlobalWindows)
    when: Trigger | None = None
    accumulation: Accumulation = Accumulation.DISCARDING
    compacts: bool = False
    timestamps: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
    lateness_us: int | None = 0
    allow_unsafe_triggers: bool = False
    dropped_to: str = ""

    # What, for single elements. Consecutive functions form one computation, named by the last given ``name``, else ``par_do``.

    def par_do(self, function: DoFn, *, name: str | None = None) -> "PCollection[Any]":
        """Map each element to any number of (key, value) pairs (``ParDo``).

        Args:
            function: takes an `Element` and returns the pairs; must be deterministic.
            name: name of the computation.
        """
        check_function("par_do", function)
        return self._then(Do(function), name)

    # With ``with_key=True``, a function of values takes the key and the value.

    def map(
        self, function: Callable[..., W], *, with_key: bool = False, name: str | None = None
    ) -> "PCollection[W]":
        """Map each value to one value; keep keys."""
        check_function("map", function)
        return self._then(Map(function, check_bool("with_key", with_key)), name)

    def flat_map(
        self, function: Callable[..., Iterable[W]], *, with_key: bool = False, name: str | None = None
    ) -> "PCollection[W]":
        """Map each value to any number of values; keep keys."""
        check_function("flat_map", function)
        return self._then(FlatMap(function, check_bool("with_key", with_key)), name)

    def filter(
        self, function: Callable[..., bool], *, with_key: bool = False, name: str | None = None
    ) -> "PCollection[V]":
        """Keep the elements for whose value the function returns true."""
        check_function("filter", function)
        return self._then(Filter(function, check_bool("with_key", with_key)), name)

    def key_by(
        self, function: Callable[..., Any], *, with_key: bool = False, name: str | None = None
    ) -> "PCollection[V]":
        """Compute each element's key from its value.

        Args:
            function: returns a str, int, bool, None, bytes or date, or a tuple or frozenset of these. Keys are the same if they
                are equal and of the same types. Outside, a key that is no str is text: ``=`` and its JSON, as in ``=["de",7]``.
            with_key: whether the function takes the key, too.
            name: name of the computation.
        """
        check_function("key_by", function)
        return self._then(KeyBy(function, check_bool("with_key", with_key)), name)

    def with_time(self, function: Callable[[V], int], *, name: str | None = None) -> "PCollection[V]":
        """Compute each element's event time from its value (2.2: it "may be modified at any point in the pipeline").

        Elements that are moved behind the watermark become late (footnote 8).

        Args:
            function: takes the value and returns microseconds, after `MIN_TIME` and before `END_OF_TIME`; otherwise the run stops
                with a `DataflowError` that names the element.
            name: name of the computation.
        """
        check_function("with_time", function)
        return self._then(MoveInTime(function), name)

    def with_types(self, *classes: type) -> "PCollection[V]":
        """Let instances of classes keep their class between all transforms of the pipeline.

        JSON's types, tuples, sets, ``Decimal``, ``bytes``, dates and times always do; any other value is refused.
        Records that go outside are plain JSON.

        Args:
            *classes: dataclasses, ``msgspec.Struct`` and ``NamedTuple`` classes, enums, and ``UUID``. Classes of their annotated
                fields need not be declared.

        Raises:
            OptionsError: something else than such a class.
        """
        for class_ in classes:
            try:
                is_known = is_convertible(class_)
            except NameError as error:
                expected = f"a class whose annotations can be resolved ({error})"
                raise OptionsError("with_types", class_, expected) from error
            if not is_known:
                expected = "a dataclass, a msgspec.Struct or NamedTuple class, an enum, or UUID"
                raise OptionsError("with_types", class_, expected)
        return self._then(Typed(classes), None)

    # What, with several outputs, state, or a side input.

    def par_do_tagged(
        self, function: TaggedDoFn, *tags: str, name: str = "par_do"
    ) -> dict[str, "PCollection[Any]"]:
        """Map each element to any number of (tag, key, value) triples; each tag is a collection of its own.

        Args:
            function: takes an `Element` and returns the triples; must be deterministic.
            *tags: all tags that it may return. Elements of a tag whose collection is not used are dropped.
            name: name of the computation.

        Returns:
            the collection of each tag.
        """
        check_function("par_do_tagged", function)
        if not tags or len(set(tags)) < len(tags):
            raise OptionsError("tags", tags, "one or more different tags")
        for tag in tags:
            check_name("tags", tag)
        check_name("name", name)
        split = Split(self.chain, Tagging(function, tags), name)
        return {tag: self._after(Branch(split, tag)) for tag in tags}

    def par_do_stateful(self, function: StatefulFn, *, name: str = "stateful") -> "PCollection[Any]":
        """Apply a function that keeps state and sets timers, by key (Beam: stateful ``ParDo``).

        Args:
            function: an object with the methods of `StatefulFn`.
            name: name of the computation.
        """
        if isinstance(function, type) or not isinstance(function, StatefulFn):
            raise OptionsError("par_do_stateful", function, "an object with all methods of StatefulFn")
        check_name("name", name)
        return self._after(KeyedParDo(self.chain, function, name))

    def enrich(
        self,
        side: "PCollection[W]",
        function: Callable[[V, W | None], Any],
        *,
        name: str = "enrich",
    ) -> "PCollection[Any]":
        """Combine each value with the side's value for its key at the element's event time (a temporal join).

        An on-time element waits until the watermark is past its event time; so the result does not depend on the order of
        arrival. A pane of the side is valid from its window's end on. The last value of each key is kept for ever, earlier ones
        for the allowed lateness of this collection.

        Args:
            side: slowly changing collection.
            function: takes a value and the side's value, which is ``None`` if there was none yet; returns a value.
            name: name of the computation.
        """
        return self._enriched(side, Enrich(function, lateness_us=self.lateness_us), name)

    def side_input(
        self,
        side: "PCollection[W]",
        function: Callable[[V, dict[Any, W]], Any],
        *,
        shards: int = 1,
        name: str = "side_input",
    ) -> "PCollection[Any]":
        """Combine each value with all values of the side, by key, at the element's event time. Otherwise as `enrich`.

        Args:
            side: slowly changing collection, small enough for one row.
            function: takes a value and a dict of the side's values by key; returns a value.
            shards: number of rows over which elements are spread by key; each has a copy of the side.
            name: name of the computation.
        """
        check_count("shards", shards)
        return self._enriched(
            side, Enrich(function, is_broadcast=True, shards=shards, lateness_us=self.lateness_us), name
        )

    def _enriched(self, side: object, enrich: Enrich, name: str) -> "PCollection[Any]":
        check_function(name, enrich.function)
        check_name("name", name)
        if not isinstance(side, PCollection):
            raise OptionsError("side", side, "a collection")
        return self._after(Enriched(self.chain, side.chain, enrich, name))

    def join(
        self, other: "PCollection[Any]", *, how: str = "inner", name: str = "join"
    ) -> "PCollection[list[Any]]":
        """Pair the values of two collections that have the same key and window; emit [left, right] pairs.

        Windows, trigger, accumulation and lateness are those of both collections, so they must be the same. In the global window,
        which an unbounded input never closes, give both a trigger, such as ``Repeat(AtCount(1))``, and
        ``accumulating_and_retracting()``: pairs then appear as soon as both sides are there, and are retracted when they change.

        Args:
            other: the right side.
            how: ``"inner"``; ``"left"``, ``"right"`` or ``"outer"`` also pair a value without a partner with ``None``.
            name: name of the grouping.

        Raises:
            OptionsError: an argument is invalid.
            DataflowError: the collections' windows, triggers or other settings differ.
        """
        if how not in _JOINS:
            raise OptionsError("how", how, f"one of {', '.join(map(repr, _JOINS))}")
        pairs = co_group({"left": self, "right": other}, name=name)
        return pairs.flat_map(_JOINS[how], name=f"{name} pairs")

    def _after(self, node: Node) -> "PCollection[Any]":
        """Continue at another node with the same settings for the next grouping."""
        return replace(self, chain=Chain(node))

    def _then(self, step: Step, name: str | None) -> "PCollection[Any]":
        chain_name = self.chain.name if name is None else name
        check_name("name", chain_name)
        return replace(self, chain=Chain(self.chain.node, (*self.chain.steps, step), chain_name))

    # Where

    def window_into(self, windows: WindowFn) -> "PCollection[V]":
        """Set where in event time elements are grouped (2.2).

        Raises:
            DataflowError: the strategy cannot assign or cannot merge windows.
        """
        check_windows(windows)
        return replace(self, windows=windows)

    # When

    def trigger(self, trigger: Trigger, *, allow_unsafe_triggers: bool = False) -> "PCollection[V]":
        """Set when in processing time the next grouping emits (2.3).

        Args:
            trigger: the trigger.
            allow_unsafe_triggers: whether it may finish while elements still arrive for its window, such as a count that is not
                repeated; these elements are dropped and counted. By default, `Flow.pipeline` refuses such a trigger. (Beam's
                option of the same name.)

        Raises:
            DataflowError: part of it can never fire.
        """
        check_trigger(trigger)
        return replace(self, when=trigger, allow_unsafe_triggers=allow_unsafe_triggers)

    def allowed_lateness(self, lateness_us: int | None, *, dropped_to: str = "") -> "PCollection[V]":
        """Set how far behind the watermark a window is kept. Later elements are dropped and counted. Default: 0, as in Beam.

        Args:
            lateness_us: event time, microseconds; ``None``: without limit, so the state grows without limit, too.
            dropped_to: stream for the elements that the next grouping drops, as late panes with the elements' values; default:
                they are only counted.

        Raises:
            OptionsError: the lateness is negative.
        """
        check_lateness(lateness_us)
        return replace(self, lateness_us=lateness_us, dropped_to=dropped_to)

    # How

    def discarding(self) -> "PCollection[V]":
        """Emit in each pane what has arrived since the last one (2.3)."""
        return replace(self, accumulation=Accumulation.DISCARDING, compacts=False)

    def accumulating(self) -> "PCollection[V]":
        """Emit in each pane everything so far; it replaces the last one (2.3)."""
        return replace(self, accumulation=Accumulation.ACCUMULATING, compacts=False)

    def accumulating_and_retracting(self, *, compact: bool = False) -> "PCollection[V]":
        """Emit in each pane everything so far, after a retraction of the last one (2.3).

        Args:
            compact: whether to emit nothing where the pane would say the same as the last one, such as the same maximum: a
                grouping downstream then has nothing to take back and count again. Default: each firing with new elements emits.
        """
        compacts = check_bool("compact", compact)
        return replace(self, accumulation=Accumulation.ACCUMULATING_AND_RETRACTING, compacts=compacts)

    def timestamps_of_panes(self, combiner: TimestampCombiner) -> "PCollection[V]":
        """Set the event times of panes (Beam: ``timestamp_combiner``). Default: the window's last microsecond.

        With the earliest or latest event time of a pane's elements, the output watermark waits there until the pane is sent; so a
        grouping below, by other windows, does not take it for late. Late elements do not count.

        Args:
            combiner: the combiner.

        Raises:
            OptionsError: it is not a `TimestampCombiner`.
        """
        if not isinstance(combiner, TimestampCombiner):
            raise OptionsError(
                "timestamps_of_panes", combiner, "a TimestampCombiner, such as TimestampCombiner.EARLIEST"
            )
        return replace(self, timestamps=combiner)

    # What, for each key and window. ``name`` is the computation's name; repeated names are numbered.

    def combine(self, combine: CombineFn, *, fanout: int = 1, name: str = "combine") -> "PCollection[Any]":
        """Group by key and window, and combine the values (``GroupByKeyAndWindow``, 2.2).

        Args:
            combine: the combiner.
            fanout: over how many keys, 256 at most, the elements of a hot key are spread; each first combines its own, and the
                second grouping the accumulators (Beam: ``with_hot_key_fanout``). Both have the trigger: delays add up, and a
                count is one of elements, then of accumulators. The input must not have retractions.
            name: name of the computation.

        Raises:
            OptionsError: the combiner, the fan-out or the name is invalid.
            DataflowError: a fan-out is given, and the windows may merge, or ``dropped_to`` is given.
        """
        check_combine(combine)
        check_name("name", name)
        check_count("fanout", fanout)
        if fanout == 1:
            return self._combined(combine, name)
        if fanout > _MOST_SHARDS:
            raise OptionsError("fanout", fanout, f"at most {_MOST_SHARDS}")
        windows = self.merging if self.windows is None else self.windows
        if not never_merges(windows):
            problem = "sessions of shards end before the whole session"
            raise DataflowError(f"grouping {name!r} with a fanout", problem, "Use windows that never merge")
        if self.dropped_to:
            problem = "elements that it drops would have the keys of shards"
            raise DataflowError(f"grouping {name!r} with a fanout", problem, "Remove dropped_to")
        partly = CombineFn(combine.create, combine.add, combine.merge)
        merged = CombineFn(combine.create, combine.merge, combine.merge, combine.extract)
        shards = self._then(Shard(fanout), None).discarding()._combined(partly, f"{name} shards", shards=True)
        whole = replace(shards._then(Unshard(), None), when=self.when, accumulation=self.accumulation)
        return replace(whole, allow_unsafe_triggers=self.allow_unsafe_triggers)._combined(merged, name)

    def _combined(self, combine: CombineFn, name: str, *, shards: bool = False) -> "PCollection[Any]":
        grouping = Grouping(
            windows=self.windows,
            trigger=DEFAULT_TRIGGER if self.when is None else self.when,
            accumulation=self.accumulation,
            combine=combine,
            allowed_lateness_us=self.lateness_us,
            merging=self.merging,
            timestamps=self.timestamps,
            compacts=self.compacts,
        )
        node = Grouped(self.chain, name, grouping, self.allow_unsafe_triggers, self.dropped_to, shards)
        after = replace(self._after(node), merging=grouping.strategy, windows=None)
        return replace(after, when=None, allow_unsafe_triggers=False, dropped_to="")

    def group(self, *, name: str = "group") -> "PCollection[list[V]]":
        """Collect the values in unspecified order (``GroupByKey``)."""
        return self.combine(LIST, name=name)

    def sum(self, *, name: str = "sum") -> "PCollection[V]":
        """Sum the values."""
        return self.combine(SUM, name=name)

    def count(self, *, name: str = "count") -> "PCollection[int]":
        """Count the values."""
        return self.combine(COUNT, name=name)

    def mean(self, *, name: str = "mean") -> "PCollection[float | None]":
        """Compute the mean of the values."""
        return self.combine(MEAN, name=name)

    def min(self, *, name: str = "min") -> "PCollection[V | None]":
        """Find the smallest value."""
        return self.combine(MIN, name=name)

    def max(self, *, name: str = "max") -> "PCollection[V | None]":
        """Find the greatest value."""
        return self.combine(MAX, name=name)

    def top(
        self, count: int, *, key: Callable[[V], Any] | None = None, name: str = "top"
    ) -> "PCollection[list[V]]":
        """Find the ``count`` greatest values, greatest first; ``key`` as for `top`."""
        return self.combine(top(count, key=key), name=name)

    def distinct(self, *, name: str = "distinct") -> "PCollection[V]":
        """Keep each different value once for each key and window, in the order of their JSON."""
        return self.combine(DISTINCT, name=name).flat_map(_each, name=f"{name} values")

    def to(self, stream: str) -> "Flow":
        """Send the collection to a stream: panes if it was grouped, else plain values.

        Raises:
            OptionsError: the stream's name is invalid.
            DataflowError: a trigger or windows were given, but no grouping follows.
        """
        check_stream(stream)
        for setting, call in ((self.when, "trigger"), (self.windows, "window_into")):
            if setting is not None:
                problem = f"no grouping follows {call}({setting!r})"
                remedy = f"Group the collection, for example with sum(), or remove {call}(...)"
                raise DataflowError(f"collection for stream {stream!r}", problem, remedy)
        return Flow(((self, stream),))


@dataclass(frozen=True, slots=True)
class Flow:
    """Collections and their output streams, from which a pipeline is built. Join several flows with ``+``.

    Attributes:
        outputs: each collection with the stream on which it leaves.
    """

    outputs: tuple[tuple[PCollection[Any], str], ...]

    def __add__(self, other: "Flow") -> "Flow":
        """Join two flows into one pipeline; shared parts are built once. Several collections may go to one stream."""
        if not isinstance(other, Flow):
            raise OptionsError("flow", other, "a Flow, as returned by a collection's to(stream)")
        return Flow(self.outputs + other.outputs)

    def pipeline(self, name: str, *, engine: Engine | None = None, processes: int = 1) -> Pipeline:
        """Build an ordinary pipeline, with an injector for each stream that is read.

        Args:
            name: name of the pipeline.
            engine: streaming, batch or micro-batch (Figures 10 to 12); default: streaming.
            processes: number of processes of each injector.

        Raises:
            HeadraceError: the flow is inconsistent.
        """
        pipeline = Pipeline(name)
        builder = self._builder(pipeline, engine)
        for stream, codec in builder.sources().items():
            pipeline.injector(stream, processes=processes)
            if codec is not None:
                pipeline.stream(stream, codec)
        builder.build()
        pipeline.validate()
        return pipeline

    def add_to(self, pipeline: Pipeline, *, engine: Engine | None = None) -> None:
        """Add the computations to a pipeline that already has the streams that are read, and their codecs.

        Args:
            pipeline: pipeline to change.
            engine: as in `pipeline`.

        Raises:
            DuplicateNameError: a transform and a computation of the pipeline have the same name; rename the transform with
                ``name=``.
            DataflowError: its streams conflict with those of the flow.
        """
        if not isinstance(pipeline, Pipeline):
            raise OptionsError("pipeline", pipeline, "a Pipeline")
        self._builder(pipeline, engine).build()

    def _builder(self, pipeline: Pipeline, engine: Engine | None) -> Builder:
        sendings = [StreamOutput(collection.chain, stream) for collection, stream in self.outputs]
        return Builder(pipeline, check_engine(engine), sendings)


def read(
    stream: str, *, key: Callable[[Record], Any] = same_key, codec: Codec | None = None, bounded: bool = False
) -> PCollection[Any]:
    """Read a stream; its records become elements in the global window (2.2).

    Args:
        stream: the stream's name.
        key: takes a record and returns its key, as the function of `PCollection.key_by` does; default: the record's own key.
        codec: codec of the stream; default: `JsonCodec`.
        bounded: whether the stream ends. Only then can the watermark pass the end of the global window.

    Raises:
        OptionsError: an argument of the wrong type.
    """
    check_stream(stream)
    check_function("key", key)
    check_bool("bounded", bounded)
    if codec is not None and (
        isinstance(codec, type) or not (_can(codec, "encode") and _can(codec, "decode"))
    ):
        raise OptionsError("codec", codec, "an object with encode and decode, such as JsonCodec()")
    extractor = key if key is same_key else TextKey(key)
    return PCollection(Chain(ReadNode(stream, extractor, codec, bounded)))


def flatten(*collections: PCollection[Any]) -> PCollection[Any]:
    """Merge collections into one (``Flatten``). No element becomes late by it, whatever groupings are above each of them.

    Args:
        *collections: two or more, with the same windows, trigger, accumulation and lateness.

    Raises:
        OptionsError: fewer than two, or something else than collections.
        DataflowError: their settings differ.
    """
    if len(collections) < 2 or not all(isinstance(collection, PCollection) for collection in collections):
        raise OptionsError("flatten", collections, "two or more collections")
    first = collections[0]
    for collection in collections[1:]:
        for setting, call in _SETTINGS.items():
            ours, others = getattr(first, setting), getattr(collection, setting)
            if ours != others and not (setting == "merging" and first.windows is not None):
                problem = f"they differ in {call}: {ours!r} and {others!r}"
                raise DataflowError(
                    "collections of one grouping", problem, f"Give all of them the same {call}"
                )
    return first._after(Flattened(tuple(collection.chain for collection in collections)))


def co_group(
    collections: Mapping[str, PCollection[Any]], *, name: str = "co_group"
) -> PCollection[dict[str, list[Any]]]:
    """Group several collections by key and window (``CoGroupByKey``): a dict of each one's values by label.

    >>> from headrace.dataflow import FixedWindows, read
    >>> views, clicks = (read(stream).window_into(FixedWindows(60)) for stream in ("views", "clicks"))
    >>> co_group({"views": views, "clicks": clicks}).to("both").pipeline("ads").output_streams
    ('both',)

    Args:
        collections: two or more by label; otherwise as for `flatten`.
        name: name of the grouping.

    Returns:
        for each key and window, the values by label, each list in the order of the values' JSON.

    Raises:
        OptionsError: an argument is invalid.
        DataflowError: the collections' settings differ.
    """
    expected = "a dict of two or more collections by label"
    argument: Any = collections
    if not isinstance(argument, Mapping) or len(argument) < 2:
        raise OptionsError("co_group", argument, expected)
    for label, collection in argument.items():
        if type(label) is not str or not isinstance(collection, PCollection):
            raise OptionsError("co_group", argument, expected)
    labelled = [
        collection._then(Labelled(label), f"{name} {label}") for label, collection in collections.items()
    ]
    return flatten(*labelled).combine(by_label(collections), name=name)


_MOST_SHARDS = 256

_SETTINGS = {
    "windows": "window_into",
    "merging": "windows",
    "when": "trigger",
    "allow_unsafe_triggers": "allow_unsafe_triggers",
    "accumulation": "accumulation mode",
    "compacts": "compact",
    "timestamps": "timestamps_of_panes",
    "lateness_us": "allowed_lateness",
    "dropped_to": "dropped_to",
}


def _each(values: list[Any]) -> list[Any]:
    return values


def _inner(sides: dict[str, list[Any]]) -> list[Any]:
    return [[left, right] for left in sides["left"] for right in sides["right"]]


def _left(sides: dict[str, list[Any]]) -> list[Any]:
    return [[left, right] for left in sides["left"] for right in sides["right"] or [None]]


def _right(sides: dict[str, list[Any]]) -> list[Any]:
    return [[left, right] for left in sides["left"] or [None] for right in sides["right"]]


def _outer(sides: dict[str, list[Any]]) -> list[Any]:
    return [[left, right] for left in sides["left"] or [None] for right in sides["right"] or [None]]


_JOINS = {"inner": _inner, "left": _left, "right": _right, "outer": _outer}


def _can(codec: object, method: str) -> bool:
    return callable(getattr(codec, method, None))
