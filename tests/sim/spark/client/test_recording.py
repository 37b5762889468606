"""A job is recorded from the function that starts its query; what cannot be followed is named with its line."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from headrace.api.errors import HeadraceError
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.spark_job import (
    ApplyWithState,
    Columns,
    InitialState,
    MapInPandas,
    OutputMode,
    SparkJobError,
    TimeMode,
    TransformWithState,
    WatermarkStep,
)  # fmt: skip
from tests.sim.spark.recorded_jobs import WORDS, Count, from_kafka, sessions, words, write


def test_query_is_recorded_step_by_step() -> None:
    job = record(words, WORDS)
    watermark, not_null, lower, counted = job.steps
    assert isinstance(watermark, WatermarkStep)
    assert (watermark.column, watermark.delay_us) == ("at", 90_000_000)
    assert isinstance(not_null, Columns)
    assert isinstance(lower, Columns)
    assert isinstance(counted, TransformWithState)
    assert isinstance(counted.processor, Count)
    assert (counted.keys, counted.output_mode, counted.time_mode) == (
        ("word",),
        OutputMode.UPDATE,
        TimeMode.NONE,
    )
    assert counted.place.endswith("recorded_jobs.py:36")
    assert job.output == parse_schema("word STRING, n INT")
    assert (job.sink.function, job.sink.output_mode, job.sink.trigger) == (
        write,
        OutputMode.UPDATE,
        ("processingTime", "10 seconds"),
    )


def test_parameter_with_a_default_keeps_it() -> None:
    def built(events: Any, sink: Any = write, other: Any = None) -> Any:
        return events.writeStream.foreachBatch(other or sink).start()

    assert record(built, WORDS).sink.function is write


def test_recorded_columns_are_computed_later_on_rows() -> None:
    job = record(words, WORDS)
    rows = Rows(parse_schema(WORDS), [(("A", None), (None, None), ("b", None))])
    for step in job.steps:
        if isinstance(step, Columns):
            rows = step.compute(rows)
    assert [word for word, *_ in rows.all()] == ["a", "b"]


def test_sources_give_streams_of_the_schema_that_they_have() -> None:
    job = record(from_kafka)
    counted = job.stateful[0]
    assert job.input.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert isinstance(counted, TransformWithState)
    assert counted.pandas
    assert counted.initial == InitialState(parse_schema("word STRING, n INT"), ("word",), (("a", 1),))
    assert (job.sink.format, job.sink.target, job.sink.options) == (
        "delta",
        "/lake/words",
        (("checkpointLocation", "/x"),),
    )


def test_returned_frame_is_a_job_without_a_sink() -> None:
    job = record(sessions, {"df": WORDS})
    assert [type(step) for step in job.steps] == [MapInPandas, ApplyWithState]
    assert job.sink.function is None


def _worth(df: Any) -> Any:
    return df.sparkSession.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "word STRING, worth INT")


def test_stream_is_joined_with_a_frame_and_computed_from_sql_text() -> None:
    def built(df: Any) -> Any:
        found = df.where("word <> 'c'").join(F.broadcast(_worth(df)), "word", "left").hint("broadcast")
        return found.selectExpr("upper(word) AS word", "coalesce(worth, 0) * 2 as worth")

    job = record(built, WORDS)
    rows = Rows(parse_schema(WORDS), [(("a", None), ("c", None), ("z", None))])
    for step in job.steps:
        assert isinstance(step, Columns)
        rows = step.compute(rows)
    assert rows.all() == [("A", 2), ("Z", 0)]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda df: df.join(_worth(df), "word", "right"), "[UNSUPPORTED_OPERATION] a right join of a stream"),
        (lambda df: df.join(_worth(df), "word", "sideways"), "[UNSUPPORTED_JOIN_TYPE]"),
        (
            lambda df: df.withColumn("n", F.row_number().over(Window.orderBy("at"))),
            "[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING]",
        ),
        (lambda df: df.rollup("word").count(), "cannot follow rollup() of a stream"),
        (
            lambda df: df.groupBy(F.upper("word")).transformWithState(Count(), "n INT", "update", "none"),
            "a computed key",
        ),
        (lambda df: df.filter("word = 'a"), 'cannot follow the SQL text "word = \'a"'),
        (lambda df: df.filter("words = 'a'"), "A column with name 'words' cannot be resolved"),
        (lambda spark: spark.read.load("x"), "cannot follow reading x, which nothing here has made"),
        (lambda spark: spark.sparkContext.parallelize([1]), "cannot follow SparkContext.parallelize"),
        (
            lambda df: df.writeStream.format("parquet").outputMode("update").start("x"),
            "Data source parquet does not support Update output mode",
        ),
        (lambda df: df.withWatermark("word", "1 minute"), "[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE]"),
        (lambda df: df.withWatermark("at", "soon"), "[CANNOT_PARSE_INTERVAL]"),
        (
            lambda df: df.groupBy("word").transformWithState(Count, "n INT", "update", "none"),
            "a class (Spark says only: TransformWithStateInPySpark driver worker exited unexpectedly",
        ),
        (
            lambda df: df.groupBy("word").transformWithState(object(), "n INT", "update", "none"),
            "'object' object has no attribute 'init'",
        ),
        (
            lambda df: df.groupBy("word").transformWithState(Count(), "n INT", "upsert", "none"),
            "the output mode 'upsert' is none of",
        ),
        (
            lambda df: df.groupBy("word").transformWithState(Count(), "n INT", "update", "now"),
            "the time mode 'now' is none of",
        ),
        (
            lambda df: df.groupBy("word").transformWithState(Count(), "n INTT", "update", "none"),
            "unsupported data type 'intt'",
        ),
        (
            lambda df: df.groupBy("word").transformWithState(
                Count(), "n INT", "append", "eventtime", eventTimeColumnName="at"
            ),
            "'at' is not in the output: n",
        ),
        (lambda df: df.select("nothing"), "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        (lambda df: 1 / 0, "raises ZeroDivisionError"),
    ],
)
def test_what_cannot_be_recorded_is_named_with_its_line(build: Callable[..., Any], told: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        record(build, WORDS)
    assert told in str(caught.value)
    assert f"test_recording.py:{build.__code__.co_firstlineno}" in str(caught.value)


def test_schema_that_is_missing_is_asked_for() -> None:
    with pytest.raises(SparkJobError, match="--schema 'events=word STRING, at TIMESTAMP'"):
        record(words)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda df: None, "starts no query"),
        (lambda df: [df.writeStream.start("x"), df.writeStream.start("y")], "starts 2 queries"),
    ],
)
def test_function_that_does_not_start_one_query_is_refused(build: Callable[..., Any], told: str) -> None:
    with pytest.raises(SparkJobError, match=told):
        record(build, WORDS)


def test_session_is_the_recording_one_wherever_requested() -> None:
    def build(df: Any) -> Any:
        assert SparkSession.builder.appName("x").getOrCreate() is df.sparkSession
        return df

    assert record(build, WORDS).steps == ()
