"""Builds computations from transforms: one for each `Grouped` node, and one for each chain of functions before it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from headrace import Codec, Computation, DuplicateNameError, Pipeline, TypedCodec, same_key
from headrace.dataflow.checks import check_grouping, percentiles
from headrace.dataflow.codecs import StructCodec
from headrace.dataflow.combining import CombineFn
from headrace.dataflow.engines import Engine
from headrace.dataflow.errors import DataflowError
from headrace.dataflow.grouping import Grouping, KeyState
from headrace.dataflow.panes import Accumulation, Pane
from headrace.dataflow.pardo import MoveInTime, Step
from headrace.dataflow.transforms import GroupByKeyAndWindow, KeyExtractor, ParDo, PercentileProbe
from headrace.dataflow.triggers import Trigger
from headrace.dataflow.windows import WindowFn


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """An input stream: see `read`."""

    stream: str
    key: KeyExtractor
    codec: Codec | None
    bounded: bool


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A grouping of another node's elements: see `PCollection` for the fields."""

    source: "Node"
    steps: tuple[Step, ...]
    steps_name: str
    name: str
    windows: WindowFn | None
    merging: WindowFn
    trigger: Trigger
    accumulation: Accumulation
    combine: CombineFn
    lateness_us: int | None
    allow_unsafe_triggers: bool
    dropped_to: str


Node = Read | Grouped


