"""A count by key on Spark: Headrace's host, the same by hand on ``transformWithState``, and Spark's own aggregation.

Each job reads files of the same records, and counts by key. Measured is one micro-batch after a warm-up one that has met every
key: CPU time of the JVM and of all its Python workers, by record, and wall time.
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
    """What one job cost.

    Attributes:
        job: which.
        keys: how many keys the records are of.
        records: in the measured micro-batch.
        cpu_us: of the JVM and its Python workers, microseconds by record.
        wall_us: likewise, wall time.
    """

    job: str
    keys: int
    records: int
    cpu_us: float
    wall_us: float


class _Count(Computation):
    """Counts what it gets."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """One more."""
        context.state = context.state + 1


class ToldCount(_Count):
    """Counts, and tells each time."""

    def process_record(self, context: Context, record: Record) -> None:
        """One more, and how many there are now."""
        super().process_record(context, record)
        context.produce("counts", context.state)


def _headrace(frame: DataFrame) -> DataFrame:
    pipeline = Pipeline("count")
    pipeline.injector("records")
    pipeline.add(_Count(), name="count", inputs=["records"])
    given = Input(frame, key="key", timestamp="timestamp", value="timestamp")
    return attach(pipeline, {"records": given}).frame


class _CountRows(StatefulProcessor):
    """By hand, with rows."""

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
        """Nothing is open."""


class _CountFrames(_CountRows):
    """By hand, with pandas."""

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
"""Each with its output mode."""


def count_cost(spark: SparkSession, job: str, keys: int, records: int, place: Path) -> CountCost:
    """Run one job, and tell what its second micro-batch cost.

    Args:
        spark: a session.
        job: one of `JOBS`.
        keys: to count by.
        records: in the micro-batch; each key gets equally many.
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
    """Let a file of records fall; keys in a fixed disorder."""
    names = [f"key-{index * 7_919 % keys:06d}" for index in range(records)]
    times = pa.array(range(number * 1_000_000 + 1, number * 1_000_000 + 1 + records), pa.int64())
    table = pa.table({"key": names, "timestamp": times})
    hidden = landing / f".{number}"
    pq.write_table(table, hidden, row_group_size=max(1, records // 8))
    hidden.rename(landing / f"{number}.parquet")


def cpu_us(spark: SparkSession) -> int:
    """CPU time of the JVM and all that it has started, microseconds."""
    jvm: Any = spark._jvm
    root = int(jvm.java.lang.ProcessHandle.current().pid())
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            children.setdefault(int(fields[1]), []).append(int(process.name))
            ticks[int(process.name)] = sum(
                map(int, fields[11:15])
            )  # its own, and of the children that it has waited for
    total, waiting = 0, [root]
    while waiting:
        parent = waiting.pop()
        total += ticks.get(parent, 0)
        waiting += children.get(parent, [])
    return total * 1_000_000 // os.sysconf("SC_CLK_TCK")
