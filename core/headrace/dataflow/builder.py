"""Builds computations from transforms: one for each node, and one for each chain of functions before it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from headrace import Codec, Computation, DuplicateNameError, Pipeline, TypedCodec, same_key
from headrace.dataflow.checks import check_grouping, percentiles
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.engines import Engine, MicroBatch
from headrace.dataflow.enriching import Enrich, Enrichment, Spread
from headrace.dataflow.grouping import Grouping
from headrace.dataflow.panes import Accumulation, Pane
from headrace.dataflow.pardo import MoveInTime, Step, Tagging, Typed
from headrace.dataflow.stateful import StatefulFn, StatefulParDo
from headrace.dataflow.transforms import (
    GroupByKeyAndWindow,
    KeyExtractor,
    ParDo,
    PercentileProbe,
    TaggedParDo,
)
from headrace.dataflow.triggers import goes_by_arrival
from headrace.dataflow.value_codecs import ValueCodec


@dataclass(frozen=True, slots=True, eq=False)
class ReadNode:
    """An input stream: see `read`."""

    stream: str
    key: KeyExtractor
    codec: Codec | None
    bounded: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """A node's elements after some functions on them.

    Attributes:
        node: where they come from.
        steps: the functions.
        name: name of the computation that applies them.
    """

    node: "Node"
    steps: tuple[Step, ...] = ()
    name: str = "par_do"


@dataclass(frozen=True, slots=True, eq=False)
class Flattened:
    """The elements of several chains: see `flatten`."""

    sources: tuple[Chain, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A grouping of a chain's elements, but for what it takes from its pipeline: see `PCollection` for the other fields."""

    source: Chain
    name: str
    grouping: Grouping
    allow_unsafe_triggers: bool
    dropped_to: str
    shards: bool


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A function with several outputs: see `PCollection.par_do_tagged`."""

    source: Chain
    function: Tagging
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One output of a `Split`."""

    split: Split
    tag: str


@dataclass(frozen=True, slots=True, eq=False)
class KeyedParDo:
    """A function with state and timers: see `PCollection.par_do_stateful`."""

    source: Chain
    function: StatefulFn
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Enriched:
    """Elements with the side input as of their event times: see `PCollection.enrich`."""

    main: Chain
    side: Chain
    enrich: Enrich
    name: str


Node = ReadNode | Flattened | Grouped | Branch | KeyedParDo | Enriched


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """An output: a chain's elements go to a stream."""

    chain: Chain
    stream: str


@dataclass(frozen=True, slots=True)
class _Elements:
    """Streams of elements, and what their consumers have to know.

    Attributes:
        inputs: key extractor by stream, for a consumer's inputs.
        lag: greatest number of transforms above it that emit at a watermark.
        panes: those of the streams whose values are panes; the others' are plain values.
        has_retractions: whether retractions may come.
        bounded: whether all of them end.
    """

    inputs: dict[str, KeyExtractor]
    lag: int = 0
    panes: frozenset[str] = frozenset()
    has_retractions: bool = False
    bounded: bool = False

    def __or__(self, other: "_Elements") -> "_Elements":
        return _Elements(
            self.inputs | other.inputs,
            max(self.lag, other.lag),
            self.panes | other.panes,
            self.has_retractions or other.has_retractions,
            self.bounded and other.bounded,
        )


