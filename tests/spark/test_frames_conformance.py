"""What frames in memory are judged by is what Spark gives: names, types and rows, or an error of the same class."""

import json
import os

import pytest
from pyspark.sql import SparkSession

from tests.sim.spark.frame_programs import OUTCOMES, PROGRAMS, ROWS, SCHEMA, outcome

SAMPLE = ("add overflows", "logic of nulls", "to string", "from json", "totals", "udf by names")


def _of_spark(spark: SparkSession, names: tuple[str, ...]) -> dict[str, object]:
    df = spark.createDataFrame(ROWS, SCHEMA).coalesce(1).cache()
    return {name: outcome(df, PROGRAMS[name]) for name in names}


def test_spark_gives_what_is_recorded_of_it(spark: SparkSession) -> None:
    recorded = json.loads(OUTCOMES.read_text())
    assert _of_spark(spark, SAMPLE) == {name: recorded[name] for name in SAMPLE}


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_for_all_programs(spark: SparkSession) -> None:
    outcomes = _of_spark(spark, tuple(PROGRAMS))
    if os.environ.get("WRITE") == "yes":
        OUTCOMES.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n")
    assert outcomes == json.loads(OUTCOMES.read_text())
