"""Simulated deliveries a second: the engine on its cluster beside the lean models, all in one run (``make bench``).

Machines are noisy and differ: only the ratios mean something.
"""

import platform
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from millrace_benchmarks.lean_model import HeapKernel, LeanOptions, SimpyKernel, run_bare, run_rich
from millrace_benchmarks.shuffle import ShuffleOptions, run_shuffle

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """One row. ``per_second``: median of simulated deliveries in a second of CPU time."""

    name: str
    per_second: float


RUNS: dict[str, Callable[[], float]] = {
    "engine on the cluster": lambda: run_shuffle().deliveries_per_second,
    "rich lean model, SimPy": lambda: run_rich(LeanOptions(), SimpyKernel()).deliveries_per_second,
    "rich lean model, bare heap": lambda: run_rich(LeanOptions(), HeapKernel()).deliveries_per_second,
    "bare model, SimPy": lambda: run_bare(LeanOptions(), SimpyKernel()).deliveries_per_second,
}


def compare_deliveries(rounds: int = ROUNDS) -> list[Rate]:
    """Run all in turn, several times, so that a machine that changes its speed changes it for all."""
    found: dict[str, list[float]] = {name: [] for name in RUNS}
    for _ in range(rounds):
        for name, run in RUNS.items():
            found[name].append(run())
    return [Rate(name, statistics.median(rates)) for name, rates in found.items()]


def test_deliveries_beside_the_lean_models(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print all rates, and the engine's as a part of each."""
    rates = benchmark.pedantic(compare_deliveries, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    engine, options = rates[0].per_second, ShuffleOptions()
    with capsys.disabled():
        print(
            f"\nseed 0, Python {platform.python_version()}, {platform.machine()}; deliveries per CPU second, ratio"
        )
        print(
            f"engine: commits_in_flight={options.commits_in_flight}, commit_linger_us={options.commit_linger_us:,}; else defaults"
        )
        for rate in rates:
            print(f"  {rate.name:<28}{rate.per_second:>10,.0f}{engine / rate.per_second:>8.2f}")
