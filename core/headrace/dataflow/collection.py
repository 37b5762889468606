"""The fluent API (Dataflow 2.2.3, 2.4): a `PCollection` is described by what is done to it, and `Flow.pipeline` builds it.

>>> from headrace import MINUTE
>>> from headrace.dataflow import FixedWindows, read
>>> totals = read("scores").window_into(FixedWindows(2 * MINUTE)).accumulating().sum().to("totals")
>>> pipeline = totals.pipeline("games")
>>> pipeline.output_streams
('totals',)

Rules of this file: a collection is a value; each call returns a new one. Functions on elements are fused into one `ParDo`.
A trigger is the next grouping's alone; windows, accumulation and allowed lateness stay until they are changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from headrace import Codec, OptionsError, Pipeline, same_key
from headrace.dataflow.arguments import check_bool, check_function, check_name, check_stream
from headrace.dataflow.building import Builder, Grouped, Node, Read, Sending
from headrace.dataflow.checks import (
    check_combine,
    check_engine,
    check_lateness,
    check_trigger,
    check_windows,
)
from headrace.dataflow.combining import COUNT, LIST, MAX, MEAN, MIN, SUM, CombineFn, top
from headrace.dataflow.engines import Engine
from headrace.dataflow.errors import DataflowError
from headrace.dataflow.panes import Accumulation
from headrace.dataflow.pardo import Do, DoFn, Filter, FlatMap, KeyBy, Map, MoveInTime, Step
from headrace.dataflow.transforms import KeyExtractor
from headrace.dataflow.triggers import DEFAULT_TRIGGER, Trigger
from headrace.dataflow.windows import GlobalWindows, WindowFn

V = TypeVar("V")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class PCollection(Generic[V]):
    """Elements (key, value, event time, window), as they come to be (2.1, 2.2). Begin with `read`.

    Attributes:
        node: where the elements come from.
        steps: what is done to each before the next grouping.
        steps_name: the name of the computation that does it.
        windows: where the next grouping puts them; ``None``: they stay in the windows that they are in.
        merging: the strategy of the windows that they are in.
        when: the next grouping's trigger; ``None``: none was given, and it has the default one.
        accumulation: how its panes relate.
        lateness_us: how long its windows are kept behind the watermark; ``None``: without limit.
        allow_unsafe_triggers: its trigger may finish while elements still come for its window.
        dropped_to: stream of what it drops; ``""``: none.
    """

    node: Node
    steps: tuple[Step, ...] = ()
    steps_name: str = "par_do"
    windows: WindowFn | None = None
    merging: WindowFn = field(default_factory=GlobalWindows)
    when: Trigger | None = None
    accumulation: Accumulation = Accumulation.DISCARDING
    lateness_us: int | None = 0
    allow_unsafe_triggers: bool = False
    dropped_to: str = ""

    # What: each element. Functions that follow each other are one computation, named by the last ``name`` given, else ``par_do``.

    def par_do(self, function: DoFn, *, name: str | None = None) -> "PCollection[Any]":
        """Make any number of (key, value) pairs of each element (``ParDo``).

        Args:
            function: takes an `Element`; deterministic.
            name: of the computation.
        """
        check_function("par_do", function)
        return self._then(Do(function), name)

    def map(self, function: Callable[[V], W], *, name: str | None = None) -> "PCollection[W]":
        """Make one value of each; keys stay."""
        check_function("map", function)
        return self._then(Map(function), name)

    def flat_map(self, function: Callable[[V], Iterable[W]], *, name: str | None = None) -> "PCollection[W]":
        """Make any number of values of each; keys stay."""
        check_function("flat_map", function)
        return self._then(FlatMap(function), name)

    def filter(self, function: Callable[[V], bool], *, name: str | None = None) -> "PCollection[V]":
        """Keep those for whose value it is true."""
        check_function("filter", function)
        return self._then(Filter(function), name)

    def key_by(self, function: Callable[[V], str], *, name: str | None = None) -> "PCollection[V]":
        """Give each a key that is made of its value."""
        check_function("key_by", function)
        return self._then(KeyBy(function), name)

    def with_time(self, function: Callable[[V], int], *, name: str | None = None) -> "PCollection[V]":
        """Give each an event time that is made of its value (2.2: it "may be modified at any point in the pipeline").

        To move elements behind the watermark makes them late (footnote 8).

        Args:
            function: takes the value, and returns microseconds, after `MIN_TIME` and before `END_OF_TIME`; else the run stops
                with a `DataflowError` that names the element.
            name: of the computation.
        """
        check_function("with_time", function)
        return self._then(MoveInTime(function), name)

    def _then(self, step: Step, name: str | None) -> "PCollection[Any]":
        steps_name = self.steps_name if name is None else name
        check_name("name", steps_name)
        return replace(self, steps=(*self.steps, step), steps_name=steps_name)

    # Where

    def window_into(self, windows: WindowFn) -> "PCollection[V]":
        """Say where in event time elements are grouped (2.2).

        Raises:
            DataflowError: the strategy can not assign, or not merge windows.
        """
        check_windows(windows)
        return replace(self, windows=windows)

    # When

    def trigger(self, trigger: Trigger, *, allow_unsafe_triggers: bool = False) -> "PCollection[V]":
        """Say when in processing time the next grouping emits (2.3).

        Args:
            trigger: when.
            allow_unsafe_triggers: it may finish while elements still come for its window, as a count does that is not repeated.
                These are dropped, and counted. (Beam's option of this name.) Else `Flow.pipeline` refuses such a trigger.

        Raises:
            DataflowError: part of it can never fire.
        """
        check_trigger(trigger)
        return replace(self, when=trigger, allow_unsafe_triggers=allow_unsafe_triggers)

    def allowed_lateness(self, lateness_us: int | None, *, dropped_to: str = "") -> "PCollection[V]":
        """Say how far behind the watermark a window is kept. Later elements are dropped, and counted. Default: 0, as in Beam.

        Args:
            lateness_us: event time, microseconds; ``None``: without limit, and so is the state.
            dropped_to: stream that gets what the next grouping drops, as late panes whose values are the elements'; default: they
                are only counted.

        Raises:
            OptionsError: it is negative.
        """
        check_lateness(lateness_us)
        return replace(self, lateness_us=lateness_us, dropped_to=dropped_to)

    # How

    def discarding(self) -> "PCollection[V]":
        """Let a pane hold what came since the last one (2.3)."""
        return replace(self, accumulation=Accumulation.DISCARDING)

    def accumulating(self) -> "PCollection[V]":
        """Let a pane hold all, and replace the last one (2.3)."""
        return replace(self, accumulation=Accumulation.ACCUMULATING)

    def accumulating_and_retracting(self) -> "PCollection[V]":
        """Let a pane hold all, and the last one be taken back first (2.3)."""
        return replace(self, accumulation=Accumulation.ACCUMULATING_AND_RETRACTING)

    # What: each key and window. ``name`` is the computation's; a number is added if there are several of one name.

    def combine(self, combine: CombineFn, *, name: str = "combine") -> "PCollection[Any]":
        """Group by key and window, and combine the values (``GroupByKeyAndWindow``, 2.2).

        Args:
            combine: how.
            name: of the computation.

        Raises:
            OptionsError: what is no combiner, or no name.
        """
        check_combine(combine)
        check_name("name", name)
        grouped = Grouped(
            self.node,
            self.steps,
            self.steps_name,
            name,
            self.windows,
            self.merging,
            DEFAULT_TRIGGER if self.when is None else self.when,
            self.accumulation,
            combine,
            self.lateness_us,
            self.allow_unsafe_triggers,
            self.dropped_to,
        )
        merging = self.merging if self.windows is None else self.windows
        return PCollection(
            grouped, merging=merging, accumulation=self.accumulation, lateness_us=self.lateness_us
        )

    def group(self, *, name: str = "group") -> "PCollection[list[V]]":
        """Collect the values, in no order that one may rely on (``GroupByKey``)."""
        return self.combine(LIST, name=name)

    def sum(self, *, name: str = "sum") -> "PCollection[V]":
        """Add them up."""
        return self.combine(SUM, name=name)

    def count(self, *, name: str = "count") -> "PCollection[int]":
        """Count them."""
        return self.combine(COUNT, name=name)

    def mean(self, *, name: str = "mean") -> "PCollection[float | None]":
        """Compute their mean."""
        return self.combine(MEAN, name=name)

    def min(self, *, name: str = "min") -> "PCollection[V | None]":
        """Find the least."""
        return self.combine(MIN, name=name)

    def max(self, *, name: str = "max") -> "PCollection[V | None]":
        """Find the greatest."""
        return self.combine(MAX, name=name)

    def top(self, count: int, *, name: str = "top") -> "PCollection[list[V]]":
        """Find the greatest ones, the greatest first."""
        return self.combine(top(count), name=name)

    def to(self, stream: str) -> "Flow":
        """Send it to a stream: panes, if it has been grouped; else values.

        Raises:
            OptionsError: what is no stream's name.
            DataflowError: a trigger or windows that no grouping has use for.
        """
        check_stream(stream)
        for given, call in ((self.when, "trigger"), (self.windows, "window_into")):
            if given is not None:
                problem = f"it was given {call}({given!r}), and no grouping follows"
                raise DataflowError(
                    f"collection for stream {stream!r}", problem, "Group it, as by sum(), or leave that out"
                )
        return Flow(((self, stream),))


@dataclass(frozen=True, slots=True)
class Flow:
    """Collections and the streams that they go to: what a pipeline is built of. Join several by ``+``."""

    outputs: tuple[tuple[PCollection[Any], str], ...]

    def __add__(self, other: "Flow") -> "Flow":
        """Both in one pipeline; what they have in common is there once. Several collections may go to one stream."""
        if not isinstance(other, Flow):
            raise OptionsError("flow", other, "a Flow, such as a collection's to(stream) gives")
        return Flow(self.outputs + other.outputs)

    def pipeline(self, name: str, *, engine: Engine | None = None, processes: int = 1) -> Pipeline:
        """Build an ordinary pipeline, with an injector for each stream that is read.

        Args:
            name: of the pipeline.
            engine: streaming, batch or micro-batch (Figures 10 to 12); default: streaming.
            processes: of each injector.

        Raises:
            HeadraceError: it does not fit together.
        """
        pipeline = Pipeline(name)
        builder = Builder(pipeline, check_engine(engine))
        for stream, codec in builder.sources(collection.node for collection, _ in self.outputs).items():
            pipeline.injector(stream, processes=processes)
            if codec is not None:
                pipeline.stream(stream, codec)
        self._build(builder)
        pipeline.validate()
        return pipeline

    def add_to(self, pipeline: Pipeline, *, engine: Engine | None = None) -> None:
        """Add the computations to a pipeline that has the streams that are read, and their codecs.

        Args:
            pipeline: it is changed.
            engine: as in `pipeline`.

        Raises:
            DuplicateNameError: it has a computation of a name that a transform has: give the transform another by ``name=``.
            DataflowError: its streams and those of the flow do not fit together.
        """
        if not isinstance(pipeline, Pipeline):
            raise OptionsError("pipeline", pipeline, "a Pipeline")
        self._build(Builder(pipeline, check_engine(engine)))

    def _build(self, builder: Builder) -> None:
        builder.build(
            Sending(collection.node, collection.steps, collection.steps_name, stream)
            for collection, stream in self.outputs
        )


def read(
    stream: str, *, key: KeyExtractor = same_key, codec: Codec | None = None, bounded: bool = False
) -> PCollection[Any]:
    """Begin with a stream: its records are elements of the global window (2.2).

    Args:
        stream: its name.
        key: takes a record and returns its key; default: the record's own.
        codec: of the stream; default: JSON-like.
        bounded: it ends. Only then does the watermark ever pass the global window.

    Raises:
        OptionsError: an argument of the wrong kind.
    """
    check_stream(stream)
    check_function("key", key)
    check_bool("bounded", bounded)
    if codec is not None and (
        isinstance(codec, type) or not (_can(codec, "encode") and _can(codec, "decode"))
    ):
        raise OptionsError("codec", codec, "an object with encode and decode, such as JsonCodec()")
    return PCollection(Read(stream, key, codec, bounded))


def _can(codec: object, method: str) -> bool:
    return callable(getattr(codec, method, None))
