"""One Spark session for all tests here; a process has only one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.spark import session
from headrace_scenarios.chaos.object_store import ObjectStore


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads, with the two shuffle partitions of `headrace.spark.session`; or on another master."""
    place = tmp_path_factory.mktemp("spark")
    config = {
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
        "spark.sql.streaming.pollingDelay": "5ms",
    }
    with session(os.environ.get("SPARK_TESTS_MASTER", "local[2]"), "headrace tests", config=config) as spark:
        yield spark


@pytest.fixture
def fresh_session(spark: SparkSession) -> SparkSession:
    """A session with settings of its own, on the same Spark."""
    return spark.newSession()


@pytest.fixture
def object_store() -> Iterator[ObjectStore]:
    """A store that no machine mounts."""
    with ObjectStore() as store:
        yield store


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query keeps its state."""
    return str(tmp_path / "checkpoint")


@pytest.fixture(scope="session")
def path_without_java(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path with everything on it but java."""
    folder = tmp_path_factory.mktemp("bin")
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)
