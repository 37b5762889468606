"""A function or a `SparkJob` instead of a program: a driver starts its query on the real Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace_properties.sinks.sink_check import SinkCheck
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.laboratory.called import Called, stepped
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.real_drivers import RealDrivers
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.spark_job import MapInPandas, SparkJob, SparkJobError, SparkSink

pytestmark = pytest.mark.spark

SCHEMA = "id LONG, amount LONG"
PAYMENTS = (((1, 10), (2, 20)), ((3, 30),))
NIGHTLY = pytest.mark.nightly


def append(df: Any, batch_id: int) -> None:
    del batch_id
    df.write.mode("append").parquet("/out")


def overwrite(df: Any, batch_id: int) -> None:
    df.write.mode("overwrite").parquet(f"/out/batch={batch_id}")


def large(payments: Any) -> Any:
    return payments.where("amount > 15")


def starts(spark: SparkSession, payments: Any, refunds: Any) -> None:
    assert spark.range(2).count() == 2
    negative = refunds.select("id", (-F.col("amount")).alias("amount"))
    payments.union(negative).writeStream.foreachBatch(append).start()


def doubled(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        yield frame.assign(amount=frame.amount * 2)


SINK = SparkJob(parse_schema(SCHEMA), sink=SparkSink(append))
BY_HAND = SparkJob(
    parse_schema(SCHEMA),
    (MapInPandas(doubled, parse_schema(SCHEMA)),),
    SparkSink(overwrite),
)


def recorded(found: Any) -> tuple[Called, SparkJob]:
    if isinstance(found, SparkJob):
        called = Called(found, "", job=found)
        return called, called.query(found)
    called = Called(found, "", SCHEMA)
    return called, called.query(record(found, SCHEMA))


@pytest.mark.parametrize(
    ("found", "rows", "left", "twice"),
    [
        pytest.param(SINK, PAYMENTS, {(1, 10), (2, 20), (3, 30)}, 1, id="sink"),
        pytest.param(BY_HAND, PAYMENTS, {(1, 20), (2, 40), (3, 60)}, 0, id="by_hand", marks=NIGHTLY),
        pytest.param(
            lambda payments: large(payments).writeStream.foreachBatch(append), PAYMENTS, {(2, 20), (3, 30)}, 1,
            id="writer", marks=NIGHTLY,
        ),
        pytest.param(
            starts, ((((1, 10), None), (None, (7, 5))), (((3, 30), None),)), {(1, 10), (3, 30), (7, -5)}, 1,
            id="two_streams", marks=NIGHTLY,
        ),
    ],
)  # fmt: skip
def test_query_of_a_function_dies_behind_its_write(
    jvm: SparkJvm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: Callable[..., Any] | SparkJob,
    rows: Any,
    left: set[tuple[int, int]],
    twice: int,
) -> None:
    monkeypatch.setattr(Called, "file", tmp_path)  # modules beside this one speak to PostgreSQL
    called, job = recorded(found)
    host = RealDrivers(LaboratoryProgram(called, (job,)), jvm, tmp_path)
    fault = SinkFault(SinkFaultKind.KILL, 1, 1)
    trial = SinkCheck(Sink(job.sink.function, job.input, rows, None, host=host)).one(fault)
    assert [finding.destination for finding in trial.findings] == ["/out"] * twice
    written = (item for name, items in trial.left.items() if name.startswith("/out") for item in items)
    values = (dict(item) for item in written if isinstance(item, tuple))
    assert {(int(row["id"]), int(row["amount"])) for row in values} == left


def test_step_that_only_the_simulation_computes_is_refused() -> None:
    (step,) = record(large, SCHEMA).steps
    with pytest.raises(SparkJobError, match="Name the function that builds the job"):
        stepped(None, step)
