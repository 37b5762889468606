"""A program as it is on the real Spark, which dies at each of its effects; what it names is redirected into its trial."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import OneTrial
from headrace_properties.sinks.story import Wrong
from headrace_sim.spark.client.scripts import Script, run_script, surroundings
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.real_drivers import RealDrivers
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink

pytestmark = pytest.mark.spark

PROGRAM = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("payments").getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")

def write(df, batch_id):
    df.write.mode("append").parquet("/data/out")
    total = df.groupBy().agg(F.sum("amount").alias("total")).withColumn("batch", F.lit(batch_id))
    total.write.mode("overwrite").json(f"s3a://bucket/totals/{batch_id}")

payments.writeStream.foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start().awaitTermination()
spark.stop()
"""
ROWS = (((1, 10), (2, 20)), ((3, 30),), ((4, 40),))
OUT = "/data/out"


def sink_of(jvm: SparkJvm, folder: Path, program: str, rows: Sequence[Any]) -> Sink:
    file = folder / "stream.py"
    file.write_text(program)
    script = Script(str(file))
    with surroundings(script) as module:
        (job,) = run_script(script, module).queries
    assert job.sink.function is not None
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, folder)
    return Sink(job.sink.function, job.input, tuple(rows), None, host=host)


def tried(
    jvm: SparkJvm, folder: Path, program: str, fault: SinkFault, rows: Sequence[Any] = ROWS
) -> OneTrial:
    return SinkCheck(sink_of(jvm, folder, program, rows)).one(fault)


@pytest.mark.parametrize(
    ("kind", "effect", "twice"),
    [
        pytest.param(SinkFaultKind.KILL, 0, False, marks=pytest.mark.nightly),
        pytest.param(SinkFaultKind.KILL, 1, True, marks=pytest.mark.nightly),
        pytest.param(SinkFaultKind.KILL, 2, True, marks=pytest.mark.nightly),
        (SinkFaultKind.PAUSE, 0, True),
        pytest.param(SinkFaultKind.RESTART, 2, False, marks=pytest.mark.nightly),
    ],
)
def test_an_append_is_doubled_where_the_driver_dies_behind_it(
    jvm: SparkJvm, tmp_path: Path, kind: SinkFaultKind, effect: int, *, twice: bool
) -> None:
    trial = tried(jvm, tmp_path, PROGRAM, SinkFault(kind, 1, effect))
    assert [effect.action for effect in trial.undisturbed] == ["parquet append", "json overwrite"] * 3
    assert [finding.destination for finding in trial.findings] == [OUT] * twice
    assert sum(trial.left[OUT].values()) == 4 + twice
    assert {name for name in trial.left if name.startswith("s3a")} == {
        f"s3a://bucket/totals/{n}" for n in range(3)
    }
    assert not Path("/data/out").exists()


IN_JAVA = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")

def write(df, batch_id):
    known, mark = spark._jvm.java.lang.System, f"{os.getcwd()} {batch_id}"
    if not known.getProperty(mark):
        known.setProperty(mark, "written")
        df.write.mode("append").parquet("/data/out")

import os
payments.writeStream.foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""


@pytest.mark.cpu(60, "the Java of all tests in this folder ends here, and its time counts when it ends")
def test_what_a_driver_keeps_in_java_dies_with_it(jvm: SparkJvm, tmp_path: Path) -> None:
    before = jvm.gateway.proc
    trial = tried(jvm, tmp_path, IN_JAVA, SinkFault(SinkFaultKind.KILL, 0, 1), ROWS[:1])
    assert [finding.destination for finding in trial.findings] == [OUT]
    assert before.poll() is not None
    assert before.pid != jvm.gateway.proc.pid


NAMED = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sql("CREATE TABLE IF NOT EXISTS sales (id LONG, amount LONG) USING parquet")
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")
payments.writeStream.foreachBatch(lambda df, batch_id: df.write.insertInto("sales")).option(
    "checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""


@pytest.mark.nightly
def test_tables_that_are_known_by_name_outlive_java(jvm: SparkJvm, tmp_path: Path) -> None:
    trial = tried(jvm, tmp_path, NAMED, SinkFault(SinkFaultKind.KILL, 0, 1), ROWS[:2])
    assert ["once too often" in finding.story for finding in trial.findings] == [True]


@pytest.mark.nightly
def test_deaths_are_tried_once_more_with_java(jvm: SparkJvm, tmp_path: Path) -> None:
    # Java remembers the mark of a driver that died before it wrote, so that its rows are missing: the kill takes that back. It
    # forgets the mark of one that died behind that, whose rows are then there twice: the kill finds that.
    report = SinkCheck(sink_of(jvm, tmp_path, IN_JAVA, ROWS[:1])).run(overtaken=False)
    assert [finding.wrong for finding in report.findings] == [Wrong.TWICE]
    assert [why.partition(": ")[2].split(" in ")[0] for why in report.unknown] == ["missing", "twice"]
    assert (
        "crashes, 1 of them with a finding, were repeated with kill -9 of the driver and its Java: another outcome"
        in report.notes[-1]
    )


FENCED = """
from pyspark.sql import SparkSession

from headrace.spark import TableSink

spark = SparkSession.builder.getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")
payments.writeStream.foreachBatch(TableSink("out.sqlite", "payments")).option(
    "checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""


@pytest.mark.nightly
def test_epochs_of_a_fenced_sink_are_no_rows(jvm: SparkJvm, tmp_path: Path) -> None:
    trial = tried(jvm, tmp_path, FENCED, SinkFault(SinkFaultKind.KILL, 1, 0), ROWS[:2])
    assert trial.findings == ()
    assert sum(trial.left["out.sqlite: payments"].values()) == 3
