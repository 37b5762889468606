"""Headrace's host on Spark beside the same by hand: the benchmarks ``spark-counts``, ``-latency``, ``-rounds`` and ``-year``.

Machines are noisy and differ: compare only figures of the same run. PySpark is imported only when one of them runs.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from headrace import MILLISECOND
from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress
from headrace_properties.reference import run_reference
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_log import LogOptions, flight_log

_SLOW = {("transformWithState, pandas", 10_000): 10, ("transformWithState, pandas", 200_000): 50}
"""Since a pandas frame for each key takes milliseconds."""
_JOB_KEYS, _JOB_RECORDS = 10_000, 500_000


def counts(spark: Any, place: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure a large micro-batch, by CPU time. Java's compilers are busy during the first round."""
    from headrace_benchmarks.spark_counts import count_costs  # noqa: PLC0415  imports PySpark

    keys, records, rounds = ((100,), 20_000, 1) if quick else ((100, 10_000, 200_000), 1_000_000, 3)
    for cost in count_costs(spark, place, keys=keys, records=records, rounds=rounds, slow=_SLOW):
        # Not above 0 if idle Python workers have ended meanwhile, since their earlier CPU time is then lost.
        detail = f"{cost.records:,} records; wall time {cost.wall_us:.1f} us; the median of {rounds}"
        yield Figure(
            f"{cost.job}, {cost.keys:,} keys", cost.cpu_us, "us of CPU time per record", detail=detail
        )


def latency(spark: Any, place: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure long-running jobs."""
    from headrace_benchmarks.spark_counts import STREAMS, job_times  # noqa: PLC0415  imports PySpark

    keys, records = (100, 5_000) if quick else (_JOB_KEYS, _JOB_RECORDS)
    for job in STREAMS:
        times = job_times(spark, job, keys, records, place / job)
        for what, seconds in (("file to sink", times.latencies_s), ("restart to sink", times.recoveries_s)):
            yield Figure(
                f"{job}, from {what}",
                median(seconds) * 1_000,
                "ms of wall time",
                detail=f"the median of {len(seconds)}",
            )
        yield Figure(f"{job}, throughput", times.records_per_s, "records per wall second", detail=f"{keys:,} keys")  # fmt: skip


def rounds(spark: Any, place: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure small rounds on 1, 2 and 4 levels, and large ones on 2."""
    from headrace_benchmarks.spark_counts import round_costs  # noqa: PLC0415  imports PySpark

    for levels, records in (((1, 2, 4), 100), ((2,), 20_000)):
        size = {"levels": levels[:1], "rounds": 1} if quick else {"levels": levels, "rounds": 5}
        for measured in round_costs(spark, place / str(records), records=records, **size):
            cost = measured.cost
            yield Figure(
                f"{measured.job}, {records:,} records, {measured.levels} levels", cost.cpu_s, "s of CPU time a round",
                detail=f"wall time to the sink {cost.sink_s:.2f} s, until idle {cost.idle_s:.2f} s; medians",
            )  # fmt: skip


def year(spark: Any, _place: Path, *, quick: bool) -> Iterator[Figure]:
    """Run the flights of 2013 on the reference host and on Spark, all its processes together."""
    from headrace.spark import run_recorded  # noqa: PLC0415  an extra
    from headrace_benchmarks.spark_counts import cpu_us  # noqa: PLC0415  imports PySpark

    carriers = ("AS",) if quick else ()
    feed = flight_log(LogOptions(day_us=flights.SIMULATED_DAY_US, carriers=carriers)).feed(flights.pipeline)
    began = time.process_time()
    expected = run_reference(flights.pipeline, feed).outputs
    reference_s = time.process_time() - began
    began = time.process_time()
    events = [(entry.address, entry.event) for entry in feed.entries]
    run = run_recorded(
        spark, flights.pipeline, events, batch_events=12_000, intervals=2, clock_us=100 * MILLISECOND
    )
    spark_s = time.process_time() - began + cpu_us(spark) / 1e6
    assert len(run.outputs) == expected.total()
    detail = f"{spark_s:.0f} and {reference_s:.0f} s of CPU time"
    yield Figure("Spark, relative to the reference host", spark_s / reference_s, "times", detail=detail)


def _measured(
    measure: Callable[..., Iterator[Figure]],
    config: dict[str, str],
    options: BenchOptions,
    on_progress: OnProgress,
) -> Iterator[Figure]:
    """Measure in a session and a directory of its own."""
    from headrace.spark import session  # noqa: PLC0415  an extra

    with TemporaryDirectory(ignore_cleanup_errors=True) as place, session("local[2]", config=config) as spark:
        for number, figure in enumerate(measure(spark, Path(place), quick=options.quick)):
            on_progress(figure.name, number, number + 1)
            yield figure


BENCHMARKS = tuple(
    Benchmark(name, title, partial(_measured, measure, config), needs="pyspark")
    for name, title, measure, config in (
        (
            "spark-counts",
            "a count by key on Spark, beside the same by hand: CPU time of a record",
            counts,
            {},
        ),
        ("spark-latency", "the same as a job: throughput, latency and recovery", latency, {}),
        ("spark-rounds", "the same, level after level: what a round costs", rounds, {}),
        (
            "spark-year",
            "the year of flights on Spark, beside the reference host",
            year,
            {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"},
        ),
    )
)
