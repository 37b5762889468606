"""Several streams with watermarks of their own: what they come to on Spark, and what is refused."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.spark_job import SparkJobError, WatermarkPolicy
from tests.sim.spark.processors import INPUT
from tests.sim.spark.unions import (
    CASES,
    UNITED,
    United,
    both_timed,
    timed_apart_and_together,
    timed_together,
)


@pytest.mark.parametrize("name", CASES)
def test_streams_have_the_outcome_recorded_on_spark(name: str) -> None:
    assert json.loads(json.dumps(CASES[name].simulated())) == json.loads(UNITED.read_text())[name]


def test_input_of_a_job_has_a_column_for_each_stream() -> None:
    assert record(both_timed, INPUT).input.names == ["left", "right"]
    of_session = record(
        lambda spark: timed_together(*(spark.readStream.schema(INPUT).json("in") for _ in "ab"))
    )
    assert of_session.input.names == ["stream1", "stream2"]


def test_policy_follows_the_sessions_setting() -> None:
    def build(spark: SparkSession, left: Any, right: Any) -> Any:
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
        return both_timed(left, right)

    policy = "MAX"
    assert record(build, INPUT).policy is WatermarkPolicy.MAX
    policy = "latest"
    with pytest.raises(SparkJobError, match=r"multipleWatermarkPolicy is 'latest'.*Set it to min or max"):
        record(build, INPUT)


def test_watermark_on_a_watermark_is_refused_at_its_line() -> None:
    with pytest.raises(SparkJobError, match=r"unions\.py:.*Redefining watermark is disallowed"):
        United(timed_apart_and_together).simulated()


REFUSED = {
    "a frame of rows": (
        lambda spark, left: left.union(spark.createDataFrame([("a", None, 1)], INPUT)),
        SparkJobError,
        "Union between streaming and batch DataFrames is not supported",
    ),
    "other types": (
        lambda left, right: left.union(right.select("k", "at", "k")),
        CannotFollowError,
        "union\\(\\) of columns of types int and string .*Cast the column 'n'",
    ),
    "missing columns": (
        lambda left, right: left.unionByName(right.drop("n"), allowMissingColumns=True),
        CannotFollowError,
        "allowMissingColumns=True.*Add the missing columns before",
    ),
    "after a function": (
        lambda left, right: left.mapInPandas(lambda frames: frames, INPUT).union(right),
        CannotFollowError,
        "union\\(\\) after a function or a step with state.*Bring the streams together before",
    ),
    "another number of columns": (
        lambda left, right: left.union(right.drop("n")),
        SparkJobError,
        "NUM_COLUMNS_MISMATCH",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_union_that_cannot_be_followed_is_refused_at_its_line(name: str) -> None:
    build, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as refused:
        record(build, INPUT)
    assert "test_unions.py" in str(refused.value)