@dataclass(frozen=True, slots=True)
class Sending:
    """An output: a node's elements, after some steps, go to a stream."""

    node: Node
    steps: tuple[Step, ...]
    steps_name: str
    stream: str


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream of elements, and what its consumers have to know.

    Attributes:
        name: the stream's name.
        inputs: key extractor by stream, for a consumer's inputs.
        lag: number of groupings above it.
        carries_panes: whether its values are panes; else they are plain values.
        has_retractions: whether retractions may come.
        bounded: whether it ends.
    """

    name: str
    inputs: dict[str, KeyExtractor]
    lag: int
    carries_panes: bool
    has_retractions: bool
    bounded: bool


class Builder:
    """Adds transforms to a pipeline. A node that several outputs share is added once.

    Args:
        pipeline: pipeline to change.
        engine: engine for all groupings.
    """

    def __init__(self, pipeline: Pipeline, engine: Engine) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._built: dict[Node, _Stream] = {}
        self._names: set[str] = set()
        self._outputs: dict[Node, list[str]] = {}
        self._inner: set[Node] = set()
        self._outside: dict[str, bool] = {}

    @staticmethod
    def sources(nodes: Iterable[Node]) -> dict[str, Codec | None]:
        """Return the streams that are read, each with its given codec, if any.

        Raises:
            DataflowError: a stream was given two codecs.
        """
        found: dict[str, Codec | None] = {}
        for node in nodes:
            for ancestor in _ancestry(node):
                if isinstance(ancestor, Read):
                    known = found.setdefault(ancestor.stream, ancestor.codec)
                    if known is None:
                        found[ancestor.stream] = ancestor.codec
                    elif ancestor.codec is not None and ancestor.codec != known:
                        problem = f"it is read with the codecs {known!r} and {ancestor.codec!r}"
                        raise DataflowError(f"stream {ancestor.stream!r}", problem, "Read it with one codec")
        return found

    def build(self, outputs: Iterable[Sending]) -> None:
        """Add everything that the outputs need.

        A stream with subscribers does not go outside, so a grouping that feeds both has a stream for each.

        Raises:
            DataflowError: the collections for one stream conflict.
        """
        direct, applied = list[Node](), list[Sending]()
        for output in self._checked(list(outputs)):
            if isinstance(output.node, Grouped) and not output.steps:
                self._outputs.setdefault(output.node, []).append(output.stream)
                direct.append(output.node)
            else:
                applied.append(output)
        self._inner.update(output.node for output in applied)
        for node in [*direct, *(output.node for output in applied)]:
            self._inner.update(
                ancestor.source for ancestor in _ancestry(node) if isinstance(ancestor, Grouped)
            )
        for node in direct:
            self._stream_of(node)
        for output in applied:
            self._par_do(self._stream_of(output.node), output.steps, output.steps_name, output.stream)

    def _checked(self, outputs: list[Sending]) -> list[Sending]:
        """Refuse outputs that cannot share their stream; remember which streams carry panes."""
        for output in outputs:
            carries_panes = isinstance(output.node, Grouped) or _makes_panes(output.steps)
            where = f"stream {output.stream!r}"
            if self._outside.setdefault(output.stream, carries_panes) != carries_panes:
                problem = "it gets both panes and plain values"
                raise DataflowError(where, problem, "Send them to separate streams")
            if outputs.count(output) > 1:
                raise DataflowError(where, "it gets the same collection twice", "Send the collection once")
        return outputs

    def _stream_of(self, node: Node) -> _Stream:
        if isinstance(node, Read):
            return _Stream(
                node.stream, {node.stream: node.key}, 0, carries_panes=False, has_retractions=False,
                bounded=node.bounded,
            )  # fmt: skip
        return self._built.get(node) or self._group(node)

    def _group(self, node: Grouped) -> _Stream:
        """Add a grouping; its streams are the outputs, and one for downstream transforms of this pipeline."""
        source = self._stream_of(node.source)
        if node.steps:
            source = self._par_do(source, node.steps, node.steps_name, None)
        grouping = Grouping(
            windows=node.windows,
            trigger=node.trigger,
            accumulation=node.accumulation,
            combine=node.combine,
            allowed_lateness_us=node.lateness_us,
            engine=self._engine,
            takes_retractions=source.has_retractions,
            merging=node.merging,
        )
        name = self._name(node.name)
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
                carries_panes=source.carries_panes,
                signals=signals,
                dropped=node.dropped_to,
            ),
            name=name,
            inputs={**source.inputs, **({signals: same_key} if signals else {})},
            outputs=outputs,
            state_codec=StructCodec(KeyState),
        )
        for stream in outputs:
            self._declare(stream, inside=stream == inner)
        takes_back = node.accumulation is Accumulation.ACCUMULATING_AND_RETRACTING
        return self._remember(
            node,
            _Stream(
                inner, {inner: same_key}, source.lag + 1, carries_panes=True,
                has_retractions=takes_back or source.has_retractions, bounded=source.bounded,
            ),
        )  # fmt: skip

    def _remember(self, node: Grouped, stream: _Stream) -> _Stream:
        self._built[node] = stream
        return stream

    def _probe(self, name: str, grouping: Grouping, source: _Stream) -> str:
        """Add a computation for each percentile watermark; return their stream of reports, or ``""`` if there are none."""
        asked = percentiles(grouping.trigger)
        if not asked:
            return ""
        signals = self._inside(f"{name} progress")
        for percentile in asked:
            self._add(
                PercentileProbe(
                    grouping, percentile, signals, lag=source.lag, carries_panes=source.carries_panes
                ),
                name=f"{name} at {percentile:g} percent",
                inputs=source.inputs,
                outputs=[signals],
                watermark_percentile=percentile,
            )
        return signals

    def _par_do(
        self, source: _Stream, steps: tuple[Step, ...], steps_name: str, output: str | None
    ) -> _Stream:
        name = self._name(steps_name)
        makes_panes = source.carries_panes or _makes_panes(steps)
        stream = output or self._inside(f"{name} elements")
        self._add(
            ParDo(steps, stream, carries_panes=source.carries_panes, makes_panes=makes_panes),
            name=name,
            inputs=source.inputs,
            outputs=[stream],
        )
        if makes_panes:
            self._declare(stream, inside=not output)
        return _Stream(
            stream, {stream: same_key}, source.lag, carries_panes=makes_panes,
            has_retractions=source.has_retractions, bounded=source.bounded,
        )  # fmt: skip

    def _add(self, computation: Computation, *, name: str, **switches: Any) -> None:
        try:
            self._pipeline.add(computation, name=name, **switches)
        except DuplicateNameError as error:
            remedy = "Give the transform another name, such as map(..., name=...) or sum(name=...)"
            raise DuplicateNameError(error.pipeline, error.problem, remedy) from error

    def _declare(self, stream: str, *, inside: bool) -> None:
        """Declare a stream's codec of panes: for outside streams, a public one."""
        codec: Codec = StructCodec(Pane) if inside else _PANES
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

    def _name(self, wanted: str) -> str:
        """Return a unique name: repeated names are numbered."""
        names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return name


_PANES = TypedCodec(Pane)


def _makes_panes(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(step, MoveInTime) for step in steps)


def _ancestry(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Grouped):
        yield from _ancestry(node.source)
