"""Each file of tests has a budget of CPU time: those above it are listed. ``--cpu N`` lists the N tests and files that take most.

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
BUDGET_S = 20
"""What a file may take by day. Choice: two cores have 1,200 s in CI's ten minutes, for some 400 files."""
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
    """List the files above the budget, and what takes longest if that is asked for."""
    count = terminalreporter.config.getoption("--cpu")
    tests: dict[str, float] = defaultdict(float)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            tests[report.nodeid] += sum(seconds for name, seconds in report.user_properties if name == NAME)  # type: ignore[misc]
    files: dict[str, float] = defaultdict(float)
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += seconds
    over = sum(seconds > BUDGET_S for seconds in files.values())
    if not count and not over:
        return
    terminalreporter.section(f"CPU time: {sum(tests.values()):,.0f} s; files above {BUDGET_S} s: {over}")
    for figures, shown in ((files, max(count, over)), (tests, count)):
        for name, seconds in sorted(figures.items(), key=itemgetter(1), reverse=True)[:shown]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
