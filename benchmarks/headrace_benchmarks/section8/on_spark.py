"""Throughput, latency and recovery of a count on real Spark, compared with hand-written jobs (8.1's questions on this machine).

PySpark is imported only when the experiment runs: other reports do not need it.
"""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from headrace_benchmarks.section8.experiment import Experiment, RunSample

KEYS, RECORDS, TRIES, STOPS = 10_000, 500_000, 20, 5
THROUGHPUT, LATENCY, RECOVERY = "records/s", "latency, ms", "recovery, ms"
_THREADS = "local[2]"
JOBS = (
    "headrace",
    "transformWithState by hand",
    "groupBy().count()",
)
"""Names in `headrace_benchmarks.spark_counts.STREAMS`."""


def sample(point: str, _seed: int) -> RunSample:
    """Measure one job."""
    from headrace.spark import session  # noqa: PLC0415  an extra
    from headrace_benchmarks.spark_counts import job_times  # noqa: PLC0415  imports PySpark

    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as place,
        session(_THREADS, "headrace paper report") as spark,
    ):
        times = job_times(spark, point, KEYS, RECORDS, Path(place), tries=TRIES, stops=STOPS)
    values = (
        (point, THROUGHPUT, times.records_per_s),
        (point, LATENCY, median(times.latencies_s) * 1_000),
        (point, "longest latency, ms", max(times.latencies_s) * 1_000),
        (point, RECOVERY, median(times.recoveries_s) * 1_000),
    )
    return RunSample(point, 0, values)


EXPERIMENT = Experiment(
    "spark",
    "8.1",
    "A count by key on Spark, with Headrace and by hand: wall time",
    JOBS,
    (),
    sample,
    f"**Not simulated: wall time on the machine that wrote this report**, one run on {_THREADS} with {KEYS:,} keys. Records/s is"
    f" the throughput of one micro-batch of {RECORDS:,} records. Latency is the time from a single record's file to its count at"
    f" the sink, median of {TRIES}. Recovery is the time from the restart of a stopped job, with a record waiting, to that"
    f" record's count, median of {STOPS}; Spark itself is already running. Headrace and the hand-written `transformWithState`"
    " output a count for each record; Spark's own aggregation cannot, and outputs one for each key of a micro-batch.",
    wall=True,
    wide=True,
    needs="pyspark",
)