class Builder:
    """Adds transforms to a pipeline. A node that several outputs share is added once.

    Args:
        pipeline: pipeline to change.
        engine: engine for all groupings.
        sendings: the outputs, which also declare classes whose instances keep their class between transforms.

    Raises:
        DataflowError: two classes have the same name.
    """

    def __init__(self, pipeline: Pipeline, engine: Engine, sendings: Sequence[StreamOutput]) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._sendings = sendings
        self._nodes = _ancestry(output.chain.node for output in sendings)
        self._classes = self._declared_classes()
        self._built: dict[Node, _Elements] = {}
        self._branches: dict[Split, dict[str, str]] = {}
        self._names: set[str] = set()
        self._outputs: dict[Node, list[str]] = {}
        self._inner: dict[Node, None] = {}
        self._outside: dict[str, bool] = {}

    def _declared_classes(self) -> tuple[type, ...]:
        chains = [output.chain for output in self._sendings]
        chains += [chain for node in self._nodes for chain in _sources(node)]
        classes: dict[str, type] = {}
        for declared in (step for chain in chains for step in chain.steps if isinstance(step, Typed)):
            for class_ in declared.classes:
                if classes.setdefault(class_.__name__, class_) is not class_:
                    raise DataflowError(
                        f"class {class_.__name__!r}", "two classes have this name", "Rename one of them"
                    )
        return tuple(classes.values())

    def sources(self) -> dict[str, Codec | None]:
        """Return the streams that are read, each with its given codec, if any.

        Raises:
            DataflowError: a stream was given two codecs.
        """
        codecs: dict[str, Codec | None] = {}
        for ancestor in self._nodes:
            if isinstance(ancestor, ReadNode):
                known = codecs.setdefault(ancestor.stream, ancestor.codec)
                if known is None:
                    codecs[ancestor.stream] = ancestor.codec
                elif ancestor.codec is not None and ancestor.codec != known:
                    problem = f"it is read with the codecs {known!r} and {ancestor.codec!r}"
                    raise DataflowError(f"stream {ancestor.stream!r}", problem, "Read it with one codec")
        return codecs

    def build(self) -> None:
        """Add everything that the outputs need.

        A stream with subscribers does not go outside, so a grouping that feeds both has a stream for each.

        Raises:
            DataflowError: the collections for one stream conflict.
        """
        direct, applied = list[Grouped](), list[StreamOutput]()
        for output in self._checked([part for sending in self._sendings for part in _parts(sending)]):
            node = output.chain.node
            if isinstance(node, Grouped) and not output.chain.steps:
                self._outputs.setdefault(node, []).append(output.stream)
                direct.append(node)
            else:
                applied.append(output)
        self._inner |= dict.fromkeys(output.chain.node for output in applied)
        for node in _ancestry([*direct, *self._inner]):
            self._inner |= dict.fromkeys(chain.node for chain in _sources(node))
        for grouped in direct:
            self._elements_of(grouped)
        for output in applied:
            chain = output.chain
            self._par_do(self._elements_of(chain.node), chain.steps, chain.name, output.stream)

    def _checked(self, outputs: list[StreamOutput]) -> list[StreamOutput]:
        """Refuse outputs that cannot share their stream; remember which streams carry panes."""
        for output in outputs:
            carries_panes = _carries_panes(output.chain)
            where = f"stream {output.stream!r}"
            if self._outside.setdefault(output.stream, carries_panes) != carries_panes:
                problem = "it gets both panes and plain values"
                raise DataflowError(where, problem, "Send them to separate streams")
            if outputs.count(output) > 1:
                raise DataflowError(where, "it gets the same collection twice", "Send the collection once")
        return outputs

    def _elements_of(self, node: Node) -> _Elements:
        """Return a node's elements; add what makes them, if that has not been done."""
        known = self._built.get(node)
        if known is None:
            known = self._built[node] = self._build(node)
        return known

    def _build(self, node: Node) -> _Elements:
        match node:
            case ReadNode(stream, key, _, bounded):
                return _Elements({stream: key}, bounded=bounded)
            case Flattened(chains):
                return self._flatten(chains)
            case Grouped():
                return self._group(node)
            case Branch(split, tag):
                return self._branch(split, tag)
            case KeyedParDo(source, function, name):
                return self._keep(self._chained(source), function, name)
            case Enriched():
                return self._enrich(node)

    def _chained(self, chain: Chain) -> _Elements:
        elements = self._elements_of(chain.node)
        return self._par_do(elements, chain.steps, chain.name) if chain.steps else elements

    def _flatten(self, chains: Sequence[Chain]) -> _Elements:
        first, *others = [self._chained(chain) for chain in chains]
        for elements in others:
            # A stream can be subscribed to only once.
            is_new = first.inputs.keys().isdisjoint(elements.inputs)
            first |= elements if is_new else self._par_do(elements, (), "flatten")
        return first

    def _group(self, node: Grouped) -> _Elements:
        """Add a grouping; its streams are the outputs, and one for downstream transforms of this pipeline."""
        source = self._chained(node.source)
        grouping = replace(
            node.grouping,
            engine=self._engine,
            takes_retractions=source.has_retractions,
            codec=self._values(),
        )
        name = self._name(node.name)
        if node.shards and source.has_retractions:
            problem = "its input may have retractions, which accumulators of shards cannot take back"
            raise DataflowError(f"grouping {name!r}", problem, "Remove the fanout")
        check_grouping(
            f"grouping {name!r}",
            grouping,
            bounded=source.bounded,
            allow_unsafe_triggers=node.allow_unsafe_triggers,
        )
        inner = self._inside(f"{name} panes")
        streams = [*self._outputs.get(node, []), *([inner] if node in self._inner else [])]
        outputs = [*streams, *([node.dropped_to] if node.dropped_to else [])]
        signals = self._probe(name, grouping, source)
        self._add(
            GroupByKeyAndWindow(
                grouping,
                streams,
                lag=source.lag,
                panes=source.panes,
                signals=signals,
                dropped=node.dropped_to,
            ),
            name=name,
            inputs={**source.inputs, **({signals: same_key} if signals else {})},
            outputs=outputs,
            state_codec=grouping.row_codec(self._values()),
            ordered=goes_by_arrival(grouping.trigger) or isinstance(self._engine, MicroBatch),
        )
        for stream in outputs:
            self._declare(stream, inside=stream == inner)
        takes_back = grouping.accumulation is Accumulation.ACCUMULATING_AND_RETRACTING
        return _Elements(
            {inner: same_key},
            source.lag + 1,
            frozenset({inner}),
            has_retractions=takes_back or source.has_retractions,
            bounded=source.bounded,
        )

    def _probe(self, name: str, grouping: Grouping, source: _Elements) -> str:
        """Add a computation for each percentile watermark; return their stream of reports, or ``""`` if there are none."""
        asked = percentiles(grouping.trigger)
        if not asked:
            return ""
        signals = self._inside(f"{name} progress")
        for percentile in asked:
            self._add(
                PercentileProbe(grouping, percentile, signals, source.lag, source.panes),
                name=f"{name} at {percentile:g} percent",
                inputs=source.inputs,
                outputs=[signals],
                watermark_percentile=percentile,
            )
        return signals

    def _par_do(self, source: _Elements, steps: tuple[Step, ...], wanted: str, output: str = "") -> _Elements:
        name = self._name(wanted)
        makes_panes = bool(source.panes) or _makes_panes(steps)
        stream = output or self._inside(f"{name} elements")
        computation = ParDo(steps, stream, panes=source.panes, makes_panes=makes_panes)
        self._add(computation, name=name, inputs=source.inputs, outputs=[stream])
        return self._transformed(source, stream, makes_panes=makes_panes, inside=not output)

    def _branch(self, split: Split, tag: str) -> _Elements:
        """Add a function with several outputs: all of those that are used, when the first one is."""
        steps = split.source.steps
        source = self._elements_of(split.source.node)
        makes_panes = bool(source.panes) or _makes_panes(steps)
        if split not in self._branches:
            name = self._name(split.name)
            tags = {node.tag for node in self._inner if isinstance(node, Branch) and node.split is split}
            outputs = {used: self._inside(f"{name} {used}") for used in sorted(tags)}
            computation = TaggedParDo(
                steps, split.function, outputs, panes=source.panes, makes_panes=makes_panes
            )
            self._add(computation, name=name, inputs=source.inputs, outputs=list(outputs.values()))
            self._branches[split] = outputs
        return self._transformed(source, self._branches[split][tag], makes_panes=makes_panes, inside=True)

    def _keep(self, source: _Elements, function: StatefulFn, wanted: str) -> _Elements:
        name = self._name(wanted)
        stream = self._inside(f"{name} elements")
        computation = StatefulParDo(function, stream, source.lag, source.panes)
        self._add(computation, name=name, inputs=source.inputs, outputs=[stream], state_codec=self._values())
        return self._transformed(source, stream, makes_panes=True, inside=True)

    def _enrich(self, node: Enriched) -> _Elements:
        main, side = self._chained(node.main), self._chained(node.side)
        name = self._name(node.name)
        if node.enrich.is_broadcast:
            spread = Spread(node.enrich.shards)
            main = self._par_do(main, (spread.main,), f"{name} main")
            side = self._par_do(side, (spread.side,), f"{name} side")
        elif not main.inputs.keys().isdisjoint(side.inputs):
            side = self._par_do(side, (), f"{name} side")
        both = main | side
        stream = self._inside(f"{name} elements")
        computation = Enrichment(node.enrich, stream, frozenset(side.inputs), both.lag, both.panes)
        self._add(computation, name=name, inputs=both.inputs, outputs=[stream], state_codec=self._values())
        enriched = replace(main, lag=both.lag + 1)
        return self._transformed(enriched, stream, makes_panes=True, inside=True)

    def _transformed(self, source: _Elements, stream: str, *, makes_panes: bool, inside: bool) -> _Elements:
        """Return what a transform of single elements makes, once its stream is declared."""
        if makes_panes:
            self._declare(stream, inside=inside)
        elif inside:
            self._pipeline.stream(stream, self._values())
        return replace(source, inputs={stream: same_key}, panes=frozenset({stream} if makes_panes else ()))

    def _add(self, computation: Computation, *, name: str, **switches: Any) -> None:
        try:
            self._pipeline.add(computation, name=name, **switches)
        except DuplicateNameError as error:
            remedy = "Give the transform another name, such as map(..., name=...) or sum(name=...)"
            raise DuplicateNameError(error.pipeline, error.problem, remedy) from error

    def _declare(self, stream: str, *, inside: bool) -> None:
        """Declare a stream's codec of panes: for outside streams, a public one."""
        codec: Codec = self._values(Pane) if inside else _PANES
        try:
            self._pipeline.stream(stream, codec)
        except DuplicateNameError as error:
            known = self._pipeline.codec(stream)
            if known is not codec:
                problem = f"it gets panes, but has the codec {known!r}"
                remedy = "Remove the codec, or send the panes to another stream"
                raise DataflowError(f"stream {stream!r}", problem, remedy) from error

    def _inside(self, stream: str) -> str:
        """Claim the name of a stream between two transforms."""
        if stream in self._outside:
            problem = "an internal stream between two transforms has this name"
            raise DataflowError(f"stream {stream!r}", problem, "Give the output another name")
        return stream

    def _values(self, type_: Any = Any) -> ValueCodec:
        return ValueCodec(type_, self._classes)

    def _name(self, wanted: str) -> str:
        """Return a unique name: repeated names are numbered."""
        names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return name


