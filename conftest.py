"""What all of pytest's collection keeps to: code for Spark is left out where there is no PySpark, or with SPARK=no."""

import gc
import os
from importlib.util import find_spec

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import huge_pages

pytest_plugins = ["tests.skips", "tests.cpu", "tests.releases", "tests.rewriting"]

SPARK_TESTS = "tests/spark/"
LABORATORY = "tests/sim/spark/laboratory/"
OWN_SPARK = (
    "tests/spark/jobs/test_chaos.py",
    "tests/spark/runtime/test_elsewhere.py",
    "tests/spark/runtime/test_stderr.py",
    "tests/spark/jobs/test_stop.py",
)
"""They start Spark in processes of their own."""
LONGEST = (
    "tests/test_readme.py",
    "tests/cli/test_verify_laboratory.py",
    LABORATORY,
    "tests/properties/sinks/test_sink_check.py",
    "tests/planted/test_planted.py",
    "tests/properties/proof/mutants/test_mutants.py",
    "tests/cli/test_verify_spark.py",
    "tests/properties/sinks/test_baseline.py",
    "tests/properties/test_pytest_plugin.py",
    "tests/properties/spark_jobs/test_outcomes.py",
    "tests/cli/test_everyday.py",
    "tests/cli/test_verify.py",
    "tests/properties/sinks/test_table_sinks.py",
)
"""They begin first, after those on Spark, lest one process works on them long after the other has nothing left."""
os.environ.setdefault(
    "HEADRACE_REAL_SPARK", "no"
)  # lest a test starts it unawares: those that want it say so
WITHOUT_SPARK = os.environ.get("SPARK") == "no" or find_spec("pyspark") is None

NEEDS_SPARK = (
    "core/headrace/spark", "sim/headrace_sim/spark", "tests/spark", "tests/sim/spark", "tests/properties/spark_jobs",
    "tests/properties/sinks",
    "properties/headrace_properties/sinks", "properties/headrace_properties/spark_jobs",
    "properties/headrace_properties/search/spark_executors.py",
    "properties/headrace_properties/spark_trials.py", "properties/headrace_properties/query_search.py",
    "tests/properties/replays/prices.py", "tests/crash_points.py",
    "scenarios/headrace_scenarios/chaos", "cli/headrace_cli/reports/chaos_report.py",
    "benchmarks/headrace_benchmarks/spark_*",
    "tests/benchmarks/test_spark_jobs.py", "tests/cli/test_job_commands.py", "tests/cli/test_everyday.py",
    "tests/cli/test_verify_spark.py",
)  # fmt: skip
"""What cannot even be imported without PySpark."""

PEOPLES_JOBS = (
    "tests/properties/spark_jobs/corpus",
    "tests/properties/spark_jobs/corpus_modules",
    "tests/properties/spark_jobs/corpus_state",
)
"""Programs that start queries as soon as they are imported, and what they import."""
collect_ignore_glob = [*PEOPLES_JOBS, *(NEEDS_SPARK if WITHOUT_SPARK else ())]


def pytest_report_header() -> list[str]:
    """Say it, so that nobody takes what was left out for tested."""
    return ["without Spark: tests/spark and headrace.spark are left out"] if WITHOUT_SPARK else []


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in tests/spark; put the longest tests first; where Spark is left out, so are other tests that need it."""
    for item in items:
        if item.nodeid.startswith(SPARK_TESTS):
            item.add_marker(pytest.mark.spark)
        elif WITHOUT_SPARK and item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.skip(reason="it needs Spark"))
    items.sort(key=_place)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the tests, which live as long as the process, and forks share them for little."""
    gc.freeze()
    huge_pages.collapse()


def _place(item: pytest.Item) -> int:
    if _shares_spark(item.nodeid):
        return 0
    starts = (SPARK_TESTS, *LONGEST)
    return next(
        (place for place, start in enumerate(starts, 1) if item.nodeid.startswith(start)), len(starts) + 1
    )


def _shares_spark(nodeid: str) -> bool:
    return nodeid.startswith(SPARK_TESTS) and not nodeid.startswith(OWN_SPARK)


class WholeFiles(LoadScopeScheduling):
    """Files go to whatever process is free, so that what tests of a file share is made once; what shares a Spark, to one.

    (Marks ``xdist_group`` would say the same; xdist 3.8 loses them with pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        if _shares_spark(nodeid):
            return SPARK_TESTS
        if nodeid.startswith(LABORATORY):
            return LABORATORY
        return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    """Let the tests be dealt out so, in their order, whatever --dist says."""
    config.option.loadscopereorder = False
    return WholeFiles(config, log)
