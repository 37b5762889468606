"""A job that processes what its input has now, and ends; the next one goes on behind it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import SECOND, OptionsError
from headrace.spark import QueryStoppedError
from tests.spark.jobs.test_changes import Job, counter_last

pytestmark = pytest.mark.spark


def test_a_job_ends_when_its_input_has_been_processed_and_the_next_resumes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two letters, each a micro-batch of its own; then one more for the next run."""
    job = Job(spark, tmp_path, files_in_batch=1)
    job.put(1)
    job.put(2)
    with job.deploy(counter_last(), available_now=True, intervals=1) as running:
        assert running.await_termination()
        assert running.errors == ()
        with pytest.raises(QueryStoppedError):
            running.await_idle()
    assert job.values == {"counts": [1, 2]}
    job.put(3)
    with job.deploy(counter_last(), available_now=True, intervals=1) as running:
        assert running.await_termination()
    assert job.values == {"counts": [1, 2, 3]}


def test_what_never_ends_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path / "other")
    for options in ({"clock_us": SECOND}, {"trigger_us": SECOND}):
        with pytest.raises(OptionsError, match=next(iter(options))):
            job.deploy(counter_last(), available_now=True, **options)
