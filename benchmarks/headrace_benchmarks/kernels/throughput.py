"""Simulated deliveries: the engine on its cluster compared with a minimal loop, by size, and with and without a History."""

from functools import partial

from headrace_benchmarks.kernels import engine_alone
from headrace_benchmarks.kernels.rounds import Run
from headrace_benchmarks.shuffle import ShuffleOptions, run_shuffle

ENGINE, MINIMAL = "engine on the cluster", "a minimal engine loop"
SMALL, LARGE = "200 workers", "2,000 workers"
WITHOUT_HISTORY = "without a History"


def runs(records: int, seed: int) -> dict[str, Run]:
    """Return the runs by name, each with the same number of records."""
    return {
        ENGINE: lambda: run_shuffle(ShuffleOptions(records=records), seed).deliveries_per_second,
        MINIMAL: partial(engine_alone.minimal_rate, records),
        WITHOUT_HISTORY: lambda: (
            run_shuffle(ShuffleOptions(records=records, history=False), seed).deliveries_per_second
        ),
    }


def sizes(records: int, seed: int) -> dict[str, Run]:
    """Return a small run and one with ten times the workers and input, hence the same load. ``records``: of the small run."""
    small = ShuffleOptions(records=records)
    large = ShuffleOptions(
        records=10 * records,
        workers=10 * small.workers,
        injectors=10 * small.injectors,
        gap_us=small.gap_us // 10,
    )
    return {
        SMALL: lambda: run_shuffle(small, seed).deliveries_per_second,
        LARGE: lambda: run_shuffle(large, seed).deliveries_per_second,
    }
