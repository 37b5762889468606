"""A count by key on Spark as a long-running job: throughput, latency and recovery, compared with hand-written jobs.

Each job reads Parquet files from a directory, counts by key, and passes each batch's counts to a sink. Headrace in both layouts
and a hand-written ``transformWithState`` output a count for each record; Spark's own aggregation cannot do that, and outputs one
for each key of a micro-batch. All times are wall time.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace import Pipeline
from headrace.spark import Input, deploy
from headrace_benchmarks.spark_count import COLUMNS, ToldCount, put

INTERVALS = 4
_PATIENCE_S = 120.0
_WARM_UP = 5
_COUNTED = "key string, count long"


@dataclass(frozen=True, slots=True)
class JobTimes:
    """A job's wall times.

    Attributes:
        job: name in `JOBS`.
        keys: number of keys.
        records: number of records in the large micro-batch.
        records_per_s: its throughput, from its file to the end of the micro-batch.
        latencies_us: times from single records' files to their counts at the sink.
        recoveries_us: times from restarting a stopped job, with a record waiting, to that record's count at the sink.
    """

    job: str
    keys: int
    records: int
    records_per_s: float
    latencies_us: tuple[int, ...]
    recoveries_us: tuple[int, ...]

    @property
    def latency_us(self) -> float:
        """The median latency."""
        return median(self.latencies_us)

    @property
    def recovery_us(self) -> float:
        """The median recovery time."""
        return median(self.recoveries_us)


class RunningJob(Protocol):
    """A running job."""

    def await_idle(self) -> None:
        """Return once all input so far has been processed."""
        ...

    def stop(self) -> None:
        """Stop the job."""
        ...


class Sink:
    """Receives counts, and signals their arrival."""

    def __init__(self) -> None:
        self._got = threading.Event()

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        """Receive a micro-batch."""
        if frame.collect():
            self._got.set()

    def await_counts(self, cause: Callable[[], object]) -> int:
        """Call a function, and return the time until counts arrive, microseconds."""
        self._got.clear()
        began_us = time.perf_counter_ns() // 1_000
        cause()
        assert self._got.wait(_PATIENCE_S), "no count arrives"
        return time.perf_counter_ns() // 1_000 - began_us


def _headrace(frame: DataFrame, place: Path, sink: Sink) -> RunningJob:
    pipeline = Pipeline("count")
    pipeline.injector("records")
    pipeline.add(ToldCount(), name="count", inputs=["records"], outputs=["counts"])
    given = {"records": Input(frame, key="key", timestamp="timestamp", value="timestamp")}
    return deploy(pipeline, given, directory=place, sinks={"counts": sink}, intervals=INTERVALS)


class _CountRows(StatefulProcessor):
    """Counts by hand."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows, and output the count after each."""
        found = self._count.get()
        count = found[0] if found is not None else 0
        for _ in rows:
            count += 1
            yield Row(key=key[0], count=count)
        self._count.update((count,))

    def close(self) -> None:
        """Close nothing."""


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """A query that is a job by itself."""

    query: StreamingQuery

    def await_idle(self) -> None:
        """See `RunningJob`."""
        self.query.processAllAvailable()

    def stop(self) -> None:
        """See `RunningJob`."""
        self.query.stop()


def _by_hand(frame: DataFrame, place: Path, sink: Sink) -> RunningJob:
    counts = frame.groupBy("key").transformWithState(_CountRows(), _COUNTED, "update", "none")
    return _started(counts, place, sink)


def _native(frame: DataFrame, place: Path, sink: Sink) -> RunningJob:
    return _started(frame.groupBy("key").count(), place, sink)


def _started(counts: DataFrame, place: Path, sink: Sink) -> RunningJob:
    writer = counts.writeStream.outputMode("update").foreachBatch(sink)
    return StartedQuery(writer.option("checkpointLocation", str(place)).start())


JOBS: dict[str, Callable[[DataFrame, Path, Sink], RunningJob]] = {
    "headrace": _headrace,
    "transformWithState by hand": _by_hand,
    "groupBy().count()": _native,
}


def job_times(
    spark: SparkSession, job: str, keys: int, records: int, place: Path, *, tries: int = 20, stops: int = 5
) -> JobTimes:
    """Run a job on a file with every key, on single records, and on a large file; then stop and restart it several times.

    Args:
        spark: a session.
        job: name in `JOBS`.
        keys: number of keys.
        records: number of records in the large file.
        place: an empty directory.
        tries: number of single records.
        stops: number of restarts. One record's file is added between a stop and the next start.
    """
    landing, sink = place / "landing", Sink()
    landing.mkdir(parents=True)
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(landing))
    files = iter(range(1 << 30))

    def add_file(count: int) -> None:
        put(landing, next(files), min(keys, count), count)

    def start() -> RunningJob:
        return JOBS[job](frame, place / "job", sink)

    running = start()
    try:
        add_file(keys)
        running.await_idle()
        latencies = []
        for _ in range(_WARM_UP + tries):
            latencies.append(sink.await_counts(lambda: add_file(1)))
            running.await_idle()
        add_file(records)
        began = time.perf_counter()
        running.await_idle()
        large_s = time.perf_counter() - began
        recoveries = []
        for _ in range(stops):
            running.stop()
            add_file(1)
            restarted: list[RunningJob] = []
            recoveries.append(sink.await_counts(lambda: restarted.append(start())))  # noqa: B023  called at once
            running = restarted[0]
            running.await_idle()
    finally:
        running.stop()
    return JobTimes(job, keys, records, records / large_s, tuple(latencies[_WARM_UP:]), tuple(recoveries))
