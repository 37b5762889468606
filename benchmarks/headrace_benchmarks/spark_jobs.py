"""``headrace paper bench spark-jobs``: schedules of a simulated Spark that are run and judged in a minute of one core.

Beside each stands PySpark's own ``TwsTester``, given the same rows in the same process: it calls the handlers of one key after
the other, without batches, failures or schemas. It needs the extra ``spark``, and no Java.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least

GOAL = 3_000
"""Judged schedules a minute and core."""
SCHEDULES = 1_000
QUICK_SCHEDULES = 50


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Measure each job."""
    from headrace_benchmarks.spark_small_jobs import JOBS, checked, tested  # noqa: PLC0415  PySpark is optional

    schedules = options.runs or (QUICK_SCHEDULES if options.quick else SCHEDULES)
    for number, (name, job) in enumerate(JOBS.items()):
        on_progress(f"schedules of {name}", number, len(JOBS))
        checked(job, 5, options.seed)  # what is imported late
        judged_s = _cpu_s(checked, job, schedules, options.seed)
        calls = 0

        def test(job: Any = job) -> None:
            nonlocal calls
            calls = sum(tested(job) for _ in range(schedules))

        tester_s = _cpu_s(test)
        detail = (
            f"{schedules:,} schedules, CPU time; TwsTester takes the same rows {60 * schedules / tester_s:,.0f} times a minute"
            f" ({1e6 * tester_s / calls:.0f} us a call), without batches, failures or schemas"
        )
        yield at_least(
            f"judged schedules: {name}", 60 * schedules / judged_s, GOAL, "a minute and core", detail=detail
        )


def _cpu_s(call: Callable[..., Any], *arguments: Any) -> float:
    began = time.process_time()
    call(*arguments)
    return time.process_time() - began


BENCHMARK = Benchmark(
    "spark-jobs",
    "schedules of simulated Spark jobs a minute, beside PySpark's TwsTester",
    measure,
    needs="pyspark",
)
