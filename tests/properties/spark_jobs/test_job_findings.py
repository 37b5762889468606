"""What one outcome has, and the other one lacks, in words."""

from collections import Counter
from typing import Any

import pytest

from headrace_properties.spark_jobs.job_findings import difference_told

BOB = (1, "first", ("bob",))
EVE = (1, "first", ("eve",))


@pytest.mark.parametrize(
    ("what", "surplus", "missing", "says"),
    [
        ("output", [("bob", 1)], [("bob", 2)], "the output has ('bob', 1) instead of ('bob', 2)"),
        ("output", [], [("bob", 2)], "the output lacks ('bob', 2)"),
        ("state", [(BOB, 2), (EVE, 1)], [(BOB, 3)], "the state 'first' of key ('bob',) is 2 instead of 3"),
        ("state", [], [(EVE, 1)], "the job lacks state 'first' of key ('eve',), 1"),
        (
            "state",
            [(EVE, 1)],
            [(BOB, 3)],
            "the job has state 'first' of key ('eve',), 1 instead of state 'first' of key",
        ),
    ],
)
def test_a_state_is_named_by_its_variable_and_key(
    what: str, surplus: list[Any], missing: list[Any], says: str
) -> None:
    assert difference_told(what, Counter(surplus), Counter(missing)).startswith(says)
