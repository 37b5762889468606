"""Which tests of Spark jobs do not hold on releases of PySpark before the newest, and why. `make conformance` runs them there."""

import re
from collections.abc import Generator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

import pytest


@dataclass(frozen=True, slots=True)
class Difference:
    """Tests that do not apply to older releases.

    Attributes:
        before: the first release that they hold on: ``(4, 1)``.
        tests: a regular expression that their ids begin with, after ``tests/``.
        reason: what the older releases lack, or do otherwise.
        told: a regular expression that the failure of such a test has; the others hold. ``""``: none of the tests is run.
    """

    before: tuple[int, int]
    tests: str
    reason: str
    told: str = ""

    @property
    def text(self) -> str:
        """The reason, with its release."""
        return f"before PySpark {'.'.join(map(str, self.before))}: {self.reason}"


_FILES = (
    r"sim/spark/(test_bad_inputs|client/test_recording|columns/test_values|query/test_(queries|unions)|state/test_stateful)\.py|"
    r"properties/spark_jobs/test_(declarations|deliveries|outcomes|planted_state|promised|swallowed|targets|unions)\.py"
)
_NO_PROCESSORS = (
    r"transformWithState is followed with PySpark 4\.1|has no attribute 'transformWithState|"
    r"cannot follow transformWithStateInPandas\(\) with PySpark 4\.0"
)
DIFFERENCES = (
    Difference((4, 1), _FILES, "transformWithState cannot run here", _NO_PROCESSORS),
    Difference(
        (4, 2),
        r"sim/spark/(columns/test_values|state/test_stateful)\.py|properties/spark_jobs/test_planted_state\.py",
        "PySpark 4.1 cannot pickle a Row that goes into state",
        "cannot pickle 'generator' object",
    ),
    Difference(
        (4, 2), r"sim/spark/columns/test_values\.py::test_key_that.*\[array", "a key may hold an ARRAY"
    ),
    Difference(
        (4, 0),
        r"sim/spark/columns/test_frames\.py::.*\[(udf by names|pandas function, by name)\]",
        "functions take no arguments by name",
    ),
    Difference(
        (4, 0),
        r"sim/spark/client/test_sessions\.py::.*_hides_what_it_misses",
        "there is no GroupedData.applyInArrow",
    ),
    Difference(
        (4, 0),
        r"properties/sinks/test_table_sinks\.py::.*_adds_with_merge_into",
        "there is no DataFrame.mergeInto",
    ),
    Difference(
        (4, 0),
        r"sim/spark/real/test_real\.py::test_query_in_sql_text_is_asked_with_the_rows_of_the_views_that_it_names",
        "texts have no views",
    ),
    Difference(
        (4, 0),
        r"sim/spark/real/test_real\.py::test_real_spark_answers",
        "it comes without the Connect server",
    ),
)


def installed() -> tuple[int, ...]:
    """Return the release of PySpark that is installed: ``(4, 3)``; ``()``: none is."""
    return tuple(map(int, metadata.version("pyspark").split(".")[:2])) if find_spec("pyspark") else ()


def reason(test: str, release: tuple[int, ...], failure: str = "") -> str | None:
    """Return why a test, by its id, does not hold on a release: before it is run, or given the text of its failure."""
    rows = (
        row for row in DIFFERENCES if release and release < row.before and bool(row.told) == bool(failure)
    )
    name = test.removeprefix("tests/")
    return next(
        (row.text for row in rows if re.match(row.tests, name) and re.search(row.told, failure)), None
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with its reason, what is not run on the installed release."""
    release = installed()
    for item in items:
        if why := reason(item.nodeid, release):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take a test for skipped, with its reason, that failed because the installed release lacks what it needs."""
    report = yield
    if report.failed and (why := reason(item.nodeid, installed(), report.longreprtext)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {why}")
    return report
