"""What a driver of the laboratory begins with. Spark itself is not needed."""

import importlib
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from headrace_sim.spark.laboratory.driver import forget_users_modules

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
