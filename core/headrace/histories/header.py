"""The first line of a History's file: what ran, and how much the lines tell.

Rules of this file: a file can be judged without the program that ran, so the header describes the topology (MillWheel 2, 3). It
changes by version: a reader refuses a version that it does not know, and ignores fields that it does not know.
"""

import enum
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from headrace.api.computation import Computation
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.specs import Productions

FORMAT: Final = "headrace-history"
VERSION = 1


class Tells(enum.StrEnum):
    """How much a History tells."""

    STEPS = "steps"
    """Every step of the protocol: lines are the events of `headrace.history`."""
    RECORDS = "records"
    """What went in and out of each stage: lines are those of `headrace.histories.lines`."""


class SourceWatermark(enum.StrEnum):
    """What the watermark of a source is worth (MillWheel 5.2)."""

    ESTIMATE = "estimate"
    """Records behind it are expected, and stages may treat them as late."""
    PROMISE = "promise"
    """A process of the source never sends a record behind its own."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source of records.

    Attributes:
        name: unique among sources and stages.
        outputs: streams that it writes; none: one with the source's name.
        processes: number of processes.
        watermark: what its watermark is worth; ``None``: not declared, and late records are a question; for histories of records.
    """

    name: str
    outputs: tuple[str, ...] = ()
    processes: int = 1
    watermark: SourceWatermark | None = None


class Stage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A computation, operator or consumer group.

    Attributes:
        name: unique among sources and stages.
        inputs: streams that it reads. It must get every record of each.
        outputs: streams that it writes. What no stage reads goes outside.
        in_order: whether it promises to take the records of a key in the order in which each process sent them.
        may_be_silent: whether it may take any number of records and send none, such as a filter or an alarm; ``None``: not
            declared, and one that does is a question; for histories of records.
        lag_us: how far its watermark may stay behind those of its inputs at the end, event time, microseconds; ``None``: not
            declared, and one that stands is a question; for histories of records.
        productions: strong or weak (6.1.2, 6.1.3); for histories of steps.
        exactly_once: whether deliveries are deduplicated (6.1.1); for histories of steps.
        watermark_percentile: 100 for the low watermark (7.2); for histories of steps.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    in_order: bool = False
    may_be_silent: bool | None = None
    lag_us: Annotated[int, msgspec.Meta(ge=0)] | None = None
    productions: Productions = Productions.STRONG
    exactly_once: bool = True
    watermark_percentile: float = 100.0


class Graph(msgspec.Struct, frozen=True):
    """A version of the topology (3).

    Attributes:
        sources: what records come in from.
        stages: the computations.
    """

    sources: tuple[Source, ...]
    stages: tuple[Stage, ...]


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of the file.

    Attributes:
        format: always ``headrace-history``.
        version: of the format.
        tells: how much the lines tell.
        pipeline: the pipeline's name, for people.
        graphs: the versions of the topology that ran; the first was in force from the start.
        host: what ran it, for people.
        options: options of the engine; ``None``: unknown.
        prefixed_keys: whether keys begin with the number of their interval, as in ``0003/riva``; the key itself is the rest.
    """

    format: Literal["headrace-history"]
    version: int
    tells: Tells
    pipeline: str
    graphs: tuple[Graph, ...]
    host: str = ""
    options: EngineOptions | None = None
    prefixed_keys: bool = False

    def key_of(self, key: str) -> str:
        """Return the key as user code knows it."""
        return key.partition("/")[2] if self.prefixed_keys else key


def header_of(
    pipelines: Sequence[Pipeline],
    host: str = "",
    options: EngineOptions | None = None,
    *,
    prefixed_keys: bool = False,
) -> Header:
    """Describe a run of these pipelines, which are the deployed versions; for the other arguments see `Header`."""
    graphs = tuple(_graph(pipeline) for pipeline in pipelines)
    return Header(FORMAT, VERSION, Tells.STEPS, pipelines[0].name, graphs, host, options, prefixed_keys)


def _graph(pipeline: Pipeline) -> Graph:
    return Graph(
        tuple(Source(spec.name, spec.all_outputs, spec.processes) for spec in pipeline.injectors.values()),
        tuple(
            Stage(
                spec.name,
                tuple(spec.inputs),
                spec.all_outputs,
                productions=spec.productions,
                exactly_once=spec.exactly_once,
                watermark_percentile=spec.watermark_percentile,
            )
            for spec in pipeline.computations.values()
        ),
    )


def pipelines_of(header: Header) -> list[Pipeline]:
    """Rebuild the topologies, with computations that do nothing: what checkers read.

    Raises:
        HeadraceError: a topology is inconsistent.
    """
    return [_pipeline(header.pipeline, graph) for graph in header.graphs]


def _pipeline(name: str, graph: Graph) -> Pipeline:
    pipeline = Pipeline(name)
    for source in graph.sources:
        pipeline.injector(source.name, outputs=source.outputs or None, processes=source.processes)
    for stage in graph.stages:
        pipeline.add(
            Computation(),
            name=stage.name,
            inputs=stage.inputs,
            outputs=stage.outputs,
            productions=stage.productions,
            exactly_once=stage.exactly_once,
            watermark_percentile=stage.watermark_percentile,
        )
    pipeline.validate()
    return pipeline
