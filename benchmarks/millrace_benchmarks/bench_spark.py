"""CPU time by record of a count on Spark, at 100, 10,000 and 200,000 keys; and what the layouts of a job cost.

``make bench ARGS='-k spark'``, or ``make bench ARGS='-k layouts'`` for the latter.

Machines are noisy and differ: only what stands beside each other in one run can be compared.
"""

import platform
from pathlib import Path

import pyspark
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from millrace.spark import Layout, session
from millrace_benchmarks.spark_count import JOBS, CountCost, count_cost
from millrace_benchmarks.spark_layouts import LayoutCost, layout_cost

RECORDS = 1_000_000
KEYS = (100, 10_000, 200_000)
_SLOW = {("transformWithState, pandas", 10_000): 10, ("transformWithState, pandas", 200_000): 50}
"""Measured with fewer records and keys, since a pandas frame for each key takes milliseconds; by how many times."""


def compare_counts(place: Path, records: int = RECORDS) -> list[CountCost]:
    """Run all jobs at all numbers of keys, on one session."""
    found: list[CountCost] = []
    with session("local[2]", "count") as spark:
        for keys in KEYS:
            for job in JOBS:
                part = _SLOW.get((job, keys), 1)
                where = place / f"{len(found)}"
                found.append(count_cost(spark, job, keys // part, records // part, where))
    return found


def test_a_count_beside_the_same_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Print all costs."""
    costs = benchmark.pedantic(compare_counts, args=(tmp_path,), rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    where = f"Spark {pyspark.__version__}, Python {platform.python_version()}, {platform.machine()}, local[2]"
    with capsys.disabled():
        print(f"\n{where}; microseconds by record: CPU, wall")
        for cost in costs:
            size = f"{cost.keys:>9,} keys {cost.records:>10,} records"
            print(f"  {cost.job:<28}{size}{cost.cpu_us:>9.1f}{cost.wall_us:>9.1f}")


ROUNDS = 8


def compare_layouts(place: Path, rounds: int = ROUNDS) -> list[LayoutCost]:
    """Run both layouts with small rounds and with large ones, on one session."""
    with session("local[2]", "layouts") as spark:
        return [
            layout_cost(spark, layout, records, rounds, place / f"{layout.value}-{records}")
            for records in (100, 20_000)
            for layout in Layout
        ]


def test_the_layouts_beside_each_other(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Print all costs."""
    costs = benchmark.pedantic(compare_layouts, args=(tmp_path,), rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    where = f"Spark {pyspark.__version__}, Python {platform.python_version()}, {platform.machine()}, local[2]"
    with capsys.disabled():
        print(f"\n{where}; seconds by round: CPU, wall (median, longest)")
        for cost in costs:
            size = f"{cost.records:>9,} records {cost.rounds:>3} rounds"
            print(
                f"  {cost.layout.value:<12}{size}{cost.cpu_s:>9.2f}{cost.median_s:>9.2f}{cost.longest_s:>9.2f}"
            )
