"""A failure on Spark ends with what is recorded of it; ``python -m tests.spark.recorded.stateful_failures`` makes them all."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.sim.spark.failures import FAILED, FAILURES
from tests.spark.recorded.stateful_failures import on_spark
from tests.spark.recorded.test_stateful_conformance import ROCKS

NAME = "driver dies between sink and commit log"


def test_batch_behind_a_lost_commit_runs_again_as_it_is_recorded(
    fresh_session: SparkSession, tmp_path: Path
) -> None:
    fresh_session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    assert on_spark(fresh_session, FAILURES[NAME], tmp_path) == json.loads(FAILED.read_text())[NAME]
