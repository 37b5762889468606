"""From transforms to computations: each `Grouped` node is one, and so is each chain of functions before it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millrace import Codec, Pipeline, TypedCodec, same_key
from millrace.dataflow._checks import check_grouping, percentiles
from millrace.dataflow._codecs import StructCodec
from millrace.dataflow._combining import CombineFn
from millrace.dataflow._engines import Engine
from millrace.dataflow._grouping import Grouping, KeyState
from millrace.dataflow._panes import Accumulation, Pane
from millrace.dataflow._stages import GroupByKeyAndWindow, KeyExtractor, ParDo, PercentileProbe
from millrace.dataflow._steps import MoveInTime, Step
from millrace.dataflow._triggers import Trigger
from millrace.dataflow._windows import WindowFn


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A stream from elsewhere: see `read`."""

    stream: str
    key: KeyExtractor
    codec: Codec | None
    bounded: bool


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A grouping of what another node gives: see `PCollection` for the fields."""

    source: "Node"
    steps: tuple[Step, ...]
    name: str
    windows: WindowFn | None
    merging: WindowFn
    trigger: Trigger
    accumulation: Accumulation
    combine: CombineFn
    lateness_us: int | None


Node = Read | Grouped


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream of elements, as consumers have to know it.

    Attributes:
        name: its name.
        inputs: it, with its key extractor.
        lag: how many groupings are above it.
        carries_panes: its values are panes; else plain values.
        has_retractions: such may come.
        bounded: it ends.
    """

    name: str
    inputs: dict[str, KeyExtractor]
    lag: int
    carries_panes: bool
    has_retractions: bool
    bounded: bool


class Builder:
    """Adds transforms to a pipeline. A node that several outputs have in common is added once.

    Args:
        pipeline: it is changed.
        engine: for all groupings.
    """

    def __init__(self, pipeline: Pipeline, engine: Engine) -> None:
        self._pipeline = pipeline
        self._engine = engine
        self._built: dict[Node, _Stream] = {}
        self._names: dict[str, int] = {}
        self._outputs: dict[Node, list[str]] = {}
        self._inner: set[Node] = set()

    @staticmethod
    def sources(nodes: Iterable[Node]) -> list[Read]:
        """List what is read, each stream once."""
        found: dict[str, Read] = {}
        for node in nodes:
            for one in _ancestry(node):
                if isinstance(one, Read):
                    found.setdefault(one.stream, one)
        return list(found.values())

    def build(self, outputs: Iterable[tuple[Node, tuple[Step, ...], str]]) -> None:
        """Add all that some outputs need.

        A stream that somebody subscribes to does not go outside. So a grouping that feeds both has a stream for each.

        Args:
            outputs: (node, what is done to each of its elements, stream) of each.
        """
        direct, applied = [], []
        for node, steps, stream in outputs:
            if isinstance(node, Grouped) and not steps:
                self._outputs.setdefault(node, []).append(stream)
                direct.append(node)
            else:
                applied.append((node, steps, stream))
        self._inner.update(node for node, _, _ in applied)
        for node in [*direct, *(node for node, _, _ in applied)]:
            self._inner.update(one.source for one in _ancestry(node) if isinstance(one, Grouped))
        for node in direct:
            self._stream_of(node)
        for node, steps, stream in applied:
            self._par_do(self._stream_of(node), steps, stream)

    def _stream_of(self, node: Node) -> _Stream:
        if isinstance(node, Read):
            return _Stream(
                node.stream, {node.stream: node.key}, 0, carries_panes=False, has_retractions=False,
                bounded=node.bounded,
            )  # fmt: skip
        return self._built.get(node) or self._group(node)

    def _group(self, node: Grouped) -> _Stream:
        """Add a grouping; its streams are the outputs, and one for what follows in this pipeline."""
        source = self._stream_of(node.source)
        if node.steps:
            source = self._par_do(source, node.steps, None)
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
        check_grouping(f"grouping {name!r}", grouping, bounded=source.bounded)
        inner = f"{name} panes"
        streams = [*self._outputs.get(node, []), *([inner] if node in self._inner else [])]
        signals = self._probe(name, grouping, source)
        self._pipeline.add(
            GroupByKeyAndWindow(
                grouping, streams, lag=source.lag, carries_panes=source.carries_panes, signals=signals
            ),
            name=name,
            inputs={**source.inputs, **({signals: same_key} if signals else {})},
            outputs=streams,
            state_codec=StructCodec(KeyState),
        )
        self._declare(streams, inner=inner)
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
        """Add what tells of percentile watermarks, one computation for each; return their stream, if any."""
        asked = percentiles(grouping.trigger)
        if not asked:
            return ""
        signals = f"{name} progress"
        for percentile in asked:
            self._pipeline.add(
                PercentileProbe(
                    grouping, percentile, signals, lag=source.lag, carries_panes=source.carries_panes
                ),
                name=f"{name} at {percentile:g} percent",
                inputs=source.inputs,
                outputs=[signals],
                watermark_percentile=percentile,
            )
        return signals

    def _par_do(self, source: _Stream, steps: tuple[Step, ...], output: str | None) -> _Stream:
        name = self._name("par_do")
        makes_panes = source.carries_panes or any(isinstance(one, MoveInTime) for one in steps)
        stream = output or f"{name} elements"
        self._pipeline.add(
            ParDo(steps, stream, carries_panes=source.carries_panes, makes_panes=makes_panes),
            name=name,
            inputs=source.inputs,
            outputs=[stream],
        )
        if makes_panes:
            self._declare([stream], inner="" if output else stream)
        return _Stream(
            stream, {stream: same_key}, source.lag, carries_panes=makes_panes,
            has_retractions=source.has_retractions, bounded=source.bounded,
        )  # fmt: skip

    def _declare(self, streams: Iterable[str], *, inner: str) -> None:
        """Say how panes are written: for outsiders by a codec that they know."""
        for stream in streams:
            self._pipeline.stream(stream, StructCodec(Pane) if stream == inner else TypedCodec(Pane))

    def _name(self, wanted: str) -> str:
        """Number those of one name."""
        number = self._names.get(wanted, 0) + 1
        self._names[wanted] = number
        return wanted if number == 1 else f"{wanted}-{number}"


def _ancestry(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Grouped):
        yield from _ancestry(node.source)
