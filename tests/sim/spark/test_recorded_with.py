"""Recorded outcomes of Spark say which release they are of."""

import json
import re
from pathlib import Path

import pytest

from tests.sim.spark import outcomes
from tests.sim.spark.bad_inputs import REFUSALS

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parents[2] / "constraints.txt"


def test_each_file_of_outcomes_is_of_the_pyspark_that_the_tests_run_on() -> None:
    pinned = re.findall(r"^pyspark==(.*)$", CONSTRAINTS.read_text(), re.MULTILINE)
    files = [REFUSALS, *HERE.glob("*_outcomes.json")]
    recorded = json.loads(outcomes.MANIFEST.read_text())
    assert recorded == {file.name: pinned[0] for file in files}, "record the others again, with WRITE=yes"


def test_what_is_recorded_is_noted_with_its_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MANIFEST", tmp_path / "recorded_with.json")
    outcomes.MANIFEST.write_text('{"b.json": "4.3.0"}')
    monkeypatch.setattr("pyspark.__version__", "4.4.1")
    outcomes.keep_if_asked(tmp_path / "b.json", {})
    assert json.loads(outcomes.MANIFEST.read_text()) == {"b.json": "4.3.0"}
    monkeypatch.setenv("WRITE", "yes")
    outcomes.keep_if_asked(tmp_path / "a.json", {"name": "é"})
    assert json.loads(outcomes.MANIFEST.read_text()) == {"a.json": "4.4.1", "b.json": "4.3.0"}
    assert json.loads((tmp_path / "a.json").read_text()) == {"name": "é"}
