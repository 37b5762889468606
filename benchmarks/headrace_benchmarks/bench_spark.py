"""CPU time per record of a count on Spark; throughput, latency and recovery of a job; the cost of a round, beside it by hand.

``make bench ARGS='-k "spark and count"'``, ``make bench ARGS='-k "spark and latency"'``, ``make bench ARGS='-k rounds'``,
``make bench ARGS='-k year'``.

Machines are noisy and differ: compare only figures of the same run.
"""

import os
import platform
import shutil
import time
from itertools import product
from pathlib import Path

import pyspark
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace import MILLISECOND
from headrace.spark import run_recorded, session
from headrace_benchmarks import spark_beside
from headrace_benchmarks.spark_beside import JobTimes, job_times
from headrace_benchmarks.spark_count import JOBS, CountCost, count_cost, cpu_us
from headrace_benchmarks.spark_rounds import RoundCost, round_costs
from headrace_properties.reference import run_reference
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_log import LogOptions, flight_log

RECORDS = 1_000_000
KEYS = (100, 10_000, 200_000)
_WHERE = f"Spark {pyspark.__version__}, Python {platform.python_version()}, {platform.machine()}, local[2]"
_WARM_UP = 50_000
JOB_KEYS, JOB_RECORDS = 10_000, 500_000
COUNT_ROUNDS = 3
"""Java's compilers are busy during the first round."""
_SLOW = {("transformWithState, pandas", 10_000): 10, ("transformWithState, pandas", 200_000): 50}
"""Measured once, with fewer records and keys by this factor, since a pandas frame for each key takes milliseconds."""


def compare_counts(place: Path, records: int = RECORDS, rounds: int = COUNT_ROUNDS) -> list[CountCost]:
    """Run all jobs with all numbers of keys, on one session, several times; return the median cost of each, by CPU time."""
    found: dict[tuple[str, int], list[CountCost]] = {}
    with session("local[2]", "count") as spark:
        for number, job in enumerate(
            JOBS
        ):  # warm-up, so that the first job does not pay for Java's compilation
            count_cost(spark, job, 100, _WARM_UP, place / f"warm-up-{number}")
        for number, keys, job in product(range(rounds), KEYS, JOBS):
            part = _SLOW.get((job, keys), 1)
            if number and part > 1:
                continue
            where = place / f"{number}-{keys}-{len(found)}"
            cost = count_cost(spark, job, keys // part, records // part, where)
            found.setdefault((job, keys), []).append(cost)
            shutil.rmtree(where, ignore_errors=True)  # Spark may still maintain the state of its query
    return [sorted(costs, key=_cpu)[len(costs) // 2] for costs in found.values()]


def _cpu(cost: CountCost) -> float:
    return cost.cpu_us


def test_a_count_beside_the_same_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Print all costs."""
    costs = benchmark.pedantic(compare_counts, args=(tmp_path,), rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print(f"\n{_WHERE}; microseconds per record, median of {COUNT_ROUNDS}: CPU, wall")
        for cost in costs:
            size = f"{cost.keys:>9,} keys {cost.records:>10,} records"
            # Negative if idle Python workers have ended meanwhile, since their earlier CPU time is then lost.
            cpu = f"{cost.cpu_us:>9.1f}" if cost.cpu_us > 0 else f"{'?':>9}"
            print(f"  {cost.job:<28}{size}{cpu}{cost.wall_us:>9.1f}")


def compare_jobs(place: Path) -> list[JobTimes]:
    """Run all long-running jobs, on one session."""
    with session("local[2]", "jobs") as spark:
        return [
            job_times(spark, job, JOB_KEYS, JOB_RECORDS, place / str(number))
            for number, job in enumerate(spark_beside.JOBS)
        ]


def test_latency_throughput_and_recovery_beside_the_same_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Print all times."""
    found = benchmark.pedantic(compare_jobs, args=(tmp_path,), rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    load = os.getloadavg()[0]
    with capsys.disabled():
        print(f"\n{_WHERE}, load {load:.1f}")
        print(
            "records per second in one micro-batch; milliseconds from file to sink, and from restart to sink: medians"
        )
        for job in found:
            times = "".join(f"{us / 1_000:>9,.0f}" for us in (job.latency_us, job.recovery_us))
            print(f"  {job.job:<28}{job.keys:>9,} keys{job.records_per_s:>12,.0f}{times}")


ROUNDS = 5
SMALL, LARGE = 100, 20_000


def compare_rounds(place: Path, rounds: int = ROUNDS) -> list[RoundCost]:
    """Run all jobs with small rounds on 1, 2 and 4 levels, and with large ones on 2, on one session."""
    with session("local[2]", "rounds") as spark:
        small = round_costs(spark, place / "small", levels=(1, 2, 4), records=SMALL, rounds=rounds)
        return small + round_costs(spark, place / "large", levels=(2,), records=LARGE, rounds=rounds)


def test_rounds_of_a_job_beside_the_same_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Print all costs."""
    costs = benchmark.pedantic(compare_rounds, args=(tmp_path,), rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print(
            f"\n{_WHERE}, load {os.getloadavg()[0]:.1f}; seconds per round, medians: CPU, to the sink, until idle"
        )
        for cost in sorted(costs, key=lambda cost: (cost.records, cost.levels)):
            size = f"{cost.records:>7,} records{cost.levels:>3} levels"
            print(f"  {size}  {cost.job:<26}{cost.cpu_s:>7.2f}{cost.sink_s:>7.2f}{cost.idle_s:>7.2f}")


def compare_years() -> tuple[float, float]:
    """Run the flights of 2013 on the reference host and on Spark, all its processes together; return the CPU seconds of each."""
    feed = flight_log(LogOptions(day_us=flights.SIMULATED_DAY_US)).feed(flights.pipeline)
    began = time.process_time()
    expected = run_reference(flights.pipeline, feed).outputs
    reference_s = time.process_time() - began
    began = time.process_time()
    events = [(entry.address, entry.event) for entry in feed.entries]
    with session("local[2]", config={"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}) as spark:
        run = run_recorded(
            spark, flights.pipeline, events, batch_events=12_000, intervals=2, clock_us=100 * MILLISECOND
        )
        spark_s = time.process_time() - began + cpu_us(spark) / 1e6
    assert len(run.outputs) == expected.total()
    return reference_s, spark_s


def test_the_year_of_flights_beside_the_reference_host(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print both."""
    reference_s, spark_s = benchmark.pedantic(compare_years, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print(f"\n{_WHERE}, load {os.getloadavg()[0]:.1f}; the flights of 2013, CPU seconds")
        print(
            f"  reference host {reference_s:.0f}, Spark {spark_s:.0f}: {spark_s / reference_s:.1f} times as much"
        )
