"""What may be skipped in CI, and why: all else that is skipped there fails the run.

A test that is skipped wherever it could run is a test that nobody runs, and its green says nothing.
"""

import os
import re
from dataclasses import dataclass

import pytest

NO_SPARK = os.environ.get("SPARK") == "no"
IN_CI = os.environ.get("CI") == "true"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Skips that CI allows.

    Attributes:
        reason: a regular expression for the reason that the tests give.
        why: why CI does without them.
        only_without_spark: whether ``SPARK=no`` is the only excuse.
    """

    reason: str
    why: str
    only_without_spark: bool = False


ALLOWED = (
    Allowed("a deep search: HYPOTHESIS_PROFILE=nightly runs it", "it takes hours, and runs at night"),
    Allowed(
        "HEADRACE_TEST_POSTGRES names no database|could not import 'psycopg'.*",
        "no database may be erased that nobody named; the tests run on SQLite as well",
    ),
    Allowed(
        "Spark Connect needs grpcio, which is not installed", "only users of Spark Connect need its server"
    ),
    Allowed(
        "PostgreSQL's driver for JDBC is not on this machine",
        "no Python package has it; .ci/run brings Debian's, and the tests of drivers in Python run without",
    ),
    Allowed("executors of their own", "SPARK_TESTS_MASTER names the cluster, at night"),
    Allowed("a small disk .*", "not every machine lets us mount one"),
    Allowed(r"before PySpark \d\.\d: .*", "tests/releases.py says what older releases lack"),
    Allowed(
        "it needs Spark|could not import '(pyspark|pyarrow|pandas)'.*",
        "SPARK=no leaves PySpark out, and what comes with it",
        only_without_spark=True,
    ),
)


def is_allowed(reason: str, *, without_spark: bool = NO_SPARK) -> bool:
    """Tell whether CI may skip a test for this reason."""
    return any(
        re.fullmatch(allowed.reason, reason, re.DOTALL) and (without_spark or not allowed.only_without_spark)
        for allowed in ALLOWED
    )


def pytest_sessionstart() -> None:
    """In CI, only SPARK=no leaves Spark out.

    Raises:
        pytest.UsageError: PySpark is missing.
    """
    if IN_CI and not NO_SPARK:
        try:
            import pyspark  # noqa: F401, PLC0415  slow, and not there with SPARK=no
        except ImportError as error:
            said = "PySpark is not installed: nothing on Spark would be tested. `make setup` installs it; SPARK=no leaves it out"
            raise pytest.UsageError(said) from error


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped what may not be skipped."""
    if _wrongly_skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name them."""
    if wrong := _wrongly_skipped(terminalreporter.config):
        terminalreporter.section("skipped, but not on the list of tests/skips.py", red=True)
        for line in wrong:
            terminalreporter.write_line(line)


def _wrongly_skipped(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not IN_CI or reporter is None:  # a worker of xdist has none
        return []
    skipped = [(report.nodeid, _reason(report)) for report in reporter.stats.get("skipped", ())]
    return [f"{nodeid}: {reason}" for nodeid, reason in skipped if not is_allowed(reason)]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    said = report.longrepr
    return (said[2] if isinstance(said, tuple) else str(said)).removeprefix("Skipped: ")
