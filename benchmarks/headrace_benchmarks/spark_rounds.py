"""The cost of a round of a long-running job: from adding a file of records until all that follows from it is output.

The job counts records by key, level after level; each level keys them anew, so that records change their key intervals. A round
of a pipelined job, or of one by hand, is two micro-batches: that of the records, and one without data, because the watermark
has moved. Rounds follow each other immediately. Measured are the CPU time of this process, the JVM and all Python processes, and
the wall time until the counts are at the sink and until the job is idle.
"""

import statistics
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import Input, deploy
from headrace.spark.runtime.session import partitions_set
from headrace_benchmarks.spark_beside import RunningJob, StartedQuery
from headrace_benchmarks.spark_count import COLUMNS, cpu_us, put

KEYS = 100
WARM_UP = 2
"""Rounds after each start that are not measured."""
_PATIENCE_S = 300.0
_COUNTED = "key string, count long, at timestamp"

BY_HAND, MANY = "by hand", "headrace, 16 intervals"
BY_HAND_ALONE, FUSED = "by hand, one partition", "headrace, one interval"
JOBS = (BY_HAND, MANY, BY_HAND_ALONE, FUSED)


@dataclass(frozen=True, slots=True)
class RoundCost:
    """The cost of a round: medians.

    Attributes:
        job: one of `JOBS`.
        levels: number of levels.
        records: number of records in a round.
        cpu_s: CPU time, seconds.
        sink_s: wall time until the counts are at the sink, seconds.
        idle_s: wall time until the job is idle, seconds.
    """

    job: str
    levels: int
    records: int
    cpu_s: float
    sink_s: float
    idle_s: float


@dataclass(slots=True)
class _Sink:
    """Receives counts, and signals the last of a round."""

    records: int
    missing: int = 0
    complete: threading.Event = field(default_factory=threading.Event)

    def __call__(self, frame: DataFrame, _number: int) -> None:
        self.missing -= len(frame.collect())
        if self.missing == 0:
            self.complete.set()

    def expect(self) -> None:
        self.missing = self.records
        self.complete.clear()


class _Count(Computation):
    """Counts records, and produces the count after each."""

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> int:
        """Start at 0."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """Count."""
        context.state = context.state + 1
        context.produce(self._output, context.state)


def _turned(record: Record) -> str:
    return record.key[::-1]


def _pipeline(levels: int) -> Pipeline:
    pipeline = Pipeline("rounds")
    pipeline.injector("records")
    for level in range(levels):
        came, output = f"counts{level - 1}" if level else "records", f"counts{level}"
        pipeline.add(_Count(output), name=f"level{level}", inputs={came: _turned}, outputs=[output])
    return pipeline


class _CountRows(StatefulProcessor):
    """Counts by hand."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows, and output the count after each."""
        found = self._count.get()
        total = found[0] if found is not None else 0
        for row in rows:
            total += 1
            yield Row(key=key[0], count=total, at=row.at)
        self._count.update((total,))

    def close(self) -> None:
        """Close nothing."""


def _counted_by_hand(frame: DataFrame, levels: int) -> DataFrame:
    rows = frame.select("key", F.timestamp_micros("timestamp").alias("at")).withWatermark("at", "0 seconds")
    for level in range(levels):
        chained = "at" if level < levels - 1 else ""
        rows = rows.select(F.reverse("key").alias("key"), "at").groupBy("key").transformWithState(
            _CountRows(), _COUNTED, "append", "EventTime", eventTimeColumnName=chained
        )  # fmt: skip
    return rows


def _start(job: str, frame: DataFrame, levels: int, place: Path, sink: _Sink) -> RunningJob:
    if job in (BY_HAND, BY_HAND_ALONE):
        writer = _counted_by_hand(frame, levels).writeStream.foreachBatch(sink).outputMode("append")
        with partitions_set(frame.sparkSession, 1 if job == BY_HAND_ALONE else 0):
            return StartedQuery(writer.option("checkpointLocation", str(place)).start())
    given = {"records": Input(frame, key="key", timestamp="timestamp", value="timestamp")}
    return deploy(
        _pipeline(levels), given, directory=place, sinks={f"counts{levels - 1}": sink},
        intervals=1 if job == FUSED else 16,
    )  # fmt: skip


def round_costs(
    spark: SparkSession,
    place: Path,
    *,
    jobs: Iterable[str] = JOBS,
    levels: Iterable[int],
    records: int,
    rounds: int,
    passes: int = 2,
) -> list[RoundCost]:
    """Run jobs in turn, several times, and return the cost of a round of each. The first pass only warms up Java.

    Args:
        spark: a session.
        place: an empty directory.
        jobs: of `JOBS`.
        levels: numbers of levels.
        records: number of records in a round.
        rounds: number of rounds of a pass to measure.
        passes: number of measured passes; a job resumes in each where it was stopped.
    """
    took: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    files = {each: count() for each in product(jobs, levels)}
    for number in range(passes + 1):
        for (job, depth), numbers in files.items():
            found = _pass(spark, place / f"{job}-{depth}", job, depth, records, rounds, numbers)
            if number:
                took.setdefault((job, depth), []).extend(found)
    return [
        RoundCost(job, depth, records, *(statistics.median(times) for times in zip(*found, strict=True)))
        for (job, depth), found in took.items()
    ]


def _pass(
    spark: SparkSession, place: Path, job: str, levels: int, records: int, rounds: int, numbers: Iterator[int]
) -> list[tuple[float, float, float]]:
    landing, sink, found = place / "landing", _Sink(records), []
    landing.mkdir(parents=True, exist_ok=True)
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(landing))
    running = _start(job, frame, levels, place / "job", sink)
    try:
        for _ in range(WARM_UP + rounds):
            sink.expect()
            began_us, began = cpu_us(spark) + time.process_time_ns() // 1_000, time.monotonic()
            put(landing, next(numbers), KEYS, records)
            assert sink.complete.wait(_PATIENCE_S), "counts are missing"
            complete = time.monotonic()
            running.await_idle()
            spent_us = cpu_us(spark) + time.process_time_ns() // 1_000 - began_us
            found.append((spent_us / 1e6, complete - began, time.monotonic() - began))
    finally:
        running.stop()
    return found[WARM_UP:]
