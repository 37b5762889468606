"""What is skipped on an older PySpark is what that lacks: another failure stays one."""

import pytest

from tests.releases import reason

STATEFUL = "tests/sim/spark/state/test_stateful.py::test_processor[Counts]"
LACKS = "E   AttributeError: 'GroupedData' object has no attribute 'transformWithState'"


@pytest.mark.parametrize(
    ("test", "release", "failure", "why"),
    [
        (STATEFUL, (4, 0), LACKS, "before PySpark 4.1: transformWithState cannot run here"),
        (STATEFUL, (4, 1), LACKS, None),
        (STATEFUL, (4, 0), "E   assert 1 == 2", None),
        (STATEFUL, (4, 0), "", None),
        ("tests/properties/sinks/test_sink_check.py::test_sink", (4, 0), LACKS, None),
        (
            "tests/sim/spark/columns/test_values.py::test_key_that_spark[array-x]",
            (4, 1),
            "",
            "before PySpark 4.2: a key may hold an ARRAY",
        ),
        ("tests/sim/spark/columns/test_values.py::test_key_that_spark[array-x]", (4, 3), "", None),
        ("tests/sim/spark/columns/test_values.py::test_key_that_spark[array-x]", (), "", None),
    ],
)
def test_reason_is_that_of_the_release(
    test: str, release: tuple[int, ...], failure: str, why: str | None
) -> None:
    assert reason(test, release, failure) == why
