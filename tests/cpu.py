"""Each test has a budget of CPU time: those above it are listed. ``--cpu N`` lists the N tests and files that take most.

``cpu_budget_s`` in ``pyproject.toml`` is what a test may take, and the mark ``cpu`` allows one more, with the reason. Nothing
fails for it. The time of processes that they started counts once those have ended, and that of the Java that tests of
Spark share as it goes. Wall time depends on what else runs, CPU time hardly.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing import forkserver
from operator import itemgetter
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

MARK, BUDGET = "cpu", "cpu_budget_s"
_STARTED = pytest.StashKey[float]()
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting."""
    parser.addoption(
        "--cpu", type=int, default=0, metavar="N", help="list N files and tests by their CPU seconds"
    )
    parser.addini(BUDGET, "the CPU seconds that a test may take by day", type="int", default=15)


def used_s() -> float:
    """Return the CPU seconds of this process, of its children that have ended, and of those that live as long as it."""
    return sum(os.times()[:4]) + sum(map(_of_process_s, filter(None, (_fork_server(), _java()))))


def _of_process_s(number: int) -> float:
    stat = Path(f"/proc/{number}/stat")
    return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) / _TICKS if stat.exists() else 0


def _fork_server() -> int | None:
    return forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined, no-any-return]


def _java() -> int | None:
    gateway = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_gateway", None)
    return gateway and gateway.proc.pid


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note the time before fixtures are made."""
    item.stash[_STARTED] = used_s()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Tell, with the last report of a test, what it took and may take, and why it may take more than others."""
    try:
        return (yield)
    finally:
        allowed = item.get_closest_marker(MARK)
        budget = allowed.args if allowed else (item.config.getini(BUDGET), "")
        item.user_properties.append((MARK, (max(0.0, used_s() - item.stash[_STARTED]), *budget)))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """List the tests above their budget, those that may take more than others, and what takes longest if that is asked for."""
    count = terminalreporter.config.getoption("--cpu")
    tests: dict[str, tuple[float, float, str]] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            told = dict(report.user_properties).get(MARK)
            if told is not None:
                tests[report.nodeid] = told  # type: ignore[assignment]
    took_s = {name: took for name, (took, _, _) in tests.items()}
    over = {name: took for name, (took, allowed, _) in tests.items() if took > allowed}
    shown = over | {name: took for name, (took, _, why) in tests.items() if why and took >= 1}
    if not count and not shown:
        return
    terminalreporter.section(
        f"CPU time: {sum(took_s.values()):,.0f} s; tests above their budget: {len(over)}"
    )
    for name, took in _most(shown, len(shown)):
        _, allowed, why = tests[name]
        told = f"above {allowed} s" if name in over else f"within {allowed} s"
        terminalreporter.write_line(f"{took:8.1f} s  {name} ({told}{why and ': '}{why})")
    files: dict[str, float] = defaultdict(float)
    for name, took in took_s.items():
        files[name.partition("::")[0]] += took
    for figures in (files, took_s):
        for name, took in _most(figures, count):
            terminalreporter.write_line(f"{took:8.1f} s  {name}")


def _most(figures: dict[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(figures.items(), key=itemgetter(1), reverse=True)[:count]
