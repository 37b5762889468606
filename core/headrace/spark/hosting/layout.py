"""The layout of a pipeline on Spark (MillWheel 3, 6.2): levels of stateful operators, named key intervals, and micro-batches.

Rules of this file:

* A computation's level is the length of the longest path to it from an injector; one stateful operator hosts a whole level, or,
  with one partition, all levels.
* Choice: a hash of the key divides the key space of a computation into as many intervals as the caller asks for. Spark cannot
  split a group while a query runs, so the intervals must be of even size for any keys; within an interval keys keep their order.
  The hash is CRC-32, the same in every process. An interval that is hot all the same can be split at a restart of the job (7.1):
  each split moves the half of its keys that another bit of the hash says to an interval of the next number.
* A group is an interval, ``computation/number`` and possibly a tail (`headrace.spark.hosting.placement`), unless one operator
  hosts all: its name, and so its state, outlives changes to the rest of the pipeline. Outputs travel in separate groups,
  ``/number``, which have no state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from zlib import crc32

from headrace.api.pipeline import Pipeline
from headrace.api.specs import OUTSIDE
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.placement import placed_groups

OUTSIDE_GROUPS = 8
"""Number of groups for outputs if the number of partitions is unknown: enough to keep a machine's cores busy."""

EVERYTHING = ""
"""Spark's name of the group of all intervals, if one operator hosts all levels."""

_MOST_GROUPS = 1 << 24

Splits = dict[str, tuple[int, ...]]
"""By computation, the numbers of the intervals that were split, in this order."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The layout of a pipeline. Of a valid pipeline and of the options it derives the rest.

    A copy with other ``with_ids`` or ``history`` needs the pipeline as it was given.

    Attributes:
        pipeline: the pipeline as it is run: within one query a production is delivered in the micro-batch that makes it or not
            at all, so only records from a source need deduplication (6.1.1).
        intervals: number of key intervals of each computation, but for those that splits have added.
        with_ids: injectors whose sources give records ids.
        timed_by_source: injectors whose sources tell how far they were read (`horizon`); record ids of the others are kept by
            event time.
        clock: whether a clock tells that wall time passes, so that wall timers can be set; bounded input needs none.
        history: keys of which each operator also emits the History events; ``None``: no History.
        progress: each interval emits a `Tally` for each micro-batch that processes it.
        partitions: see `placed_groups`; above 0 only in jobs.
        fused: one operator hosts all levels (see `headrace.spark.hosting.group_task`); only with one partition.
        limits: skew limits of the injectors that have one, microseconds; none, if the input is bounded and so read in order.
        wake_until: number of the last micro-batch in which all intervals are called.
        splits: the intervals that were split.
        batches_before: number of the job's micro-batches before the first one of its checkpoint in Spark.
        followers: by computation, those downstream of it that follow a percentile watermark, and so its pending work (7.2).
        levels: names of the computations, level by level.
        groups: the intervals of each computation.
    """

    pipeline: Pipeline
    intervals: int
    with_ids: frozenset[str] = frozenset()
    timed_by_source: frozenset[str] = frozenset()
    clock: bool = True
    history: Sample | None = None
    progress: bool = False
    partitions: int = 0
    fused: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    wake_until: int = -1
    splits: Splits = field(default_factory=dict)
    batches_before: int = 0
    followers: Mapping[str, tuple[str, ...]] = field(init=False)
    levels: tuple[tuple[str, ...], ...] = field(init=False)
    groups: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the rest."""
        pipeline, derive = self.pipeline, partial(object.__setattr__, self)
        as_run, depths = pipeline, dict.fromkeys(pipeline.injectors, 0)
        for name, spec in pipeline.computations.items():
            senders = pipeline.senders(name)
            depths[name] = 1 + max(depths[sender] for sender in senders)
            counts = spec.exactly_once and (self.history is not None or not self.with_ids.isdisjoint(senders))
            as_run = as_run.with_computation(name, exactly_once=counts)
        groups = {
            name: placed_groups(name, self.intervals, self.partitions, self.splits.get(name, ()))
            for name in pipeline.computations
        }
        outside = placed_groups(OUTSIDE, self.partitions or OUTSIDE_GROUPS, self.partitions)
        levels = [
            sorted(name for name in pipeline.computations if depths[name] == depth)
            for depth in range(1, 1 + max(depths.values()))
        ]
        derive("pipeline", as_run)
        derive("levels", tuple(map(tuple, levels)))
        derive("groups", {OUTSIDE: outside, **groups})
        derive("followers", followers_of(pipeline))

    def group(self, consumer: str, key: str) -> str:
        """Return the group for a record with this consumer and key."""
        groups, splits = self.groups[consumer], self.splits.get(consumer, ())
        return groups[interval_of(key, len(groups) - len(splits), splits)]

    def hosted(self, level: int) -> dict[str, tuple[str, ...]]:
        """Return the groups of a level's operator as Spark names them, each with its intervals, level by level."""
        levels = self.levels if self.fused else self.levels[level : level + 1]
        intervals = tuple(group for names in levels for name in names for group in self.groups[name])
        return {EVERYTHING: intervals} if self.fused else {group: (group,) for group in intervals}

    def sequencer(self, group: str, batch: int) -> int:
        """Return the sequencer of a group in a micro-batch: unique, and greater in later batches."""
        name = computation_of(group)
        before = sum(len(self.groups[other]) for other in takewhile(name.__ne__, self.pipeline.computations))
        return batch * _MOST_GROUPS + before + number_of(group) + 1


