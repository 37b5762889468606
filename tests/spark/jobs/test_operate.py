"""The steps of docs/how-to/operate.md on one job, one after the other: deploy, upgrade, reshard, restore a backup, observe."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace.api.progress import ComputationProgress
from headrace.spark import Input, JobState, TableSink, deploy


class Sums(Computation):
    """The first version: the state is a number."""

    def initial_state(self) -> object:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + record.value["amount"]
        context.produce("totals", context.state)


class NamedSums(Sums):
    """The second one: it is a dict."""

    def initial_state(self) -> object:
        return {"sum": 0}

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] += record.value["amount"]
        context.produce("totals", context.state["sum"])


def named(total: int) -> dict[str, int]:
    return {"sum": total}


def pipeline(version: int) -> Pipeline:
    found = Pipeline("orders")
    found.injector("orders")
    found.add(
        Sums() if version == 1 else NamedSums(), name="sums", inputs=["orders"], outputs=["totals"],
        migrate=[] if version == 1 else [named],
    )  # fmt: skip
    return found


class Site:
    """Where the job runs."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.data, self.number = place / "data", 0
        self.data.mkdir()
        (place / "orders").mkdir()

    def run(self, version: int, intervals: int, amount: int) -> tuple[ComputationProgress, ...]:
        """Deploy, take an order of each of six customers, and stop."""
        self.number += 1
        rows = [{"key": f"k{key}", "ts": self.number * SECOND, "amount": amount} for key in range(6)]
        (self.place / "orders" / f"{self.number}.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
        orders = self.spark.readStream.schema("key string, ts long, amount long").json(
            str(self.place / "orders")
        )
        of = pipeline(version)
        sink = TableSink(str(self.data / "totals.sqlite"), "totals", pipeline=of)
        inputs = {"orders": Input(orders, key="key", timestamp="ts")}
        with deploy(
            of, inputs, directory=self.data / "job", sinks={"totals": sink}, intervals=intervals
        ) as job:
            job.await_idle()
            return job.progress()

    def totals(self) -> list[int]:
        """All totals of the first customer, in order."""
        with sqlite3.connect(self.data / "totals.sqlite") as database:
            rows = database.execute("SELECT value FROM totals WHERE key = 'k0' ORDER BY timestamp").fetchall()
        return [int(value) for (value,) in rows]


@pytest.mark.spark
@pytest.mark.nightly
def test_a_job_is_deployed_upgraded_resharded_restored_and_observed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The backup is of before the upgrade. What came after it is still in the input, and is processed again."""
    site = Site(spark, tmp_path)
    site.run(1, intervals=2, amount=1)
    shutil.copytree(site.data, tmp_path / "backup")
    site.run(2, intervals=2, amount=10)
    site.run(2, intervals=3, amount=100)
    assert site.totals() == [1, 11, 111]
    shutil.rmtree(site.data)
    shutil.copytree(tmp_path / "backup", site.data)
    assert site.totals() == [1]
    (progress,) = site.run(2, intervals=3, amount=1_000)
    assert site.totals() == [1, 11, 111, 1_111]
    assert (progress.records, progress.keys) == (24, 6)
    row = JobState(spark, site.data / "job").row("sums", "k0")
    assert row is not None
    assert pipeline(2).computations["sums"].state_codec.decode(row.state) == {"sum": 1_111}
