"""In CI nothing is skipped that is not on the list."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import ALLOWED, is_allowed

ROOT = Path(__file__).parent.parent

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="there is no Chromium on this machine")
def test_of_a_page():
    pass

@pytest.mark.skip(reason="a deep search: HYPOTHESIS_PROFILE=nightly runs it")
def test_at_night():
    pass

def test_that_runs():
    pass
"""


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.skips", "-p", "xdist.plugin", *arguments]
    variables = os.environ | {"CI": "", "SPARK": "no", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment
    return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_skip_that_is_not_on_the_list_fails_ci_and_is_named(tmp_path: Path, processes: str) -> None:
    done = run(tmp_path, "-n", processes, CI="true")
    assert done.returncode == 1
    assert "test_of_a_page: there is no Chromium on this machine" in done.stdout
    assert "test_at_night" not in done.stdout


def test_elsewhere_a_skip_is_a_skip_and_ci_passes_with_those_that_are_on_the_list(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert run(tmp_path, "--deselect", "test_some.py::test_of_a_page", CI="true").returncode == 0


def test_a_file_that_is_skipped_whole_is_seen(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    done = run(tmp_path, "test_whole.py", "test_some.py::test_that_runs", CI="true")
    assert "test_whole.py: could not import 'no_such_module'" in done.stdout
    assert done.returncode == 1


def test_only_leaving_spark_out_excuses_what_needs_it() -> None:
    assert is_allowed("it needs Spark", without_spark=True)
    assert not is_allowed("it needs Spark", without_spark=False)
    assert not is_allowed("could not import 'matplotlib': No module named 'matplotlib'", without_spark=True)


def test_every_allowed_skip_says_why() -> None:
    assert [allowed.reason for allowed in ALLOWED if len(allowed.why) < 20] == []