@dataclass(frozen=True, slots=True)
class BatchContext:
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


def interval_of(key: str, intervals: int, splits: Sequence[int] = ()) -> int:
    """Return the number of a key's interval.

    >>> [interval_of(key, 2) for key in ("anna", "bert", "gina", "hugo")]
    [1, 0, 0, 0]
    >>> [interval_of(key, 2, [0]) for key in ("anna", "bert", "gina", "hugo")]
    [1, 2, 0, 2]

    Args:
        key: the key.
        intervals: number of intervals, but for those that splits have added.
        splits: the numbers of the intervals that were split, in this order. The first split adds interval ``intervals``.
    """
    hashed = crc32(key.encode())
    place = hashed % intervals
    if not splits:
        return place
    mixed = (
        hashed * _MIX & _MASK
    )  # its high bits depend on all bits of the hash, and so tell keys of one interval apart
    for number, split in enumerate(splits, intervals):
        if place == split:
            if mixed >> 31:
                place = number
            mixed = mixed << 1 & _MASK
    return place


_MASK = 0xFFFFFFFF
_MIX = 0x9E3779B1


def batch_of(sequencer: int) -> int:
    """Return the number of the micro-batch that a sequencer belongs to."""
    return (sequencer - 1) // _MOST_GROUPS


def computation_of(group: str) -> str:
    """Return the computation that a group is an interval of; `OUTSIDE` for outputs."""
    return group.rpartition("/")[0]


def number_of(group: str) -> int:
    """Return the number of a group among its computation's intervals, from 0."""
    return int(group.rpartition("/")[2].partition(".")[0])


def limits_of(pipeline: Pipeline) -> dict[str, int]:
    """Return the skew limits of the injectors that have one, microseconds (8.4)."""
    return {
        name: spec.skew_limit_us
        for name, spec in pipeline.injectors.items()
        if spec.skew_limit_us is not None
    }


def followers_of(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Return, for each computation and injector, those downstream of it that follow a percentile watermark (7.2)."""
    followers: dict[str, tuple[str, ...]] = {}
    for name, spec in pipeline.computations.items():
        if spec.watermark_percentile < 100:
            for feeder in pipeline.upstream(name):
                followers[feeder] = (*followers.get(feeder, ()), name)
    return followers
