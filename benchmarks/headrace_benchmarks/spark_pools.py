"""How many runs a second a search makes by who shares them, and what a million of them take."""

import time
from collections.abc import Iterator

from headrace.spark import session
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.parallel import Jobs, cores
from headrace_properties.search.spark_executors import SparkExecutors
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search

_MILLION = 1_000_000


def rates(runs: int) -> Iterator[dict[str, str]]:
    """Measure processes of this machine and executors, one core each, from one up to all cores."""
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= cores()]
    for count in counts:
        yield _rate(f"`--jobs {count}`", runs, count)
    for count in counts:
        master = f"local-cluster[{count},1,1024]"
        with session(master, "headrace pools") as spark:
            executors = SparkExecutors(spark.sparkContext)
            search(
                Steering(WORKLOADS["tallies"].application), examples=64, jobs=executors
            )  # their processes have started
            yield _rate(f"`--master '{master}'`", runs, executors)


def _rate(name: str, runs: int, jobs: Jobs) -> dict[str, str]:
    began_s = time.monotonic()
    result = search(Steering(WORKLOADS["tallies"].application), examples=runs, jobs=jobs)
    per_second = (result.runs + result.idle) / (time.monotonic() - began_s)
    hours = _MILLION / per_second / 3_600
    return {
        "shared by": name,
        "runs": f"{runs:,}",
        "runs a second": f"{per_second:.0f}",
        "a million, at that rate": f"{hours:.1f} h",
    }
