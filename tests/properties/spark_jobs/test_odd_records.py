"""A record that does not parse, has a null, or a time of the far future is told where a query breaks on it, and only there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import Row

from headrace_properties.spark_jobs.odd_records import told_of_odd_records
from headrace_sim.spark.job import SparkJob
from headrace_sim.spark.query.queries import run_job
from tests.properties.spark_jobs.planted import FEED, MENDED, Processor, SumByMinute, job, minute_of


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
    return [*told_of_odd_records(query, FEED, run_job(query, FEED))]


def test_row_of_the_far_future_and_a_null_are_told_with_their_lines() -> None:
    future, null = _told(MENDED)
    assert "behind one row of the year 2100, " in future
    assert "more are dropped as late" in future
    assert "one bad record, such as ('a', None, 1), ends the query with " in null
    assert "planted.py:" in null


def test_job_that_leaves_out_nulls_and_has_no_watermark_is_told_nothing() -> None:
    without = job(LeavesOutNulls())
    steps = tuple(step for step in without.steps if type(step).__name__ != "Watermark")
    assert _told(replace(without, steps=steps)) == []


def test_code_that_counts_up_to_the_far_future_is_told() -> None:
    told = _told(job(CountsToTheLatest()))
    assert "one row of the year 2100, such as " in told[0]
    assert "ends the query with" in told[0]