_PANES = TypedCodec(Pane)


def _makes_panes(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(step, MoveInTime) for step in steps)


def _carries_panes(chain: Chain) -> bool:
    """Return whether a chain's elements leave as panes: those of groupings, and those whose event time is not their record's."""
    node = chain.node
    if _makes_panes(chain.steps) or isinstance(node, Grouped | KeyedParDo | Enriched):
        return True
    return any(map(_carries_panes, _sources(node)))


def _parts(output: StreamOutput) -> Iterator[StreamOutput]:
    """Iterate over an output's parts: a flattened collection without further functions is sent as its parts are."""
    node = output.chain.node
    if isinstance(node, Flattened) and not output.chain.steps:
        for chain in node.sources:
            yield from _parts(StreamOutput(chain, output.stream))
    else:
        yield output


def _sources(node: Node) -> tuple[Chain, ...]:
    match node:
        case ReadNode():
            return ()
        case Flattened(sources):
            return sources
        case Branch(split, _):
            return (split.source,)
        case Grouped() | KeyedParDo():
            return (node.source,)
        case Enriched():
            return (node.main, node.side)


def _ancestry(nodes: Iterable[Node]) -> Collection[Node]:
    """List nodes and all that is upstream of them, each once."""
    ancestry: dict[Node, None] = {}
    pending = [*nodes][::-1]
    while pending:
        node = pending.pop()
        if node not in ancestry:
            ancestry[node] = None
            pending += [chain.node for chain in reversed(_sources(node))]
    return ancestry
