"""Spellings of a key that are one here and two there are asked; if their author says that they are one, they are violated."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

from headrace_properties.findings import Finding, FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_sim.deliveries import UNSAID, FeedSource
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.spark_job import SparkJob

FEED = [[("ann", 1), ("bob", 2)], [("ann", 3), ("ann", 4)], [("bob", 5)]]
ONE, TWO = FeedSource(keys_alike=True), FeedSource(keys_alike=False)
_Job = Callable[[Any], Any]


def _updates(counts: Any) -> Any:
    return counts.writeStream.outputMode("update").format("memory").queryName("counts").start()


def one_row_for_each_spelling_then_counted_as_one(rows: Any) -> Any:
    once = rows.dropDuplicates(["name"])
    return _updates(once.groupBy(F.lower(F.trim("name")).alias("name")).count())


def as_they_are_written(rows: Any) -> Any:
    return _updates(rows.groupBy("name").count())


def normalized_first(rows: Any) -> Any:
    names = rows.withColumn("name", F.lower(F.trim("name")))
    return _updates(names.dropDuplicates(["name"]).groupBy("name").count())


def by_case_alone(rows: Any) -> Any:
    return _updates(rows.groupBy(F.lower("name").alias("name")).agg(F.sum("n")))


def _states(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = sum(int(frame["n"].sum()) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((total,))
    yield pd.DataFrame({"name": [key[0].strip().lower()], "n": [total]})


def named_in_lower_case_behind_its_own_state(rows: Any) -> Any:
    totals = rows.groupBy("name").applyInPandasWithState(
        _states, "name STRING, n LONG", "total LONG", "update", "NoTimeout"
    )
    return _updates(totals)


def _found(job: _Job, source: FeedSource) -> tuple[SparkJob, list[Finding]]:
    declares = Declares(source=source, bounded_by="names", running=True)
    target = spark_target("job", job, schemas="name STRING, n INT", feed=FEED, declares=declares)
    report = check_job(target.job, FEED, schedules=2)
    return target.job, [found for found in report.findings if found.kind.name == Cause.ALIKE.value]


@pytest.mark.parametrize(
    ("job", "source", "claim"),
    [
        (one_row_for_each_spelling_then_counted_as_one, UNSAID, FindingClass.UNDECLARED),
        (one_row_for_each_spelling_then_counted_as_one, ONE, FindingClass.VIOLATED),
        (one_row_for_each_spelling_then_counted_as_one, TWO, None),
        (as_they_are_written, UNSAID, None),
        (as_they_are_written, ONE, FindingClass.VIOLATED),
        (normalized_first, UNSAID, None),
        (normalized_first, ONE, None),
        (by_case_alone, UNSAID, None),
        (by_case_alone, ONE, FindingClass.VIOLATED),  # with a blank at its end it is another
        (named_in_lower_case_behind_its_own_state, UNSAID, FindingClass.UNDECLARED),
    ],
)
def test_spellings_of_a_key_are_one_or_two_throughout(
    job: _Job, source: FeedSource, claim: FindingClass | None
) -> None:
    tried, found = _found(job, source)
    assert [finding.finding_class for finding in found] == ([] if claim is None else [claim])
    for finding in found:
        again = check_again(tried, FEED, finding.trial)
        assert again is not None
        assert again.message == finding.message
