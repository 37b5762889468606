"""A program as it is on the real Spark, which dies at each of its effects; what it names is redirected into its trial."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace_sim.spark.client.scripts import Script, run_script, surroundings
from headrace_sim.spark.laboratory.driver import LaboratoryProgram
from headrace_sim.spark.laboratory.hosts import RealDrivers
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.trial import OneTrial, try_fault_of

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


def tried(
    jvm: SparkJvm, folder: Path, program: str, fault: SinkFault, rows: Sequence[Any] = ROWS
) -> OneTrial:
    file = folder / "stream.py"
    file.write_text(program)
    script = Script(str(file))
    with surroundings(script) as module:
        (job,) = run_script(script, module).queries
    assert job.sink.function is not None
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, folder)
    return try_fault_of(Sink(job.sink.function, job.input, tuple(rows), None, host=host), fault)


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
