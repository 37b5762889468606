"""One driver of counts by key on Spark: Headrace's host, hand-written jobs on ``transformWithState``, Spark's own aggregation.

A job reads Parquet files from a directory and counts by key, level after level; each level keys the records anew, so that they
change their key intervals. How jobs vary is data: `BATCHES`, `STREAMS`, `ROUNDS`. What is measured begins when a file of records
is there, and ends when their counts are at the sink, or the job is idle: wall time, and CPU time of this process, the JVM and all
Python workers.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import Deployment, Input, attach, deploy
from headrace.spark.runtime.spark_session import partitions_set

_COLUMNS = "key string, timestamp long"
_COUNTED = "key string, count long, at timestamp"
_PATIENCE_S = 300.0
_WARM_UP = 50_000
"""Records of a first run of each job, so that the first one does not pay for Java's compilation."""


@dataclass(slots=True)
class CountReceiver:
    """Receives counts, and signals the last of those that are expected."""

    missing: int = 0
    complete: threading.Event = field(default_factory=threading.Event)

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Receive a micro-batch."""
        self.missing -= len(frame.collect())
        if self.missing <= 0:
            self.complete.set()

    def expect(self, counts: int) -> None:
        """Expect this number of counts from now on."""
        self.missing = counts
        self.complete.clear()


Start = Callable[[DataFrame, int, Path, CountReceiver | None], Deployment | StreamingQuery]
"""Starts a job: a frame of records, a number of levels, a directory, a sink; without one there is no output."""


def _started(counts: DataFrame, mode: str, place: Path, sink: CountReceiver | None) -> StreamingQuery:
    writer = counts.writeStream.outputMode(mode).option("checkpointLocation", str(place))
    return (writer.format("noop") if sink is None else writer.foreachBatch(sink)).start()


# The jobs


class _Count(Computation):
    """Counts records, and produces the count after each; ``""``: nothing."""

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> int:
        """Start at 0."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """Increase the count."""
        context.state = context.state + 1
        if self._output:
            context.produce(self._output, context.state)


def _turned(record: Record) -> str:
    return record.key[::-1]


def headrace(intervals: int) -> Start:
    """Return the count as a pipeline."""

    def start(
        frame: DataFrame, levels: int, place: Path, sink: CountReceiver | None
    ) -> Deployment | StreamingQuery:
        pipeline = Pipeline("count")
        pipeline.injector("records")
        came = "records"
        for level in range(levels):
            output = "" if sink is None else f"counts{level}"
            pipeline.add(
                _Count(output),
                name=f"level{level}",
                inputs={came: _turned},
                outputs=[output] if output else [],
            )
            came = output
        inputs = {"records": Input(frame, key="key", timestamp="timestamp", value="timestamp")}
        if sink is None:
            return _started(attach(pipeline, inputs).frame, "append", place, sink)
        return deploy(pipeline, inputs, directory=place, sinks={came: sink}, intervals=intervals)

    return start


class _CountRows(StatefulProcessor):
    """Counts by hand. ``each``: it outputs the count after each row, or else after all of a micro-batch."""

    def __init__(self, *, each: bool) -> None:
        self._each = each

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows."""
        stored, at = self._count.get(), None
        total = stored[0] if stored is not None else 0
        for row in rows:
            total, at = total + 1, row.at
            if self._each:
                yield Row(key=key[0], count=total, at=at)
        self._count.update((total,))
        if not self._each:
            yield Row(key=key[0], count=total, at=at)

    def close(self) -> None:
        """Close nothing."""


class _CountFrames(_CountRows):
    """Counts by hand, with pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows."""
        stored = self._count.get()
        total = stored[0] if stored is not None else 0
        for frame in rows:
            total += len(frame)
        self._count.update((total,))
        yield pd.DataFrame({"key": [key[0]], "count": [total], "at": [pd.Timestamp(0)]})


