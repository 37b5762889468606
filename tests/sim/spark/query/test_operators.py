"""Spark's own stateful operators: what they come to, batch by batch, is what is recorded of Spark."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import SparkJob, SparkJobError, WatermarkPolicy
from tests.sim.spark.operated import CASES, OPERATED, Operated, told
from tests.sim.spark.processors import INPUT

RECORDED: dict[str, Any] = json.loads(OPERATED.read_text())


def job_of(case: Operated) -> SparkJob:
    def build(left: Any, right: Any) -> Any:
        return case.build(left, right).writeStream.outputMode(case.mode).start()

    return replace(record(build, INPUT), policy=WatermarkPolicy(case.policy))


def feed_of(case: Operated, job: SparkJob) -> list[list[tuple[Any, ...]]]:
    batches = list(map(case.rows, range(len(case.left))))
    if job.input.names == INPUT.names:
        return [left for left, _ in batches]
    return [[*((row, None) for row in left), *((None, row) for row in right)] for left, right in batches]


def simulated(case: Operated) -> dict[str, Any]:
    job = job_of(case)
    feed = feed_of(case, job)
    outcome = run_job(job, feed, Schedule(idle_after=frozenset(range(len(feed)) if case.pauses else ())))
    if outcome.failure is not None:
        raise outcome.failure
    watermarks = [batch.watermark_ms for batch in outcome.batches]
    return {"outputs": told(outcome.outputs), "watermarks": watermarks}


@pytest.mark.parametrize("name", [name for name, told in RECORDED.items() if "refused" not in told])
def test_operator_has_the_outcome_recorded_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated(CASES[name]))) == RECORDED[name]


@pytest.mark.parametrize("name", [name for name, told in RECORDED.items() if "refused" in told])
def test_what_spark_refuses_is_refused(name: str) -> None:
    condition = RECORDED[name]["refused"]
    with pytest.raises(SparkJobError) as refused:
        simulated(CASES[name])
    assert ("AnalysisException" if condition.startswith("_LEGACY") else condition) in str(refused.value)


def test_join_with_a_table_knows_columns_of_one_name_by_their_frames() -> None:
    def build(left: Any, _: Any) -> Any:
        table = left.sparkSession.createDataFrame([("a", "Ann")], "k STRING, name STRING")
        return left.join(table, left.k == table["k"]).select("name", "n")

    assert simulated(Operated(build))["outputs"][0] == [["Ann", 1], ["Ann", 4]]


def test_all_cases_are_recorded() -> None:
    assert list(RECORDED) == list(CASES)
