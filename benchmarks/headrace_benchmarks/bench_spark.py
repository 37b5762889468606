"""CPU time per record of a count on Spark; throughput, latency and recovery of a job; the cost of a round, beside it by hand.

``make bench ARGS='-k "spark and count"'``, ``make bench ARGS='-k "spark and latency"'``, ``make bench ARGS='-k rounds'``,
``make bench ARGS='-k year'``.

Machines are noisy and differ: compare only figures of the same run.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pyspark
import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from headrace import MILLISECOND
from headrace.spark import run_recorded, session
from headrace_benchmarks.spark_counts import STREAMS, count_costs, cpu_us, job_times, round_costs
from headrace_properties.reference import run_reference
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_log import LogOptions, flight_log

_WHERE = f"Spark {pyspark.__version__}, Python {platform.python_version()}, {platform.machine()}, local[2]"
_SLOW = {("transformWithState, pandas", 10_000): 10, ("transformWithState, pandas", 200_000): 50}
"""Since a pandas frame for each key takes milliseconds."""
_JOB_KEYS, _JOB_RECORDS = 10_000, 500_000


def counts(spark: SparkSession, place: Path) -> Iterator[str]:
    """Measure a large micro-batch. Java's compilers are busy during the first round."""
    yield "microseconds per record, median of 3: CPU, wall"
    keys = (100, 10_000, 200_000)
    for cost in count_costs(spark, place, keys=keys, records=1_000_000, rounds=3, slow=_SLOW):
        # Negative if idle Python workers have ended meanwhile, since their earlier CPU time is then lost.
        cpu = f"{cost.cpu_us:>9.1f}" if cost.cpu_us > 0 else f"{'?':>9}"
        yield f"{cost.job:<28}{cost.keys:>9,} keys {cost.records:>10,} records{cpu}{cost.wall_us:>9.1f}"


def jobs(spark: SparkSession, place: Path) -> Iterator[str]:
    """Measure long-running jobs."""
    yield "records per second in one micro-batch; milliseconds from file to sink, and from restart to sink: medians"
    for job in STREAMS:
        found = job_times(spark, job, _JOB_KEYS, _JOB_RECORDS, place / job)
        times = "".join(
            f"{median(seconds) * 1_000:>9,.0f}" for seconds in (found.latencies_s, found.recoveries_s)
        )
        yield f"{job:<28}{_JOB_KEYS:>9,} keys{found.records_per_s:>12,.0f}{times}"


def rounds(spark: SparkSession, place: Path) -> Iterator[str]:
    """Measure small rounds on 1, 2 and 4 levels, and large ones on 2."""
    yield "seconds per round, medians: CPU, to the sink, until idle"
    small = round_costs(spark, place / "small", levels=(1, 2, 4), records=100, rounds=5)
    large = round_costs(spark, place / "large", levels=(2,), records=20_000, rounds=5)
    for found in sorted(small + large, key=lambda found: (found.records, found.levels)):
        cost, size = found.cost, f"{found.records:>7,} records{found.levels:>3} levels"
        yield f"{size}  {found.job:<26}{cost.cpu_s:>7.2f}{cost.sink_s:>7.2f}{cost.idle_s:>7.2f}"


def year(spark: SparkSession, _place: Path) -> Iterator[str]:
    """Run the flights of 2013 on the reference host and on Spark, all its processes together."""
    feed = flight_log(LogOptions(day_us=flights.SIMULATED_DAY_US)).feed(flights.pipeline)
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
    yield "the flights of 2013, CPU seconds"
    yield f"reference host {reference_s:.0f}, Spark {spark_s:.0f}: {spark_s / reference_s:.1f} times as much"


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(counts, id="count"),
        pytest.param(jobs, id="latency, throughput, recovery"),
        pytest.param(rounds, id="rounds"),
        pytest.param(year, id="year of flights"),
    ],
)
def test_beside_the_same_by_hand(
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    measure: Callable[[SparkSession, Path], Iterator[str]],
) -> None:
    """Print what is measured, in a session of its own."""
    compiler = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"} if measure is year else {}
    with session("local[2]", config=compiler) as spark:
        lines = benchmark.pedantic(lambda: [*measure(spark, tmp_path)], rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print("\n" + "\n  ".join([f"{_WHERE}, load {os.getloadavg()[0]:.1f}; {lines[0]}", *lines[1:]]))
