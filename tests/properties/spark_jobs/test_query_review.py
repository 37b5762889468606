"""A query is reviewed by what is documented of its settings and its sink; a sound one, and one for looking, are left alone."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as t

from headrace import OptionsError
from headrace.spark.runtime.required_settings import ROCKSDB
from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.query_review import RULES, review_query
from headrace_sim.spark.client.connect_answers import SessionState
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.settings import STATE_STORE, Settings
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.sinks.streaming_sinks import STREAMING_SINKS
from headrace_sim.spark.spark_job import (
    OutputMode,
    SparkJob,
    SparkSink,
    StreamSource,
    TimeMode,
    TransformWithState,
)
from tests.sim.spark.apart import call

_SCHEMA = t.StructType([t.StructField("id", t.StringType()), t.StructField("v", t.IntegerType())])
_FEED = [[("a", 1)], [("b", 2)]]
_AT = {"checkpointLocation": "/c"}


def query(sink: str = "delta", source: str = "kafka", *, given: Any = (), **options: str) -> SparkJob:
    """Return a query. ``given``: the reader's options."""
    named = {**_AT, **{name.replace("__", "."): value for name, value in options.items()}}
    kept = tuple((name, value) for name, value in named.items() if value)
    read = StreamSource("in", source, _SCHEMA, tuple(dict(given).items()), place="job.py:3")
    return SparkJob(
        _SCHEMA, sink=SparkSink(format=sink, options=kept, target="out", place="job.py:9"), sources=(read,)
    )


_EARLIEST = {"startingOffsets": "earliest"}
_SOUND = query(given=_EARLIEST)
_NO_CHECKPOINT: Any = {"checkpointLocation": ""}
_WRONG = [
    ("checkpoint", query("parquet", given=_EARLIEST, **_NO_CHECKPOINT), "Spark refuses to start the query"),
    (
        "failed batch",
        query("hudi", **{"hoodie.datasource.write.streaming.ignore.failed.batch": "true"}),
        "lost",
    ),
    ("changes", query("delta", "delta", given={"ignoreChanges": "true"}), "another file"),
    ("socket", query("delta", "socket"), "cannot give rows again"),
]


@pytest.mark.parametrize(("name", "job", "told"), _WRONG)
def test_what_is_documented_is_asked_with_its_reference(name: str, job: SparkJob, told: str) -> None:
    (finding,) = review_query(job).findings
    assert (finding.kind.name, finding.finding_class) == (name, FindingClass.UNDECLARED)
    assert told in finding.message
    assert f"settings=({name!r},)" in finding.remedy
    assert "https://" in finding.remedy
    assert finding.place is not None


@pytest.mark.parametrize(("name", "job", "told"), _WRONG)
def test_what_is_meant_is_not_asked(name: str, job: SparkJob, told: str) -> None:
    assert not review_query(replace(job, declares=Declares(settings=(name,)))).findings
    assert not review_query(job, [Cause.SETTINGS]).findings


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (query(given=_EARLIEST | {"failOnDataLoss": "false"}), "failOnDataLoss=false leaves out records"),
        (query("delta", "csv", given={"mode": "DROPMALFORMED"}), "rows that do not fit the schema"),
        (query("delta", "iceberg", given={"streaming-skip-overwrite-snapshots": "true"}), "overwrites"),
    ],
)
def test_loss_that_the_reader_is_told_to_hide_is_noted(job: SparkJob, told: str) -> None:
    assert told in review_query(job).notes[1]
    assert not review_query(job).findings


def test_code_without_a_checkpoint_is_asked_only_if_its_source_is_told() -> None:
    function = SparkSink(lambda frame, batch_id: None, place="job.py:9")
    (finding,) = review_query(replace(_SOUND, sink=function)).findings
    assert "its batch ids begin at 0 again" in finding.message
    assert not review_query(SparkJob(_SCHEMA, sink=function)).findings


def test_acknowledgements_that_kafka_does_not_give_are_asked_for() -> None:
    named = [
        found.kind.name for found in review_query(query("kafka", given=_EARLIEST, kafka__acks="0")).findings
    ]
    assert named == ["repeated", "acks"]


def test_deprecated_and_default_settings_are_notes() -> None:
    job = query()
    notes = review_query(replace(job, sink=replace(job.sink, trigger=("once", True)))).notes
    assert [note.partition(":")[0] for note in notes] == [
        "delta",
        "startingOffsets is latest, the default",
        "trigger(once=True) is deprecated",
    ]
    assert len(review_query(_SOUND).notes) == 1


@pytest.mark.parametrize(
    ("settings", "noted"), [({}, 1), ({STATE_STORE: ROCKSDB}, 0)], ids=["default", "rocksdb"]
)
def test_store_with_which_spark_does_not_start_a_processor_is_noted(
    settings: dict[str, str], noted: int
) -> None:
    step = TransformWithState(None, ("id",), _SCHEMA, OutputMode.APPEND, TimeMode.NONE)
    job = replace(_SOUND, steps=(step,), state=SessionState(settings=Settings(settings)))
    notes = review_query(job).notes
    assert sum("does not start with HDFSBackedStateStoreProvider" in note for note in notes) == noted


