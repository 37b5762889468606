"""``--cpu N``: which tests, and which files, take the most CPU time.

The time of processes that they started counts once those have ended: that of Java does not. Wall time depends on what else runs,
CPU time hardly.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing import forkserver
from operator import itemgetter
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

NAME = "cpu_s"
_STARTED = pytest.StashKey[float]()
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--cpu", type=int, default=0, metavar="N", help="list N files and tests by their CPU seconds"
    )


def used_s() -> float:
    """Return the CPU seconds of this process, of its children that have ended, and of those of the fork server."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    stat = Path(f"/proc/{server}/stat")
    of_server = stat.read_text().rpartition(")")[2].split()[11:15] if server and stat.exists() else ()
    return sum(os.times()[:4]) + sum(map(int, of_server)) / _TICKS


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note the time before fixtures are made."""
    item.stash[_STARTED] = used_s()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Tell, with the last report of a test, what it took."""
    try:
        return (yield)
    finally:
        item.user_properties.append((NAME, used_s() - item.stash[_STARTED]))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """List what took longest."""
    count = terminalreporter.config.getoption("--cpu")
    if not count:
        return
    tests: dict[str, float] = defaultdict(float)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            tests[report.nodeid] += sum(seconds for name, seconds in report.user_properties if name == NAME)  # type: ignore[misc]
    files: dict[str, float] = defaultdict(float)
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += seconds
    terminalreporter.section(f"CPU time: {sum(tests.values()):,.0f} s")
    for figures in (files, tests):
        for name, seconds in sorted(figures.items(), key=itemgetter(1), reverse=True)[:count]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
