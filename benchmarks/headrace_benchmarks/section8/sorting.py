"""The paper's shuffle: one stage buckets numbers, and a second stage with other keys sorts each bucket (MillWheel 8.1).

A record's latency is that of the first stage: from its arrival there to the arrival of its production at the second stage. This
includes the CPU's queue, user code, the commit (with strong productions) and the wire, so each stage of a pipeline counts once.
"""

import random
from bisect import insort
from dataclasses import dataclass

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Productions, Record
from headrace.history import Delivered, Executed, History
from headrace_benchmarks.section8.calibration import Calibration
from headrace_sim import Feed, FeedBuilder, simulate

_KEPT = 8
"""Choice: a bucket keeps only its smallest numbers, so that rows do not grow with the length of a run."""
_BEGIN_US = 2 * SECOND
"""All intervals are assigned by then."""
_WARM_UP_US = 100 * MILLISECOND
_CPUS_PER_INJECTOR = 10


@dataclass(frozen=True, slots=True)
class Sorting:
    """One experiment.

    Attributes:
        cpus: number of CPUs, half of them for each stage.
        productions: strong or weak, for both stages.
        exactly_once: whether both stages deduplicate.
        for_us: time for which records are injected and measured after the warm-up, simulated microseconds.
    """

    cpus: int = 200
    productions: Productions = Productions.WEAK
    exactly_once: bool = False
    for_us: int = SECOND


class Bucket(Computation):
    """Sends each number to its bucket. ``buckets``: number of buckets."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process_record(self, context: Context, record: Record) -> None:
        """Send the number on under the bucket's key."""
        context.produce("numbers", record.value, key=key_of(record.value, self._buckets))


class Sort(Computation):
    """Keeps the numbers of a bucket sorted."""

    def initial_state(self) -> list[int]:
        """Return an empty bucket."""
        return []

    def process_record(self, context: Context, record: Record) -> None:
        """Insert the number in order."""
        numbers: list[int] = context.state
        insort(numbers, record.value)
        context.state = numbers[:_KEPT]


def key_of(number: int, buckets: int) -> str:
    """Return the key of a number's bucket."""
    return f"{number % buckets:07d}"


def boundaries(intervals: int, buckets: int) -> list[str]:
    """Return keys that split the buckets evenly into intervals."""
    return [f"{number * buckets // intervals:07d}" for number in range(1, intervals)]


def injectors(cpus: int) -> int:
    """Return the number of injector processes for a number of CPUs; each has its own machine."""
    return max(1, cpus // _CPUS_PER_INJECTOR)


def latencies_us(sorting: Sorting, calibration: Calibration, seed: int) -> list[int]:
    """Run an experiment, and return the latencies of all records, sorted."""
    pipeline = _pipeline(sorting, calibration.keys)
    feed = _feed(pipeline, sorting, calibration, seed)
    history = simulate(pipeline, feed, options=calibration.cluster(sorting.cpus), seed=seed)
    return sorted(_stage_latencies(history))


def _pipeline(sorting: Sorting, keys: int) -> Pipeline:
    pipeline = Pipeline("sorting")
    pipeline.injector("unsorted", processes=injectors(sorting.cpus))
    split_at = boundaries(max(1, sorting.cpus // 2), keys)
    for name, computation, source, outputs in (
        ("bucket", Bucket(keys), "unsorted", ["numbers"]),
        ("sort", Sort(), "numbers", []),
    ):
        pipeline.add(
            computation,
            name=name,
            inputs=[source],
            outputs=outputs,
            productions=sorting.productions,
            exactly_once=sorting.exactly_once,
            split_at=split_at,
        )
    return pipeline


def _feed(pipeline: Pipeline, sorting: Sorting, calibration: Calibration, seed: int) -> Feed:
    builder, draw = FeedBuilder(pipeline), random.Random(f"{seed}/sorting")
    per_us = sorting.cpus / 2 * calibration.records_per_cpu / SECOND
    processes, end_us = injectors(sorting.cpus), _BEGIN_US + _WARM_UP_US + sorting.for_us
    at_us, number = _BEGIN_US + draw.expovariate(per_us), 0
    while at_us < end_us:
        builder.record(
            at_us=int(at_us),
            value=draw.randrange(1 << 30),
            timestamp=int(at_us),
            key=key_of(draw.randrange(calibration.keys), calibration.keys),
            process=number % processes,
        )
        at_us += draw.expovariate(per_us)
        number += 1
    return builder.build()


def _stage_latencies(history: History) -> list[int]:
    arrived_us: dict[str, int] = {}
    caused_us: dict[str, int] = {}
    """Arrival time of a production's cause, by the production's record id."""
    latencies = []
    for event in history:
        if isinstance(event, Delivered):
            if event.computation == "bucket":
                arrived_us.setdefault(event.record_id, event.at_us)
            elif (cause_us := caused_us.pop(event.record_id, None)) is not None:
                latencies.append((cause_us, event.at_us - cause_us))
        elif isinstance(event, Executed):
            for production in event.productions:
                caused_us.setdefault(production.record_id, arrived_us[event.cause])
    return [latency for cause_us, latency in latencies if cause_us >= _BEGIN_US + _WARM_UP_US]
