"""What all of pytest's collection keeps to: code for Spark is left out where there is no PySpark, or with SPARK=no."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

WITHOUT_SPARK = os.environ.get("SPARK") == "no" or find_spec("pyspark") is None

collect_ignore = ["core/millrace/spark", "tests/spark"] if WITHOUT_SPARK else []
collect_ignore_glob = ["scenarios/millrace_scenarios/chaos_*", "cli/millrace_cli/_chaos_*"] if WITHOUT_SPARK else []


def pytest_report_header() -> list[str]:
    """Say it, so that nobody takes what was left out for tested."""
    return ["without Spark: tests/spark and millrace.spark are left out"] if WITHOUT_SPARK else []


@pytest.hookimpl(tryfirst=True)  # before -m chooses and xdist groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in tests/spark, and keep it in one process: it shares a session, and Java has threads of its own."""
    spark = Path(__file__).parent / "tests" / "spark"
    for item in items:
        if item.path.is_relative_to(spark):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