@pytest.mark.parametrize(
    ("zone", "window", "is_told"),
    [
        ("Europe/Berlin", ("1 day",), True),
        ("Asia/Kolkata", ("24 hours", "24 hours"), True),
        ("Europe/Berlin", ("1 day", "1 day", "23 hours"), False),
        ("Europe/Berlin", ("1 hour",), False),
        ("Europe/London", ("7 days",), True),  # in summer
        ("Etc/UTC", ("1 day",), False),
        ("", ("1 day",), False),
    ],
)
def test_window_of_a_day_that_is_not_one_of_the_sessions_zone_is_noted(
    zone: str, window: tuple[str, ...], is_told: bool
) -> None:
    def job(rows: Any) -> Any:
        if zone:
            rows.sparkSession.conf.set("spark.sql.session.timeZone", zone)
        days = rows.withWatermark("at", "1 hour").groupBy(F.window("at", *window)).count()
        return days.writeStream.format("delta").option("checkpointLocation", "/c").start("out")

    notes = review_query(record(job, "id STRING, at TIMESTAMP")).notes
    told = f"a window of {window[0]} begins at midnight of UTC, not of {zone}"
    assert any(told in note for note in notes) is is_told


def test_sound_query_is_left_alone() -> None:
    review = review_query(_SOUND)
    assert (review.findings, review.unknown) == ((), ())


@pytest.mark.parametrize("sink", ["console", "memory", "noop"])
def test_query_for_looking_gets_one_line(sink: str) -> None:
    review = review_query(query(sink, "socket", **_NO_CHECKPOINT))
    assert (review.findings, review.unknown, len(review.notes)) == ((), (), 1)
    assert f"writes to {sink} alone, which is for looking" in review.notes[0]


_SINKS: list[tuple[SparkJob, str]] = [
    (query("kafka", given=_EARLIEST, topic="t"), "let readers drop what they have seen"),
    (query("es", given=_EARLIEST), "es.mapping.id"),
    (query("mongodb", given=_EARLIEST, collection="t"), "idFieldList"),
    (query("bigquery", given=_EARLIEST), "ids of batches in memory only"),
]


@pytest.mark.parametrize(("job", "told"), _SINKS)
def test_sink_that_takes_a_batch_again_is_asked_about(job: SparkJob, told: str) -> None:
    (finding,) = review_query(job).findings
    assert (finding.kind.name, finding.finding_class) == ("repeated", FindingClass.UNDECLARED)
    assert "at least once, not exactly once" in finding.message
    assert told in str(finding)
    assert not review_query(replace(job, declares=Declares(repeated=True))).findings
    assert not review_query(job, [Cause.REPEATED]).findings


@pytest.mark.parametrize(
    "job",
    [
        query("es", given=_EARLIEST, es__mapping__id="id"),
        query("mongodb", given=_EARLIEST, idFieldList="id", collection="t"),
        query("cassandra", given=_EARLIEST, table="t"),
        query("cosmos.oltp", given=_EARLIEST),
        *(query(sink, given=_EARLIEST) for sink in ("delta", "iceberg", "hudi", "parquet", "json", "")),
    ],
)
def test_sink_that_keeps_batches_or_keys_is_not_asked_about(job: SparkJob) -> None:
    review = review_query(job)
    assert (review.findings, review.unknown) == ((), ())
    assert "https://" in review.notes[0]


@pytest.mark.parametrize(
    ("key", "drawn"),
    [
        (F.expr, ""),
        (lambda _: F.col("id"), ""),
        (lambda _: F.sha2("id", 256), ""),
        (lambda _: F.expr("uuid()"), "drawn or counted anew"),
        (lambda _: F.concat("id", F.monotonically_increasing_id().cast("string")), "drawn or counted anew"),
    ],
    ids=["clock", "column", "digest", "uuid", "counted"],
)
def test_key_that_is_drawn_anew_replaces_nothing(key: Any, drawn: str) -> None:
    def job(rows: Any) -> Any:
        keyed = rows.withColumn("key", key("current_timestamp()").cast("string"))
        return keyed.writeStream.format("es").option("es.mapping.id", "key").start("t")

    told = " ".join(finding.message for finding in review_query(record(job, "id STRING, v INT")).findings)
    assert (drawn in told) if drawn else not told


def test_sink_that_refuses_a_known_key_is_asked_about() -> None:
    job = query("es", given=_EARLIEST, es__mapping__id="id", es__write__operation="create")
    assert "fails, because the key is there" in review_query(job).findings[0].message


def test_sink_that_spark_has_none_of_is_told() -> None:
    assert (
        "does not support streamed writing"
        in review_query(query("jdbc", given=_EARLIEST)).findings[0].message
    )


def test_unknown_sink_is_unknown_unless_repeats_are_allowed() -> None:
    job = query("com.example.sink", given=_EARLIEST)
    assert "com.example.sink does with a batch" in review_query(job).unknown[0]
    assert not review_query(job, [Cause.REPEATED]).unknown


def test_each_row_has_a_name_or_a_source_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.reference.startswith("https://") for rule in RULES)
    formats = [name for row in STREAMING_SINKS for name in row.formats]
    assert len(set(formats)) == len(formats)
    assert all(row.source.startswith("https://") for row in STREAMING_SINKS)


def test_settings_are_a_tuple_of_names() -> None:
    with pytest.raises(OptionsError, match=r"\('latest',\)"):
        Declares(settings="latest")  # type: ignore[arg-type]


def test_query_without_code_is_run_and_judged_by_its_sink() -> None:
    report = call(spark_target("stream", query("kafka", given=_EARLIEST), feed=_FEED).verify)
    assert (report.job, report.sink, report.written) == (None, None, (1, 1))
    assert [finding.kind.name for finding in report.findings] == ["repeated"]
    kept = call(spark_target("stream", _SOUND, feed=_FEED).verify)
    assert (kept.findings, kept.unknown, kept.written) == ((), (), (1, 1))


def test_query_without_code_whose_filter_lets_no_row_through_is_unknown() -> None:
    report = call(spark_target("stream", _SOUND, feed=[[]]).verify)
    assert report.unknown == ("no row came to the sink: nothing could be lost or doubled",)
