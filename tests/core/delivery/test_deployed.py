"""Computations as deployed (MillWheel 3): the table says in which version."""

import msgspec
import pytest

from headrace import Computation, Pipeline
from headrace.delivery.deployed import deployed
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Assignment, Table


def test_a_retiring_computation_is_found_in_the_last_version_that_had_it() -> None:
    first = Pipeline("clicks")
    first.injector("feed", outputs=["clicks"])
    first.add(Computation(), name="counter", inputs=["clicks"])
    second = first.with_computation("counter", watermark_percentile=90.0)
    third = second.without("counter")
    table = Table(5, 2, ("counter",), (Assignment("counter", ALL_KEYS, 1, "worker-0", 1),))
    found = deployed("counter", [first, second, third], table)
    assert found.spec.watermark_percentile == 90.0
    table = msgspec.structs.replace(table, retired_from=(0,))  # the one between was never in force
    assert deployed("counter", [first, second, third], table).spec.watermark_percentile == 100.0
    with pytest.raises(AssertionError, match="'nobody'"):
        deployed("nobody", [first, second, third], table)
