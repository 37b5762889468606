"""A count by key on Spark: Headrace's host, hand-written jobs on ``transformWithState``, and Spark's own aggregation.

Each job reads files with the same records, and counts by key. After a warm-up micro-batch with every key, one micro-batch is
measured: CPU time of the JVM and all its Python workers, and wall time, both per record.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import Input, attach

COLUMNS = "key string, timestamp long"
_COUNTED = "key string, count long"


@dataclass(frozen=True, slots=True)
class CountCost:
    """The cost of one job.

    Attributes:
        job: name in `JOBS`.
        keys: number of keys.
        records: number of records in the measured micro-batch.
        cpu_us: CPU time of the JVM and its Python workers, microseconds per record.
        wall_us: wall time, microseconds per record.
    """

    job: str
    keys: int
    records: int
    cpu_us: float
    wall_us: float


class _Count(Computation):
    """Counts records."""

    def initial_state(self) -> int:
        """Start at 0."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """Increase the count."""
        context.state = context.state + 1


class ToldCount(_Count):
    """Counts records, and produces the count after each."""

    def process_record(self, context: Context, record: Record) -> None:
        """Increase the count, and produce it."""
        super().process_record(context, record)
        context.produce("counts", context.state)


def _headrace(frame: DataFrame) -> DataFrame:
    pipeline = Pipeline("count")
    pipeline.injector("records")
    pipeline.add(_Count(), name="count", inputs=["records"])
    given = Input(frame, key="key", timestamp="timestamp", value="timestamp")
    return attach(pipeline, {"records": given}).frame


class _CountRows(StatefulProcessor):
    """Counts by hand, with rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows."""
        found = self._count.get()
        count = (found[0] if found is not None else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(key=key[0], count=count)

    def close(self) -> None:
        """Close nothing."""


class _CountFrames(_CountRows):
    """Counts by hand, with pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: ARG002, N802, N803  Spark's names
        """Count one key's rows."""
        found = self._count.get()
        count = (found[0] if found is not None else 0) + sum(len(frame) for frame in rows)
        self._count.update((count,))
        yield pd.DataFrame({"key": [key[0]], "count": [count]})


def _by_rows(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").transformWithState(_CountRows(), _COUNTED, "update", "none")


def _by_frames(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").transformWithStateInPandas(_CountFrames(), _COUNTED, "update", "none")


def _native(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").count()


Job = Callable[[DataFrame], DataFrame]

JOBS: dict[str, tuple[Job, str]] = {
    "headrace": (_headrace, "append"),
    "transformWithState, rows": (_by_rows, "update"),
    "transformWithState, pandas": (_by_frames, "update"),
    "groupBy().count()": (_native, "update"),
}
"""Jobs by name, each with its output mode."""


def count_cost(spark: SparkSession, job: str, keys: int, records: int, place: Path) -> CountCost:
    """Run one job, and return the cost of its second micro-batch.

    Args:
        spark: a session.
        job: name in `JOBS`.
        keys: number of keys.
        records: number of records in the micro-batch, spread evenly over the keys.
        place: an empty directory.
    """
    build, mode = JOBS[job]
    landing = place / "landing"
    landing.mkdir(parents=True)
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(landing))
    writer = build(frame).writeStream.outputMode(mode).format("noop")
    query = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    try:
        put(landing, 0, keys, max(keys, 1_000))
        query.processAllAvailable()
        put(landing, 1, keys, records)
        began_us, began_wall_us = cpu_us(spark), time.perf_counter_ns() // 1_000
        query.processAllAvailable()
        spent_us, wall_us = cpu_us(spark) - began_us, time.perf_counter_ns() // 1_000 - began_wall_us
    finally:
        query.stop()
    return CountCost(job, keys, records, spent_us / records, wall_us / records)


def put(landing: Path, number: int, keys: int, records: int) -> None:
    """Add a file of records, with keys in a fixed shuffled order."""
    names = [f"key-{index * 7_919 % keys:06d}" for index in range(records)]
    times = pa.array(range(number * 1_000_000 + 1, number * 1_000_000 + 1 + records), pa.int64())
    table = pa.table({"key": names, "timestamp": times})
    hidden = landing / f".{number}"
    pq.write_table(table, hidden, row_group_size=max(1, records // 8))
    hidden.rename(landing / f"{number}.parquet")


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
            own_and_waited_for = fields[
                11:15
            ]  # CPU time of the process and the children that it has waited for
            ticks[int(process.name)] = sum(map(int, own_and_waited_for))
    total, waiting = 0, [root]
    while waiting:
        parent = waiting.pop()
        total += ticks.get(parent, 0)
        waiting += children.get(parent, [])
    return total * 1_000_000 // os.sysconf("SC_CLK_TCK")
