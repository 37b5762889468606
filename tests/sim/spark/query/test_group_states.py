"""``applyInPandasWithState`` comes to what it came to on Spark 4.3, and what Spark refuses is refused."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException

from headrace.api.errors import HeadraceError
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.schedules import Schedule, draw_schedule
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import SparkJob
from tests.sim.spark.group_functions import CASES, FEED, INPUT, OUTCOMES, OUTPUT, STATE, grouped

RECORDED = json.loads(OUTCOMES.read_text())


def _job(name: str) -> SparkJob:
    def build(events: Any) -> Any:
        return grouped(events, name).writeStream.format("memory").queryName("q").start()

    return record(build, INPUT)


@pytest.mark.parametrize("name", CASES)
def test_function_has_the_outcome_recorded_on_spark(name: str) -> None:
    outcome, recorded = run_job(_job(name), FEED), RECORDED[name]
    outputs = {str(batch): sorted(map(list, rows)) for batch, rows in outcome.outputs.items()}
    timeouts = dict(outcome.timers[1])
    state = sorted(
        f"Row(key=Row(k={key[0]!r}), value=Row(groupState=Row(n={row[0]})"
        + (f", timeoutTimestamp={timeouts.get(key, -1)})" if name == "timed" else ")")
        for (_, key), row in outcome.state[1].items()
    )
    assert (outcome.failure, outputs, outcome.late) == (None, recorded["outputs"], recorded["late"])
    assert state == [text.partition(", partition_id")[0] for text in recorded["state"]]


def test_faults_change_nothing() -> None:
    job = _job("timed")
    calm = run_job(job, FEED)
    for seed in range(20):
        faults = draw_schedule(seed, job.partitions, FEED).faults
        struck = run_job(job, FEED, Schedule(faults=faults))
        assert (struck.outputs, struck.state, struck.timers) == (calm.outputs, calm.state, calm.timers)


def _frame(key: Any, frames: Any, state: Any) -> pd.DataFrame:
    return pd.DataFrame({"k": ["a"], "n": [1]})


def _columns(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"k": ["a"]})


def _texts(key: Any, frames: Any, state: Any) -> Iterator[str]:
    yield "a"


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_frame, "UDF_RETURN_TYPE"),
        (_columns, "RESULT_COLUMN_SCHEMA_MISMATCH"),
        (_texts, "iterator of pandas.DataFrame"),
    ],
)
def test_an_error_of_the_worker_ends_the_query(function: Any, told: str) -> None:
    def build(events: Any) -> Any:
        groups = events.groupBy("k")
        made = groups.applyInPandasWithState(function, OUTPUT, STATE, "append", "NoTimeout")
        return made.writeStream.format("memory").queryName("q").start()

    failure = run_job(record(build, INPUT), FEED).failure
    assert isinstance(failure, PySparkException)
    assert told in str(failure)


def test_timeout_of_event_time_needs_a_watermark() -> None:
    def build(events: Any) -> Any:
        made = events.groupBy("k").applyInPandasWithState(
            CASES["timed"][0], OUTPUT, STATE, "append", "EventTimeTimeout"
        )
        return made.writeStream.format("memory").queryName("q").start()

    with pytest.raises(HeadraceError, match="EventTime without a watermark"):
        run_job(record(build, INPUT), FEED)
