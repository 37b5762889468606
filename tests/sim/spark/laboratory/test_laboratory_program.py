"""What a driver of the laboratory begins with. Spark itself is not needed."""

import importlib
import sys
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from headrace_sim.spark.client.scripts import Script
from headrace_sim.spark.laboratory.laboratory_program import forget_users_modules, run_program
from headrace_sim.spark.laboratory.watched_frames import closest

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java


def test_a_driver_imports_the_users_modules_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sessions_of_mine.py").write_text("CALLS = []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with patch.dict(sys.modules):
        importlib.import_module("sessions_of_mine").CALLS.append("in the simulation")
        known = set(sys.modules)
        forget_users_modules()
        assert {"pyspark", "pandas", "headrace", "headrace_sim", "pytest", "json"} & known <= set(sys.modules)
        assert importlib.import_module("sessions_of_mine").CALLS == []


def test_queries_that_threads_start_are_told_apart_by_what_they_say_and_then_by_their_order() -> None:
    waiting = [{"customers", "/lake/customers"}, {"deliveries", "/lake/deliveries"}, set[str]()]
    assert closest(waiting, ["parquet", "deliveries", "/lake/deliveries", len]) == 1
    assert closest(waiting, ["parquet"]) == 0


def test_a_notebook_has_its_dbutils_and_its_queries_go_on_where_it_exits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("table", "ledger")
    notebook = (
        "table = dbutils.widgets.get('table')\ndisplay(table)\ndbutils.notebook.exit('started')\nassert False"
    )
    variables = {"__code__": compile(notebook, "notebook.py", "exec")}
    query, probe = Mock(), Mock(attempt=0, ledger=Mock(entries=list))
    spark = Mock(streams=Mock(active=[query]))
    assert run_program(Script("notebook.py"), probe, variables, spark) == 0
    assert variables["table"] == "ledger"
    query.awaitTermination.assert_called_once_with()
