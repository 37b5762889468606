"""The speed of judged schedules: what is measured, not how much it is."""

from headrace_benchmarks.figures import BenchOptions
from headrace_benchmarks.spark_jobs import measure
from headrace_benchmarks.spark_small_jobs import FEED, JOBS
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_job


def test_small_jobs_hold_except_where_intended() -> None:
    for job in JOBS.values():
        report = check_job(
            job.spark_job(), FEED, schedules=10, allow=(Cause.BATCHING, Cause.GROWTH, Cause.LATE)
        )
        assert (report.findings, report.unknown) == ((), ())


def test_each_job_is_measured_beside_the_tester() -> None:
    figures = list(measure(BenchOptions(runs=3), lambda *_: None))
    assert [figure.name for figure in figures] == [f"judged schedules: {name}" for name in JOBS]
    assert all("TwsTester takes the same rows" in figure.detail for figure in figures)
