"""A job with state on the real Spark, whose tasks die at a call of it: what modules keep is lost, what the state keeps is not."""

from pathlib import Path

import pytest

from headrace_properties.sinks.story import Wrong
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.laboratory.test_workers import READ, START, tried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PROCESSOR = """
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

SEEN = {}


class Counting(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        came = sum(len(part) for part in rows)
        n = came + (self.count.get()[0] if self.count.exists() else 0)
        seen = SEEN[key] = SEEN.get(key, 0) + came
        self.count.update((n,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 15_000)
        yield pd.DataFrame({"key": [key[0]], "n": [TOLD]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n, seen = self.count.get()[0], SEEN.get(key)
        yield pd.DataFrame({"key": [-1], "n": [TOLD]})

    def close(self):
        pass
"""
PROCESSED = """
from counting import Counting

spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
timed = payments.withColumn("at", F.timestamp_seconds("amount")).withWatermark("at", "0 seconds")
counts = timed.withColumn("key", F.col("id") * 0).groupBy("key").transformWithStateInPandas(
    Counting(), outputStructType="key LONG, n LONG", outputMode="Update", timeMode="EventTime")
"""
FUNCTION = """
import pandas as pd

SEEN = {}


def count(key, rows, state):
    came = sum(len(part) for part in rows)
    n = came + (state.get[0] if state.exists else 0)
    seen = SEEN[key] = SEEN.get(key, 0) + came
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [TOLD]})
"""
GROUPED = """
from counting import count
from pyspark.sql.streaming.state import GroupStateTimeout

counts = payments.withColumn("key", F.col("id") * 0).groupBy("key").applyInPandasWithState(
    count, "key LONG, n LONG", "n LONG", "update", GroupStateTimeout.NoTimeout)
"""
BY_CLOCK = PROCESSOR.replace(
    "getCurrentWatermarkInMs() + 15_000", "getCurrentProcessingTimeInMs() + 86_400_000"
)
CLOCKED = PROCESSED.replace("EventTime", "ProcessingTime")
LIVES_A_MILLISECOND = BY_CLOCK.replace('"n LONG")', '"n LONG", ttlDurationMs=1)')
"""Java's clock is the real one: by the next batch, that has passed."""
WRITTEN = f"""
def write(df, batch_id):
    df.write.mode("overwrite").parquet(f"/data/out/batch={{batch_id}}")

counts.writeStream.outputMode("update").foreachBatch(write){START}"""


@pytest.mark.parametrize(
    ("module", "program", "call", "where"),
    [
        (PROCESSOR, PROCESSED, 1, "the rows or the timer of a key"),
        (PROCESSOR, PROCESSED, 4, "update"),
        (PROCESSOR, PROCESSED, 5, "registerTimer"),
        (LIVES_A_MILLISECOND, CLOCKED, 1, "the rows or the timer of a key"),
        (FUNCTION, GROUPED, 0, "update"),
    ],
    ids=["key", "value", "timer", "ttl", "group"],
)
@pytest.mark.parametrize(("told", "found"), [("seen", {Wrong.MEMORY}), ("n", set())])
def test_a_task_dies_at_a_call_of_its_state(
    jvm: SparkJvm,
    tmp_path: Path,
    module: str,
    program: str,
    call: int,
    where: str,
    told: str,
    found: set[Wrong],
) -> None:
    (tmp_path / "counting.py").write_text(module.replace("TOLD", told))
    fault = SinkFault(SinkFaultKind.STATE, 1, call)
    trial = tried(jvm, tmp_path, READ + program + WRITTEN, fault)
    assert trial.fault == fault
    assert where in trial.what
    assert {finding.wrong for finding in trial.findings} == found


def test_query_whose_timers_go_by_the_clock_ends_and_has_the_store_of_its_state(
    jvm: SparkJvm, tmp_path: Path
) -> None:
    (tmp_path / "counting.py").write_text(BY_CLOCK.replace("TOLD", "n"))
    program = CLOCKED.replace("spark.conf.set", "print")
    trial = tried(jvm, tmp_path, READ + program + WRITTEN, SinkFault(SinkFaultKind.KILL, 1, 1))
    assert {finding.wrong for finding in trial.findings} == set()
    assert {rows.total() for rows in trial.left.values()} == {3}


@pytest.mark.parametrize(("told", "found"), [("seen", {Wrong.MEMORY}), ("n", set())])
def test_a_driver_takes_its_workers_with_it(
    jvm: SparkJvm, tmp_path: Path, told: str, found: set[Wrong]
) -> None:
    (tmp_path / "counting.py").write_text(FUNCTION.replace("TOLD", told))
    trial = tried(jvm, tmp_path, READ + GROUPED + WRITTEN, SinkFault(SinkFaultKind.RESTART, 0, 1))
    assert trial.fault is not None
    assert {finding.wrong for finding in trial.findings} == found


@pytest.mark.parametrize(("told", "found"), [("seen", {Wrong.MEMORY}), ("n", set())])
def test_what_a_query_only_shows_is_compared(
    jvm: SparkJvm, tmp_path: Path, told: str, found: set[Wrong]
) -> None:
    (tmp_path / "counting.py").write_text(FUNCTION.replace("TOLD", told))
    shown = f'\ncounts.writeStream.outputMode("update").format("console"){START}'
    trial = tried(jvm, tmp_path, READ + GROUPED + shown, SinkFault(SinkFaultKind.STATE, 1, 0))
    assert {finding.wrong for finding in trial.findings} == found
    assert {name: rows.total() for name, rows in trial.calm.items()} == {"/console": 3}


def test_a_program_that_stops_its_query_has_it_run_through_what_is_there(
    jvm: SparkJvm, tmp_path: Path
) -> None:
    looks = """
import time
query = payments.writeStream.format("memory").queryName("seen").start()
time.sleep(5)
query.stop()
assert spark.table("seen").count() == 4
"""
    trial = tried(jvm, tmp_path, READ + looks, SinkFault(SinkFaultKind.KILL, 1, 1))
    assert not trial.findings
    assert {name: rows.total() for name, rows in trial.left.items()} == {"/memory": 4}
