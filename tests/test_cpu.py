"""The report of CPU time counts what a test starts, and lists the tests that take more than they may."""

import subprocess
import sys
from collections import deque
from unittest.mock import Mock

import pytest

from tests.cpu import MARK, pytest_runtest_teardown, pytest_terminal_summary, used_s


def test_time_of_a_process_that_has_ended_counts() -> None:
    before = used_s()
    burn = "import time\nwhile time.process_time() < 0.2:\n    pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert used_s() - before > 0.15


ABOVE = "    21.0 s  a.py::one (above 15 s)"
ALLOWED = "    20.0 s  b.py::one (within 30 s: it starts Spark)"
TWO = {"a.py::one": (21.0, 15, ""), "b.py::one": (20.0, 30, "it starts Spark"), "b.py::two": (2.0, 15, "")}


@pytest.mark.parametrize(
    ("option", "lines"),
    [(0, [ABOVE, ALLOWED]), (1, [ABOVE, ALLOWED, "    22.0 s  b.py", "    21.0 s  a.py::one"])],
)
def test_tests_above_their_budget_and_those_with_one_of_their_own_are_listed(
    option: int, lines: list[str]
) -> None:
    assert reported(TWO, option) == ["CPU time: 43 s; tests above their budget: 1", *lines]


def test_nothing_is_listed_within_the_budget() -> None:
    assert reported({"a.py::one": (14.0, 15, "")}, 0) == []


@pytest.mark.cpu(30, "it is marked so")
def test_a_mark_allows_a_test_more_for_a_reason(request: pytest.FixtureRequest) -> None:
    deque(pytest_runtest_teardown(request.node))
    _, (_, *allowed) = request.node.user_properties.pop()
    assert allowed == [30, "it is marked so"]


def reported(tests: dict[str, tuple[float, int, str]], option: int) -> list[str]:
    """What the summary of these tests says, each with its CPU seconds, those that it may take, and why."""
    reports = [
        pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "teardown", user_properties=[(MARK, told)])
        for name, told in tests.items()
    ]
    reporter = Mock(stats={"": reports})
    reporter.config.getoption.return_value = option
    written: list[str] = []
    reporter.section = reporter.write_line = written.append
    pytest_terminal_summary(reporter)
    return written