def by_hand(*, each: bool, watermark: bool = False, partitions: int = 0) -> Start:
    """Return a chain of ``transformWithState``; with a watermark it is in event time, as Spark wants it of a chain.

    Args:
        each: whether it outputs the count after each record.
        watermark: whether the records have a watermark.
        partitions: number of them; 0: the session's.
    """

    def start(
        frame: DataFrame, levels: int, place: Path, sink: CountReceiver | None
    ) -> Deployment | StreamingQuery:
        rows = frame.select("key", F.timestamp_micros("timestamp").alias("at"))
        rows = rows.withWatermark("at", "0 seconds") if watermark else rows
        mode, time_mode = ("append", "EventTime") if watermark else ("update", "none")
        for level in range(levels):
            chained = {"eventTimeColumnName": "at"} if level < levels - 1 else {}
            keyed = rows.select(F.reverse("key").alias("key"), "at").groupBy("key")
            rows = keyed.transformWithState(_CountRows(each=each), _COUNTED, mode, time_mode, **chained)
        with partitions_set(frame.sparkSession, partitions):
            return _started(rows, mode, place, sink)

    return start


def by_frames(
    frame: DataFrame, _levels: int, place: Path, sink: CountReceiver | None
) -> Deployment | StreamingQuery:
    """Start ``transformWithStateInPandas``."""
    keyed = frame.select("key", F.timestamp_micros("timestamp").alias("at")).groupBy("key")
    counts = keyed.transformWithStateInPandas(_CountFrames(each=False), _COUNTED, "update", "none")
    return _started(counts, "update", place, sink)


def by_spark(
    frame: DataFrame, _levels: int, place: Path, sink: CountReceiver | None
) -> Deployment | StreamingQuery:
    """Start Spark's own aggregation, which outputs a count for each key of a micro-batch."""
    return _started(frame.groupBy("key").count(), "update", place, sink)


BATCHES: Mapping[str, Start] = {
    "headrace": headrace(4),
    "transformWithState, rows": by_hand(each=False),
    "transformWithState, pandas": by_frames,
    "groupBy().count()": by_spark,
}
"""Jobs whose large micro-batch is measured, without a sink."""

STREAMS: Mapping[str, Start] = {
    "headrace": headrace(4),
    "transformWithState by hand": by_hand(each=True),
    "groupBy().count()": by_spark,
}
"""Jobs whose throughput, latency and recovery are measured."""

ROUNDS: Mapping[str, Start] = {
    "by hand": by_hand(each=True, watermark=True),
    "headrace, 16 intervals": headrace(16),
    "by hand, one partition": by_hand(each=True, watermark=True, partitions=1),
    "headrace, one interval": headrace(1),
}
"""Jobs whose rounds are measured, level after level."""


# The driver


@dataclass(frozen=True, slots=True)
class DriverCost:
    """What it took, seconds.

    Attributes:
        cpu_s: CPU time.
        sink_s: wall time until the counts are at the sink; 0: there is none.
        idle_s: wall time until the job is idle.
    """

    cpu_s: float
    sink_s: float
    idle_s: float


