"""The report of CPU time counts what a test starts."""

import subprocess
import sys
from unittest.mock import Mock

import pytest

from tests.cpu import NAME, pytest_terminal_summary, used_s


def test_time_of_a_process_that_has_ended_counts() -> None:
    before = used_s()
    burn = "import time\nwhile time.process_time() < 0.2:\n    pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert used_s() - before > 0.15


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        (0, ["CPU time: 31 s; files above 20 s: 1", "    21.0 s  a.py"]),
        (2, ["CPU time: 31 s; files above 20 s: 1", "    21.0 s  a.py", "    10.0 s  b.py"]),
    ],
)
def test_files_above_their_budget_are_listed(option: int, lines: list[str]) -> None:
    written = reported({"a.py::one": 20.0, "a.py::two": 1.0, "b.py::one": 10.0}, option)
    assert written[: len(lines)] == lines


def test_nothing_is_listed_within_the_budget() -> None:
    assert reported({"a.py::one": 20.0, "b.py::one": 10.0}, 0) == []


def reported(tests: dict[str, float], option: int) -> list[str]:
    """What the summary of these tests, by CPU seconds, says."""
    reports = [
        pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "teardown", user_properties=[(NAME, took_s)])
        for name, took_s in tests.items()
    ]
    reporter = Mock(stats={"": reports})
    reporter.config.getoption.return_value = option
    written: list[str] = []
    reporter.section = reporter.write_line = written.append
    pytest_terminal_summary(reporter)
    return written
