"""The Java of the laboratory's tests: one for all of them."""

from collections.abc import Iterator

import pytest

from headrace_sim.spark.laboratory.jvm import SparkJvm, running


@pytest.fixture(scope="package")
def jvm() -> Iterator[SparkJvm]:
    """Run Spark."""
    with running({}) as started:
        yield started
