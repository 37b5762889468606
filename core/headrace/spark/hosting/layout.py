"""How a pipeline is laid out on Spark (MillWheel 3, 6.2): levels of stateful operators, and named key intervals.

Rules of this file:

* A computation stands on the level of the longest way from an injector to it; one stateful operator hosts a whole level.
* Choice: the key space of a computation is divided by a hash of the key, into as many intervals as the caller says. Spark
  can not split a group while a query runs, so intervals must come out even for any keys; inside an interval keys keep their
  order. The hash is CRC-32, the same in every process.
* A group is an interval, ``computation/number``: its name, and so its state, outlives changes of the rest of the pipeline.
  What leaves for the outside world travels in groups of its own, ``/number``, which have no state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import networkx as nx

from headrace.api.pipeline import Pipeline
from headrace.api.specs import OUTSIDE
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample

OUTSIDE_GROUPS = 8
"""In how many groups outputs travel to the end: enough to keep a machine's cores busy."""

_MOST_GROUPS = 1 << 24


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline, laid out.

    Attributes:
        pipeline: as it is run: within one query a production is delivered in the micro-batch that makes it or not at all, so
            only what comes from a source needs deduplication (6.1.1).
        intervals: key intervals of each computation.
        levels: names of the computations, level by level.
        groups: the intervals of each computation.
        timed_by_source: injectors whose sources say how far they were read (`horizon`); the ids of the others' records are
            kept by event time.
        clock: somebody tells that time passes, so that there can be wall timers; bounded input needs nobody.
        history: each operator also gives out the events of the History, of these keys; ``None``: it does not.
        with_ids: injectors whose records have ids of their own.
        staged: it is one computation with a query of its own; its senders tell their low watermarks in their logs.
        progress: each interval tells a `Tally` of each micro-batch that it works in.
    """

    pipeline: Pipeline
    intervals: int
    levels: tuple[tuple[str, ...], ...]
    groups: Mapping[str, tuple[str, ...]]
    timed_by_source: frozenset[str] = frozenset()
    clock: bool = True
    history: Sample | None = None
    with_ids: frozenset[str] = frozenset()
    staged: bool = False
    progress: bool = False

    def group(self, consumer: str, key: str) -> str:
        """The group that a record of this consumer and key goes to."""
        return self.groups[consumer][crc32(key.encode()) % len(self.groups[consumer])]

    def sequencer(self, group: str, batch: int) -> int:
        """Under which a group is owned in a micro-batch: no other has it, and later batches have greater ones."""
        place = list(self.pipeline.computations).index(computation_of(group))
        return batch * _MOST_GROUPS + place * self.intervals + number_of(group) + 1

    def consumers(self, computation: str) -> tuple[str, ...]:
        """The computations that one outputs to."""
        return tuple(self.pipeline.graph.successors(computation))


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What all intervals share in one micro-batch.

    Attributes:
        number: counts from 0.
        now_us: its wall time, microseconds; the same when it is run again.
        low_watermark: of the injectors, event time in microseconds.
        in_order: it holds the whole input, so its records are processed in event-time order, with a perfect watermark.
    """

    number: int
    now_us: int
    low_watermark: int
    in_order: bool = False


def batch_of(sequencer: int) -> int:
    """The micro-batch that a sequencer is of."""
    return (sequencer - 1) // _MOST_GROUPS


def computation_of(group: str) -> str:
    """The computation that a group is an interval of; `OUTSIDE` for outputs."""
    return group.rpartition("/")[0]


def number_of(group: str) -> int:
    """Which of its computation's intervals a group is, from 0."""
    return int(group.rpartition("/")[2])


def _intervals(computation: str, count: int) -> tuple[str, ...]:
    return tuple(f"{computation}/{number}" for number in range(count))


def plan_of(
    pipeline: Pipeline,
    *,
    intervals: int,
    with_ids: frozenset[str],
    timed_by_source: frozenset[str] = frozenset(),
    clock: bool = True,
    history: bool | Sample = False,
    staged: bool = False,
    progress: bool = False,
) -> Plan:
    """Lay a pipeline out.

    Args:
        pipeline: a valid one.
        intervals: key intervals of each computation.
        with_ids: injectors whose records have ids of their own.
        timed_by_source: see `Plan`.
        clock: see `Plan`.
        history: see `Plan`; ``True``: of all keys.
        staged: see `Plan`.
        progress: see `Plan`.

    Raises:
        SparkHostError: the pipeline asks for what Spark can not do.
    """
    for name, spec in pipeline.computations.items():
        if spec.watermark_percentile < 100:
            raise SparkHostError(
                f"computation {name!r} follows a percentile watermark ({spec.watermark_percentile:g} %)",
                "Spark knows the low watermark only: give it watermark_percentile=100 here",
            )
    for name, injector in pipeline.injectors.items():
        if injector.skew_limit_us is not None:
            raise SparkHostError(
                f"injector {name!r} has a skew limit",
                "Spark's sources do not see the low watermark: limit each micro-batch instead (max_records)",
            )
    wanted = history if isinstance(history, Sample) else FULL if history else None
    graph, as_run = pipeline.graph, pipeline
    for name, spec in pipeline.computations.items():
        numbered = any(sender in with_ids for sender in pipeline.senders(name))
        as_run = as_run.with_computation(
            name, exactly_once=spec.exactly_once and (numbered or wanted is not None)
        )
    generations = [sorted(one) for one in nx.topological_generations(graph)]
    levels = [tuple(name for name in one if name in pipeline.computations) for one in generations]
    return Plan(
        pipeline=as_run,
        intervals=intervals,
        levels=tuple(level for level in levels if level),
        groups={
            OUTSIDE: _intervals(OUTSIDE, 1 if staged else OUTSIDE_GROUPS),
            **{name: _intervals(name, intervals) for name in pipeline.computations},
        },
        timed_by_source=timed_by_source,
        clock=clock,
        history=wanted,
        with_ids=with_ids,
        staged=staged,
        progress=progress,
    )
