"""The cost of a job's two layouts, by round: from adding a file of records until everything that follows from it is output.

The pipeline has two computations: one passes each record on under another key, the other counts by that key. Rounds follow each
other immediately, after some warm-up rounds. Measured are CPU time (of this process, the JVM and its Python workers), and the
duration of a round, which is the latency of its last record.
"""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import Input, Layout, deploy
from headrace_benchmarks.spark_count import COLUMNS, ToldCount, cpu_us, put

WARM_UP = 3


@dataclass(frozen=True, slots=True)
class LayoutCost:
    """The cost of a round.

    Attributes:
        layout: the job's layout.
        records: number of records in a round.
        rounds: number of measured rounds.
        cpu_s: CPU time per round, seconds.
        median_s: median wall time of a round, seconds.
        longest_s: longest wall time of a round, seconds.
    """

    layout: Layout
    records: int
    rounds: int
    cpu_s: float
    median_s: float
    longest_s: float


class _PassOn(Computation):
    """Passes records on."""

    def process_record(self, context: Context, record: Record) -> None:
        """Produce the value unchanged."""
        context.produce("passed", record.value)


def _last_digit(record: Record) -> str:
    return record.key[-1]


def _pipeline() -> Pipeline:
    pipeline = Pipeline("layouts")
    pipeline.injector("records")
    pipeline.add(_PassOn(), name="pass on", inputs=["records"], outputs=["passed"])
    pipeline.add(ToldCount(), name="count", inputs={"passed": _last_digit}, outputs=["counts"])
    return pipeline


def _ignore(frame: DataFrame, _number: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def layout_cost(spark: SparkSession, layout: Layout, records: int, rounds: int, place: Path) -> LayoutCost:
    """Run a job in one layout, and return the cost of its rounds.

    Args:
        spark: a session.
        layout: the layout.
        records: number of records in a round.
        rounds: number of rounds to measure.
        place: an empty directory.
    """
    landing = place / "landing"
    landing.mkdir(parents=True)
    frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(landing))
    given = Input(frame, key="key", timestamp="timestamp", value="timestamp")
    took: list[float] = []
    with deploy(
        _pipeline(), {"records": given}, directory=place / "job", sinks={"counts": _ignore}, layout=layout, intervals=4
    ) as job:  # fmt: skip
        began_us = 0
        for number in range(WARM_UP + rounds):
            if number == WARM_UP:
                began_us = cpu_us(spark) + time.process_time_ns() // 1_000
            put(landing, number, 100, records)
            began = time.monotonic()
            job.await_idle()
            took.append(time.monotonic() - began)
        spent_us = cpu_us(spark) + time.process_time_ns() // 1_000 - began_us
    measured = took[WARM_UP:]
    return LayoutCost(
        layout, records, rounds, spent_us / 1e6 / rounds, statistics.median(measured), max(measured)
    )
