"""`headrace job submit` gives PySpark's own spark-submit what it needs, and gives back how that ended."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace.spark.runtime.java
from headrace.spark import spark_submit
from headrace.spark.runtime.spark_session import worker_path
from headrace_cli.main import app

# Stands in for PySpark's: it tells what it was given.
TELLING = f"""#!{sys.executable}
import json, os, sys
told = {{name: os.environ.get(name) for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")}}
print(json.dumps([sys.argv[1:], told]))
sys.exit(7)
"""
WAITING = """#!/bin/sh
trap 'echo terminated; exit 143' TERM
echo begun
while :; do sleep 0.1; done
"""


def stand_in(folder: Path, text: str) -> dict[str, str]:
    """Make a SPARK_HOME with this spark-submit, and the environment in which it is taken."""
    script = folder / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(text)
    script.chmod(0o755)
    return {"SPARK_HOME": str(folder), "JAVA_HOME": "", "PYSPARK_PYTHON": "/other/python"}


def told(folder: Path, path: str, *arguments: str) -> tuple[list[str], dict[str, str | None], int]:
    """Run the command on a machine without Java: what spark-submit was given, and the exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace_cli", "job", "submit", *arguments],
        env=os.environ | stand_in(folder, TELLING) | {"PATH": path, "PYTHONPATH": worker_path()},
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    given, environment = json.loads(done.stdout)
    return given, environment, done.returncode


def test_arguments_and_exit_code_are_passed_on_and_the_java_of_the_package_is_set(
    tmp_path: Path, path_without_java: str
) -> None:
    arguments = ["--master", "local[2]", "-c", "a=b", "job.py", "--help", "-x", "--", "--master", "yarn"]
    given, environment, exit_code = told(tmp_path, path_without_java, *arguments)
    assert (given, exit_code) == (arguments, 7)
    assert Path(environment.pop("JAVA_HOME") or "").name == "java-21"
    assert environment == {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("arguments", [["--master", "yarn"], []], ids=["yarn", "not said"])
def test_for_a_cluster_elsewhere_python_and_address_stay_the_users(
    tmp_path: Path, path_without_java: str, arguments: list[str]
) -> None:
    _, environment, _ = told(tmp_path, path_without_java, *arguments, "job.py")
    assert environment["PYSPARK_PYTHON"] == "/other/python"
    assert environment["SPARK_LOCAL_IP"] == os.environ.get("SPARK_LOCAL_IP")


def test_a_signal_is_passed_on_to_the_job(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "headrace_cli", "job", "submit", "job.py"],
        env=os.environ | stand_in(tmp_path, WAITING) | {"PYTHONPATH": worker_path()},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "terminated\n"
    assert process.returncode == 143


def test_a_signal_that_comes_before_the_job_has_begun_is_passed_on_when_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, command: list[Any], **kwargs: Any) -> None:
            if command[-1] == "job.py":
                signal.raise_signal(signal.SIGTERM)
            super().__init__(command, **kwargs)

    for name, value in stand_in(tmp_path, WAITING).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "Popen", Signalled)
    assert spark_submit(["job.py"]) in (-signal.SIGTERM, 143)  # it has not, or has, set its trap


def test_a_job_that_a_signal_has_ended_says_so_as_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stand_in(tmp_path, "#!/bin/sh\nkill -KILL $$\n").items():
        monkeypatch.setenv(name, value)
    assert spark_submit(["job.py"]) == -signal.SIGKILL
    assert CliRunner().invoke(app, ["job", "submit", "job.py"]).exit_code == 137


def test_without_any_java_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(headrace.spark.runtime.java, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = CliRunner().invoke(app, ["job", "submit", "job.py"])
    assert result.exit_code == 2
    assert "Spark needs Java 17 or newer, and none was found" in result.stderr
    assert "pip install 'headrace[spark]'" in result.stderr


def test_the_help_has_an_example() -> None:
    result = CliRunner().invoke(app, ["job", "submit", "--help"])
    assert "headrace job submit my_job.py" in result.stdout
