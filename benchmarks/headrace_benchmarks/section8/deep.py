"""Deep pipelines on failing machines: latency, retained bytes, and the chance to wait for a failure (MillWheel 6.1.3).

Rules of this file:

* Time is compressed: the paper assumes that 1 % of the machines fail per minute; here it is 1 % per four seconds. It takes just
  as long to notice a failure. Choice: a default cluster notices one within a second, which equals the straggler delay, so
  checkpoints would gain little.
* Each stage has its own machines, as the closed form assumes, and a record has a different key at each stage.
* Choice: few keys, so that records share them: the other records of a key wait for what a step waits for (4.1).
"""

import dataclasses
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace.history import FaultStruck, History, IntervalMinted
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_properties.search.production_modes import WAYS, Costs, ProductionMode
from headrace_sim import ClusterOptions, FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim.faults import Crash

FAILS_A_MINUTE = 0.01
"""The paper's "rather pessimistically"."""
MINUTE_US = 4 * SECOND
"""The compressed minute, which is also the time until a failure is noticed."""
_BEGIN_US = 2 * SECOND
"""All intervals are assigned by then."""
_KEYS = 503
_FACTOR = 31
"""Makes each stage's key a different function of the number."""


@dataclass(frozen=True, slots=True)
class Depth:
    """One pipeline.

    Attributes:
        stages: number of consecutive stages.
        way: combination of strong or weak productions, exactly-once and checkpoints.
        workers: number of machines; each has an interval of one stage.
        minutes: time for which records come and machines fail; see `MINUTE_US`.
        records_a_second: number of records injected per second.
        record_bytes: size of a record.
    """

    stages: int
    way: ProductionMode
    workers: int = 60
    minutes: int = 3
    records_a_second: int = 60
    record_bytes: int = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one run.

    Attributes:
        costs: latencies, retained productions and other costs.
        retained_bytes: bytes retained by all senders, averaged over the time in which records came.
    """

    costs: Costs
    retained_bytes: float


class _Relay(Computation):
    """Sends each record on under another key."""

    def __init__(self, stage: int) -> None:
        self._stage = stage

    def process_record(self, context: Context, record: Record) -> None:
        """Send the record to the next stage, or outside."""
        following = self._stage + 1
        number = int(record.value.partition(" ")[0])
        context.produce(f"stream {following}", record.value, key=_key_at(following, number))


def closed_form(stages: int) -> float:
    """Return the chance that at least one of several machines fails in a minute, if they fail independently.

    >>> round(closed_form(5), 3)
    0.049
    """
    return 1 - (1 - FAILS_A_MINUTE) ** stages


def run_deep(depth: Depth, seed: int) -> Found:
    """Run a pipeline."""
    history = _run(depth, _cluster(depth.workers), seed)
    costs = Costs()
    costs.take(history)
    return Found(costs, costs.held_byte_us / (depth.minutes * MINUTE_US))


def chance_to_meet_a_failure(stages: int, seed: int, minutes: int = 20) -> float:
    """Return the fraction of records that passed a machine that failed in the same minute.

    Only the ownership of keys matters here, so fewer and smaller records are run for a longer time.
    """
    depth = Depth(stages, WAYS[0], minutes=minutes, records_a_second=10, record_bytes=10)
    cluster = _cluster(depth.workers)
    engine = dataclasses.replace(cluster.engine, sweep_period_us=SECOND)
    history = _run(depth, msgspec.structs.replace(cluster, engine=engine), seed)
    return _struck(history, depth, seed)


def _run(depth: Depth, options: ClusterOptions, seed: int) -> History:
    pipeline = depth.way.pipeline(_pipeline(depth))
    feed, faults = _feed(pipeline, depth, seed), failures(depth, seed)
    return simulate(pipeline, feed, options=depth.way.options(options), faults=faults, seed=seed)


def failures(depth: Depth, seed: int) -> FaultSchedule:
    """Draw the failures: each machine fails in each minute with the same chance, equally in all combinations."""
    draw = random.Random(f"{seed}/failures of {depth.stages}")
    crashes = [
        Crash(
            at_us=_minute_us(minute) + draw.randrange(MINUTE_US),
            process=f"worker-{worker}",
            restart_after_us=2 * MINUTE_US,
        )
        for minute in range(depth.minutes)
        for worker in range(depth.workers)
        if draw.random() < FAILS_A_MINUTE
    ]
    return FaultSchedule(tuple(crashes), heal_at_us=_minute_us(depth.minutes) + 2 * MINUTE_US)


def _minute_us(minute: int) -> int:
    return _BEGIN_US + minute * MINUTE_US


def _cluster(workers: int) -> ClusterOptions:
    cluster = dataclasses.replace(CALIBRATION, reports_us=SECOND).cluster(
        workers
    )  # nothing here waits for a watermark
    engine = dataclasses.replace(cluster.engine, heartbeat_timeout_us=MINUTE_US)
    return msgspec.structs.replace(cluster, engine=engine)


def _key_at(stage: int, number: int) -> str:
    return f"{number * _FACTOR**stage % _KEYS:04d}"


def _pipeline(depth: Depth) -> Pipeline:
    pipeline, intervals = Pipeline("deep"), depth.workers // depth.stages
    pipeline.injector("source", outputs=["stream 1"])
    for stage in range(1, depth.stages + 1):
        pipeline.add(
            _Relay(stage),
            name=f"stage {stage}",
            inputs=[f"stream {stage}"],
            outputs=[f"stream {stage + 1}"],
            split_at=[f"{part * _KEYS // intervals:04d}" for part in range(1, intervals)],
        )
    return pipeline


def _numbers(depth: Depth, seed: int) -> Iterator[tuple[int, int]]:
    """Yield the time of arrival and the number of each record."""
    draw, at = random.Random(f"{seed}/deep"), float(_BEGIN_US)
    while at < _minute_us(depth.minutes):
        yield int(at), draw.randrange(1 << 30)
        at += draw.expovariate(depth.records_a_second / SECOND)


def _feed(pipeline: Pipeline, depth: Depth, seed: int) -> Feed:
    builder = FeedBuilder(pipeline)
    for at_us, number in _numbers(depth, seed):
        value = f"{number} ".ljust(depth.record_bytes, ".")
        builder.record(at_us=at_us, value=value, timestamp=at_us, key=_key_at(1, number))
    return builder.build()


# The chance to hit a failure


def _struck(history: History, depth: Depth, seed: int) -> float:
    """Return the fraction of records for which an owner of their keys, as of the start of their minute, failed in that minute."""
    owners = dict(_owners_by_minute(history, depth))
    failed: dict[int, set[str]] = {minute: set() for minute in range(depth.minutes)}
    for event in history:
        if isinstance(event, FaultStruck) and event.kind == "crash":
            minute = (event.at_us - _BEGIN_US) // MINUTE_US
            failed.setdefault(minute, set()).add(event.process)
    struck = []
    for at_us, number in _numbers(depth, seed):
        minute = (at_us - _BEGIN_US) // MINUTE_US
        struck.append(not failed[minute].isdisjoint(owners[minute].on_the_way(number, depth.stages)))
    return sum(struck) / len(struck)


class _Owners:
    """The owners of keys by stage."""

    def __init__(self) -> None:
        self._stages: dict[str, dict[str, str]] = {}
        """By stage and lower bound of an interval, its owner. Intervals are neither split nor merged here."""
        self._lows: dict[str, list[str]] = {}

    def take(self, event: IntervalMinted) -> None:
        """Set an interval's new owner."""
        self._stages.setdefault(event.computation, {})[event.interval.low] = event.owner

    def copy(self) -> "_Owners":
        """Return an independent copy."""
        copy = _Owners()
        copy._stages = {stage: dict(owners) for stage, owners in self._stages.items()}
        copy._lows = {stage: sorted(owners) for stage, owners in copy._stages.items()}
        return copy

    def on_the_way(self, number: int, stages: int) -> Iterator[str]:
        """Yield the machines that a record passes."""
        for stage in range(1, stages + 1):
            name = f"stage {stage}"
            lows = self._lows[name]
            yield self._stages[name][lows[bisect_right(lows, _key_at(stage, number)) - 1]]


def _owners_by_minute(history: History, depth: Depth) -> Iterator[tuple[int, _Owners]]:
    owners, minute = _Owners(), 0
    for event in history:
        while minute < depth.minutes and event.at_us >= _minute_us(minute):
            yield minute, owners.copy()
            minute += 1
        if isinstance(event, IntervalMinted):
            owners.take(event)