class BenchmarkDriver:
    """A job and the files from which it reads.

    Args:
        spark: a session.
        start: the job.
        place: its directory.
        levels: number of levels.
        sink: whether it has one.
    """

    def __init__(
        self, spark: SparkSession, start: Start, place: Path, *, levels: int = 1, sink: bool = True
    ) -> None:
        self._spark, self._job, self._place, self._levels = spark, start, place, levels
        self._sink = CountReceiver() if sink else None
        self._landing, self._numbers = place / "landing", count()
        self._landing.mkdir(parents=True)
        self._running: Deployment | StreamingQuery | None = None

    def start(self) -> None:
        """Start or resume it."""
        frame = self._spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1)
        self._running = self._job(
            frame.parquet(str(self._landing)), self._levels, self._place / "job", self._sink
        )

    def stop(self) -> None:
        """Stop it."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    @contextmanager
    def started(self) -> Iterator[None]:
        """Have it run meanwhile."""
        try:
            self.start()
            yield
        finally:
            self.stop()

    def add(self, records: int, keys: int) -> DriverCost:
        """Add a file of records with this number of keys, and let the job process it."""
        return self._took(self._written(records, keys), records)

    def resume(self) -> DriverCost:
        """Stop the job, add a record, and start the job again, from where time is taken."""
        self.stop()
        self._written(1, 1)()
        return self._took(self.start, 1)

    def _written(self, records: int, keys: int) -> Callable[[], object]:
        """Write a file, with keys in a fixed shuffled order, and return what lets the job see it."""
        number = next(self._numbers)
        names = [f"key-{index * 7_919 % keys:06d}" for index in range(records)]
        times = pa.array(range(number * 1_000_000 + 1, number * 1_000_000 + 1 + records), pa.int64())
        hidden = self._landing / f".{number}"
        table = pa.table({"key": names, "timestamp": times})
        pq.write_table(table, hidden, row_group_size=max(1, records // 8))
        return lambda: hidden.rename(self._landing / f"{number}.parquet")

    def _took(self, cause: Callable[[], object], records: int) -> DriverCost:
        if self._sink is not None:
            # Spark's own aggregation has one for each key: then the first is enough.
            self._sink.expect(1 if self._job is by_spark else records)
        cpu_s, began = _cpu_s(self._spark), time.monotonic()
        cause()
        sink_s = 0.0
        if self._sink is not None:
            assert self._sink.complete.wait(_PATIENCE_S), "counts are missing"
            sink_s = time.monotonic() - began
        if isinstance(self._running, Deployment):
            self._running.await_idle()
        elif self._running is not None:
            self._running.processAllAvailable()
        return DriverCost(_cpu_s(self._spark) - cpu_s, sink_s, time.monotonic() - began)


def _cpu_s(spark: SparkSession) -> float:
    return cpu_us(spark) / 1e6 + time.process_time()


def cpu_us(spark: SparkSession) -> int:
    """Return the CPU time of the JVM and all its descendant processes, microseconds."""
    jvm: Any = spark._jvm
    root = int(jvm.java.lang.ProcessHandle.current().pid())
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # the process has ended meanwhile
                continue
            children.setdefault(int(fields[1]), []).append(int(process.name))
            ticks[int(process.name)] = sum(
                map(int, fields[11:15])
            )  # its own, and that of the children that it has waited for
    total, waiting = 0, [root]
    while waiting:
        parent = waiting.pop()
        total += ticks.get(parent, 0)
        waiting += children.get(parent, [])
    return total * 1_000_000 // os.sysconf("SC_CLK_TCK")


# What is measured


@dataclass(frozen=True, slots=True)
class CountCost:
    """The cost of one micro-batch of a job.

    Attributes:
        job: name in `BATCHES`.
        keys: number of keys.
        records: number of records.
        cpu_us: CPU time, microseconds per record.
        wall_us: wall time, microseconds per record.
    """

    job: str
    keys: int
    records: int
    cpu_us: float
    wall_us: float


def count_costs(
    spark: SparkSession,
    place: Path,
    *,
    keys: Iterable[int],
    records: int,
    rounds: int,
    slow: Mapping[tuple[str, int], int],
) -> list[CountCost]:
    """Run all `BATCHES` with all numbers of keys several times, and return the median cost of each, by CPU time.

    Args:
        spark: a session.
        place: an empty directory.
        keys: numbers of keys.
        records: number of records in the micro-batch, spread evenly over the keys.
        rounds: how often.
        slow: of a job and a number of keys: measure them once, with fewer records and keys by this factor.
    """
    costs_of: dict[tuple[str, int], list[CountCost]] = {}
    for job in BATCHES:
        _count_cost(spark, job, 100, _WARM_UP, place)
    for number, key_count, job in product(range(rounds), keys, BATCHES):
        part = slow.get((job, key_count), 1)
        if not number or part == 1:
            cost = _count_cost(spark, job, key_count // part, records // part, place)
            costs_of.setdefault((job, key_count), []).append(cost)
    return [sorted(costs, key=lambda cost: cost.cpu_us)[len(costs) // 2] for costs in costs_of.values()]


def _count_cost(spark: SparkSession, job: str, keys: int, records: int, place: Path) -> CountCost:
    """Run a job on a file with every key, and return the cost of its second micro-batch."""
    where = place / job
    driver = BenchmarkDriver(spark, BATCHES[job], where, sink=False)
    with driver.started():
        driver.add(max(keys, 1_000), keys)
        cost = driver.add(records, keys)
    shutil.rmtree(where, ignore_errors=True)  # Spark may still maintain the state of its query
    return CountCost(job, keys, records, cost.cpu_s * 1e6 / records, cost.idle_s * 1e6 / records)


@dataclass(frozen=True, slots=True)
class JobTimes:
    """A job's wall times.

    Attributes:
        records_per_s: throughput of the large micro-batch, from its file to its end.
        latencies_s: times from single records' files to their counts at the sink, seconds.
        recoveries_s: times from restarting a stopped job, with a record waiting, to that record's count at the sink, seconds.
    """

    records_per_s: float
    latencies_s: tuple[float, ...]
    recoveries_s: tuple[float, ...]


def job_times(
    spark: SparkSession, job: str, keys: int, records: int, place: Path, *, tries: int = 20, stops: int = 5
) -> JobTimes:
    """Run one of `STREAMS` on a file with every key, on single records, and on a large file; then stop and restart it.

    Args:
        spark: a session.
        job: its name.
        keys: number of keys.
        records: number of records in the large file.
        place: an empty directory.
        tries: number of single records, after five that are not measured.
        stops: number of restarts. One record's file is added between a stop and the next start.
    """
    driver = BenchmarkDriver(spark, STREAMS[job], place)
    with driver.started():
        driver.add(keys, keys)
        latencies = [driver.add(1, 1).sink_s for _ in range(5 + tries)]
        large = driver.add(records, keys)
        recoveries = [driver.resume().sink_s for _ in range(stops)]
    return JobTimes(records / large.idle_s, tuple(latencies[5:]), tuple(recoveries))


@dataclass(frozen=True, slots=True)
class RoundCost:
    """The cost of a round: medians.

    Attributes:
        job: name in `ROUNDS`.
        levels: number of levels.
        records: number of records in a round.
        cost: what it took.
    """

    job: str
    levels: int
    records: int
    cost: DriverCost


def round_costs(
    spark: SparkSession, place: Path, *, levels: Iterable[int], records: int, rounds: int, passes: int = 2
) -> list[RoundCost]:
    """Run `ROUNDS` in turn, several times, and return the cost of a round of each. The first pass only warms up Java.

    Rounds follow each other immediately. A round of a job is two micro-batches: that of the records, and one without data,
    because the watermark has moved.

    Args:
        spark: a session.
        place: an empty directory.
        levels: numbers of levels.
        records: number of records in a round.
        rounds: number of rounds of a pass to measure, after two that are not.
        passes: number of measured passes; a job resumes in each where it was stopped.
    """
    drivers = {
        (job, depth): BenchmarkDriver(spark, ROUNDS[job], place / f"{job}-{depth}", levels=depth)
        for job, depth in product(ROUNDS, levels)
    }
    took: dict[tuple[str, int], list[DriverCost]] = {each: [] for each in drivers}
    for number, (each, driver) in product(range(passes + 1), drivers.items()):
        with driver.started():
            costs = [driver.add(records, 100) for _ in range(2 + rounds)]
        took[each] += costs[2:] if number else []
    return [RoundCost(job, depth, records, _median(costs)) for (job, depth), costs in took.items()]


def _median(costs: list[DriverCost]) -> DriverCost:
    return DriverCost(
        median(cost.cpu_s for cost in costs),
        median(cost.sink_s for cost in costs),
        median(cost.idle_s for cost in costs),
    )
