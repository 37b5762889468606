"""How many runs a second a search makes by who shares them, and what a million of them take.

``python -m headrace_benchmarks.spark_pools`` prints a line of JSON for each; ``--store`` keeps them in docs/report/pools.json,
from which ``python -m docs.scripts.tables`` makes the table of docs/explanation/search.md.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from headrace.spark import session
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.parallel import Jobs, cores
from headrace_properties.search.spark_executors import SparkExecutors
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search

STORED = Path(__file__).parents[2] / "docs" / "report" / "pools.json"
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
    found = search(Steering(WORKLOADS["tallies"].application), examples=runs, jobs=jobs)
    per_second = (found.runs + found.idle) / (time.monotonic() - began_s)
    hours = _MILLION / per_second / 3_600
    return {
        "shared by": name,
        "runs": f"{runs:,}",
        "runs a second": f"{per_second:.0f}",
        "a million, at that rate": f"{hours:.1f} h",
    }


def main() -> None:
    """Measure, print, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2_000, help="runs of each measurement; default: 2000")
    parser.add_argument("--store", action="store_true", help=f"put them in place of those in {STORED.name}")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]  # others at work on this machine make all of it slower
    rows = []
    for row in rates(arguments.runs):
        print(json.dumps(row), flush=True)
        rows.append(row)
    if arguments.store:
        how = f"`python -m headrace_benchmarks.spark_pools --runs {arguments.runs}`"
        how += f" (Python {platform.python_version()}, PySpark {pyspark.__version__}, {cores()} cores, load {load:.1f} before)"
        STORED.write_text(json.dumps({"measured": how, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
