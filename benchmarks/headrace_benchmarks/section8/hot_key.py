"""A hot key: one machine has to handle all of its records; the paper advises aggregating in two phases (8.4)."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator

import msgspec

from headrace import MILLISECOND, SECOND, Context, EngineOptions, Pipeline, Record, Timer
from headrace.history import Applied, Executed, History, Injected
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import BUSIEST
from headrace_benchmarks.shuffle import KeySum
from headrace_sim import ClusterOptions, Feed, FeedBuilder, simulate

BEHIND = "delay until the last record is counted, simulated s"
TWO_PHASES = "90 %, in two phases"
_WORKERS = 10
_KEYS = 1_000
_PARTS = 20
"""The number of parts of a key in the first phase: two for each machine."""
_PHASE_US = 200 * MILLISECOND
_BEGIN_US = 2 * SECOND
_FOR_US = 3 * SECOND
_HOT = "500"


class PartialCount(KeySum):
    """The first phase: sums values by part of a key, and periodically sends the sum on under the key."""

    def process_record(self, context: Context, record: Record) -> None:
        """Add the value; the first one sets the timer."""
        if not context.state:
            context.set_wall_timer("send", context.wall_time + _PHASE_US, hold=record.timestamp)
        super().process_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Send the sum, and start over."""
        del timer
        context.produce("sums", context.state, key=context.key.partition("/")[2])
        context.clear_state()


def sample(point: str, seed: int, *, for_us: int = _FOR_US) -> RunSample:
    """Run one share of the hot key; ``for_us``: time for which records come, simulated microseconds."""
    pipeline = _two_phases() if point == TWO_PHASES else _one_phase()
    share = int(point.partition(" ")[0]) / 100
    history = simulate(pipeline, _feed(pipeline, share, seed, for_us), options=_cluster(), seed=seed)
    return RunSample(point, seed, tuple((point, *figure) for figure in _figures(history)))


def _figures(history: History) -> Iterator[tuple[str, float]]:
    runs = Counter(event.process for event in history if isinstance(event, Executed))
    came_us = max(event.at_us for event in history if isinstance(event, Injected))
    counted_us = max(event.at_us for event in history if isinstance(event, Applied))
    yield BUSIEST, 100 * max(runs.values()) / runs.total()
    yield BEHIND, (counted_us - came_us) / SECOND


def _cluster() -> ClusterOptions:
    """Return the calibrated cluster with its load balancer switched on."""
    cluster = CALIBRATION.cluster(_WORKERS)
    engine = dataclasses.replace(cluster.engine, balance_period_us=EngineOptions().balance_period_us)
    return msgspec.structs.replace(cluster, engine=engine)


def _one_phase() -> Pipeline:
    pipeline = Pipeline("one phase")
    pipeline.injector("records")
    pipeline.add(KeySum(), name="count", inputs=["records"], split_at=_boundaries())
    return pipeline


def _two_phases() -> Pipeline:
    pipeline = Pipeline("two phases")
    pipeline.injector("records")
    pipeline.add(
        PartialCount(),
        name="partial counts",
        inputs={"records": _part_of},
        outputs=["sums"],
        split_at=_boundaries(),
    )
    pipeline.add(KeySum(), name="count", inputs=["sums"], split_at=_boundaries())
    return pipeline


def _part_of(record: Record) -> str:
    """Return a part of the record's key, in turn; the parts are spread over the key space."""
    number = int(record.record_id.rpartition(":")[2])
    return f"{number % _PARTS * _KEYS // _PARTS:03d}/{record.key}"


def _boundaries() -> list[str]:
    return [f"{number * _KEYS // _WORKERS:03d}" for number in range(1, _WORKERS)]


def _feed(pipeline: Pipeline, share: float, seed: int, for_us: int) -> Feed:
    """Make the number of records that would keep the cluster a third busy if their keys were spread evenly."""
    builder, draw, at = FeedBuilder(pipeline), random.Random(f"{seed}/hot key"), float(_BEGIN_US)
    while at < _BEGIN_US + for_us:
        key = _HOT if draw.random() < share else f"{draw.randrange(_KEYS):03d}"
        builder.record(at_us=int(at), value=1, timestamp=int(at), key=key)
        at += draw.expovariate(_WORKERS * CALIBRATION.records_per_cpu / SECOND)
    return builder.build()


_POINTS = ("0 %", "10 %", "30 %", "60 %", "90 %", TWO_PHASES)

EXPERIMENT = Experiment(
    "hot-key",
    "8.4, a hot key",
    f"One key has a share of all records, on {_WORKERS} machines that are a third busy with evenly spread keys",
    _POINTS,
    _POINTS,
    sample,
    "A key belongs to one machine, and its records wait for each other: the load balancer moves, splits and merges intervals, but"
    " a key is always in one of them. With two phases, as the paper advises, each record is counted under one of"
    f" {_PARTS} parts of its key, and every {_PHASE_US // MILLISECOND} ms each part sends on its sum. This takes more runs of"
    " user code, but no machine has more than its share.",
    wide=True,
)
