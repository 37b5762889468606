"""Throughput, latency and recovery of a count on real Spark, beside the same by hand (8.1's questions, asked of this machine).

PySpark is imported when an experiment runs and not before: a report without it needs none.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from headrace import MILLISECOND
from headrace_benchmarks.section8.experiment import Experiment, Sample

KEYS, RECORDS, TRIES, STOPS = 10_000, 500_000, 20, 5
THROUGHPUT, LATENCY, RECOVERY = "records/s", "latency, ms", "recovery, ms"
_THREADS = "local[2]"
JOBS = (
    "headrace, pipelined",
    "headrace, staged",
    "transformWithState by hand",
    "groupBy().count()",
)
"""Of `headrace_benchmarks.spark_beside.JOBS`."""


def sample(point: str, _seed: int) -> Sample:
    """Run one job."""
    from headrace.spark import session  # noqa: PLC0415  an extra
    from headrace_benchmarks.spark_beside import job_times  # noqa: PLC0415  imports PySpark

    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as place,
        session(_THREADS, "headrace report") as spark,
    ):
        found = job_times(spark, point, KEYS, RECORDS, Path(place), tries=TRIES, stops=STOPS)
    values = (
        (point, THROUGHPUT, found.records_per_s),
        (point, LATENCY, found.latency_us / MILLISECOND),
        (point, "longest latency, ms", max(found.latencies_us) / MILLISECOND),
        (point, RECOVERY, found.recovery_us / MILLISECOND),
    )
    return Sample(point, 0, values)


EXPERIMENT = Experiment(
    "spark",
    "8.1",
    "A count by key on Spark, and the same by hand: wall time",
    JOBS,
    (),
    sample,
    f"**Not simulated: wall time of the machine that wrote this report**, on {_THREADS}, once; {KEYS:,} keys. Records/s: of one"
    f" micro-batch of {RECORDS:,} records. Latency: from a single record's file to its count at the sink, median of {TRIES}."
    f" Recovery: from the start of a job that was stopped, with a record waiting, to that record's count, median of {STOPS};"
    " Spark itself runs already. Headrace and the job by hand give a count for each record; Spark's own aggregation can not,"
    " and gives one for each key of a micro-batch. Staged, a record goes through two micro-batches, the injector's and the"
    " computation's.",
    wall=True,
    wide=True,
    needs="pyspark",
)
