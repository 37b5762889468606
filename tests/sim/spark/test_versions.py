"""Other releases of PySpark than the newest: what is refused, and what is the same. The rest runs by `make conformance`."""

import subprocess
import sys

import pytest
from pyspark.errors import AnalysisException

from headrace_sim.spark import versions


def test_host_says_which_pyspark_it_needs_and_what_works_without() -> None:
    code = "import pyspark; pyspark.__version__ = '3.5.9'; import headrace.spark; from headrace.spark import session"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "headrace.spark.errors.PySparkVersionError: headrace.spark runs pipelines on PySpark 4.3 or newer, and 3.5.9 is "
        "installed. Install it: pip install 'pyspark>=4.3'. "
        "(headrace verify and replay take Spark jobs with PySpark 4.0 and newer)"
    )


def test_stateful_processor_is_refused_where_pyspark_cannot_run_it_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "UdfUtils", None)
    with pytest.raises(
        versions.PySparkTooOldError, match=r"transformWithState is followed with PySpark 4\.1 or newer"
    ):
        versions.expect_stateful()


def test_errors_of_spark_have_its_message_and_condition() -> None:
    error = versions.spark_error(
        AnalysisException, "No such column", "UNRESOLVED_COLUMN", {"objectName": "x"}
    )
    assert versions.condition_of(error) == ("UNRESOLVED_COLUMN" if versions.VERSION >= (4, 0) else "")
    assert str(error) == "[UNRESOLVED_COLUMN] No such column"
