"""A record that does not parse, has a null, or a time of the far future is told where a query breaks on it, and only there."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.odd_records import told_of_odd_records
from headrace_properties.spark_jobs.outcomes import check_job, without_sink
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import SparkJob, SparkSink, WatermarkStep
from tests.properties.spark_jobs.planted import FEED, MENDED, Processor, SumByMinute, job, minute_of
from tests.properties.spark_jobs.test_unions import FEED as STREAMS
from tests.properties.spark_jobs.test_unions import SCHEMA, hourly
from tests.sim.spark.apart import call


class CountsToTheLatest(Processor):
    """Fills each minute between two rows of a key."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        minutes = sorted({minute_of(row) for row in rows if row.at is not None})
        for minute in range(minutes[0], minutes[-1], 60_000) if minutes else ():
            self.sum.updateValue((minute,), (0,))
        yield from ()


class LeavesOutNulls(SumByMinute):
    """Adds what is a number, at a time."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        good = [row for row in rows if row.at is not None and row.n is not None]
        yield from super().handleInputRows(key, iter(good), timerValues)


def _told(query: SparkJob) -> list[str]:
    return [*told_of_odd_records(query, FEED, run_job(query, FEED), spoiled=True)]


def test_row_of_the_far_future_and_a_null_are_told_with_their_lines() -> None:
    future, null = _told(MENDED)
    assert "behind one row of the year 2100, " in future
    assert "more are dropped as late" in future
    assert "one bad record, such as ('a', None, 1), ends the query with " in null
    assert "planted.py:" in null


@pytest.mark.parametrize("policy", ["min", "max"])
def test_stream_that_rests_is_told_where_it_holds_the_watermark(policy: str) -> None:
    def both(spark: Any, left: Any, right: Any) -> Any:
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
        return hourly(left, right)

    told = call(_told_of_streams, both)
    resting = [line for line in told if "while the stream left has no rows, nothing comes out" in line]
    assert len(resting) == (policy == "min")


def _told_of_streams(build: Any) -> list[str]:
    target = spark_target("both", build, schemas={"left": SCHEMA, "right": SCHEMA}, feed=STREAMS)
    return [*told_of_odd_records(without_sink(target.job), target.feed, target.outcome(), spoiled=True)]


def test_job_that_leaves_out_nulls_and_has_no_watermark_is_told_nothing() -> None:
    without = job(LeavesOutNulls())
    steps = tuple(step for step in without.steps if not isinstance(step, WatermarkStep))
    assert _told(replace(without, steps=steps)) == []


def _opens_a_database(_df: Any, _batch: int) -> None:
    with sqlite3.connect("rows.db"):
        pass


def test_what_a_sink_may_do_in_its_own_trials_only_is_no_fault_of_a_record() -> None:
    """A refusal of ours was told as what ends the query."""
    query = replace(MENDED, sink=SparkSink(_opens_a_database))
    assert not [note for note in check_job(query, FEED, schedules=10).notes if "Refused" in note]


def test_code_that_counts_up_to_the_far_future_is_told() -> None:
    told = _told(job(CountsToTheLatest()))
    assert "one row of the year 2100, such as " in told[0]
    assert "ends the query with" in told[0]
