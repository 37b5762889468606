"""Queries whose only state is Spark's own: what is told of them, and the sound twins that are left alone."""

import sqlite3
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.targets import SparkReport
from headrace_properties.target_kinds import TargetKind
from headrace_sim.spark.declares import Declares

SCHEMA = "word STRING, at TIMESTAMP, n INT"
_START = datetime(2030, 1, 1)


def verified(
    build: Any, feed: Any = None, declares: Declares | None = None, schemas: Any = SCHEMA
) -> SparkReport:
    rows = (
        None
        if feed is None
        else [[(word, _START + timedelta(minutes=at), n) for word, at, n in batch] for batch in feed]
    )
    return spark_target("job", build, schemas=schemas, feed=rows, declares=declares).verify(
        schedules=24, overtaken=False
    )


def found_in(report: SparkReport) -> dict[str, FindingClass]:
    return {finding.kind.name: finding.kind.finding_class for finding in report.findings}


def started(frame: Any, mode: str = "append") -> Any:
    return frame.writeStream.outputMode(mode).format("console").start()


def counted(frame: Any, *groups: Any) -> Any:
    return frame.groupBy(*groups).agg(F.count("*").alias("rows"), F.sum("n").alias("total"))


def in_windows(delay: str = "10 minutes", mode: str = "append") -> Any:
    return lambda events: started(
        counted(events.withWatermark("at", delay), F.window("at", "5 minutes"), "word"), mode
    )


def near(how: str, bound: str = "clicked BETWEEN at AND at + INTERVAL 1 HOUR") -> Any:
    def build(views: Any, clicks: Any) -> Any:
        seen = views.withWatermark("at", "1 hour")
        then = clicks.select(F.col("word").alias("key"), F.col("at").alias("clicked")).withWatermark(
            "clicked", "1 hour"
        )
        return started(seen.join(then, F.expr(f"word = key AND {bound}"), how))

    return build


BOTH = {"views": SCHEMA, "clicks": SCHEMA}
SOUND = {
    "windows": (in_windows(), SCHEMA),
    "windows, updated": (in_windows(mode="update"), SCHEMA),
    "sessions": (
        lambda events: started(
            counted(events.withWatermark("at", "1 minute"), F.session_window("at", "5 minutes"), "word")
        ),
        SCHEMA,
    ),
    "windows of windows": (
        lambda events: started(
            counted(events.withWatermark("at", "1 minute"), F.window("at", "5 minutes"))
            .groupBy(F.window("window", "1 hour"))
            .agg(F.max("rows").alias("most"))
        ),
        SCHEMA,
    ),
    "once at a time": (
        lambda events: started(events.withWatermark("at", "1 hour").dropDuplicates(["word", "at"])),
        SCHEMA,
    ),
    "once within the watermark": (
        lambda events: started(events.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["word"])),
        SCHEMA,
    ),
    "the time of a batch": (
        lambda events: started(
            events.withWatermark("at", "10 minutes")
            .withColumn("seen", F.current_timestamp())
            .groupBy(F.window("at", "5 minutes"))
            .agg(F.max("seen").alias("seen"), F.expr("max(concat('at ', now()))").alias("told")),
            "update",
        ),
        SCHEMA,
    ),
    "one group": (lambda events: started(counted(events), "update"), SCHEMA),
    "join": (near("inner"), BOTH),
    "left join": (near("left_outer"), BOTH),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_query_of_sparks_own_operators_holds(name: str) -> None:
    build, schemas = SOUND[name]
    report = verified(build, schemas=schemas)
    assert not report.findings
    assert not report.unknown
    assert report.job is not None
    assert report.job.schedules == 24


GROWING = {
    "groupBy()": lambda events: started(counted(events, "word"), "update"),
    "complete": lambda events: started(
        counted(events.withWatermark("at", "1 minute"), F.window("at", "5 minutes")), "complete"
    ),
    "windows of a text": lambda events: started(
        counted(events.withColumn("text", F.col("at").cast("string")), F.window("text", "5 minutes")),
        "update",
    ),
    "another time": lambda events: started(
        counted(
            events.withWatermark("at", "1 minute").withColumn(
                "other", F.col("at") + F.expr("INTERVAL 1 DAY")
            ),
            F.window("other", "5 minutes"),
        ),
        "update",
    ),
    "dropDuplicates()": lambda events: started(events.withWatermark("at", "1 hour").dropDuplicates(["word"])),
    "join()": lambda events: started(events.join(events.select("word", F.col("n").alias("m")), "word")),
}


@pytest.mark.parametrize("name", GROWING)
def test_state_that_no_watermark_bounds_is_a_question(name: str) -> None:
    report = verified(GROWING[name])
    assert found_in(report) == {"growth": FindingClass.UNDECLARED}
    (finding,) = report.findings
    assert "no watermark bounds the state of" in finding.message
    assert finding.place is not None
    assert finding.place.file.endswith("test_sparks_own.py")
    assert not verified(GROWING[name], declares=Declares(bounded_by="few words")).findings


def test_state_without_a_bound_is_asked_about_though_no_row_comes_to_it() -> None:
    report = verified(lambda events: started(counted(events.filter("n < 0"), "word"), "complete"))
    assert found_in(report) == {"growth": FindingClass.UNDECLARED}


REFUSED = {
    "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] append mode without a watermark": (
        lambda events: started(counted(events, F.window("at", "5 minutes"))),
        SCHEMA,
    ),
    "Stream-stream left join": (near("left_outer", "n IS NOT NULL"), BOTH),
    "Sorting is not supported": (
        lambda events: started(counted(events, "word").orderBy("word"), "update"),
        SCHEMA,
    ),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_query_that_spark_refuses_is_violated_at_its_line(problem: str) -> None:
    build, schemas = REFUSED[problem]
    report = verified(build, schemas=schemas)
    assert found_in(report) == {"error": FindingClass.VIOLATED}
    (finding,) = report.findings
    assert problem in finding.message
    assert finding.place is not None
    assert finding.place.file.endswith("test_sparks_own.py")


DISORDERLY = (
    (("a", 0, 1), ("b", 30, 2), ("a", 3, 4)),
    (("a", 60, 8), ("b", 120, 16)),
    (("c", 240, 32),),
    (("c", 600, 64),),
)
"""A row comes half an hour behind another one of its batch."""


def test_rows_that_some_cuts_drop_as_late_are_a_question() -> None:
    report = verified(in_windows("10 minutes"), DISORDERLY)
    assert found_in(report) == {"late": FindingClass.UNDECLARED}
    assert "withWatermark()" in report.findings[0].remedy
    assert not verified(in_windows("10 minutes"), DISORDERLY, Declares(late=True)).findings
    assert not verified(in_windows("1 hour"), DISORDERLY).findings


def test_order_is_not_tried_where_spark_keeps_the_first_row() -> None:
    feed = ((("a", 0, 1), ("a", 1, 2)), (("b", 2, 3),))
    report = verified(
        lambda events: started(events.dropDuplicates(["word"])), feed, Declares(bounded_by="few words")
    )
    assert not report.findings
    assert report.job is not None
    assert "keeps whichever row of a key comes first" in report.job.left_out


def test_window_that_the_watermark_never_passes_is_unknown_and_says_why() -> None:
    report = verified(in_windows("1 day"), DISORDERLY)
    assert not report.findings
    (reason,) = report.unknown
    assert "the watermark ends at 1970-01-01" in reason or "the watermark ends at 20" in reason
    assert "append mode gives out a group" in reason


def added(df: Any, batch_id: int) -> None:
    with sqlite3.connect("totals.db") as db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS totals (batch INT, word TEXT, total INT, PRIMARY KEY (batch, word))"
        )
        for row in df.collect():
            db.execute(
                "INSERT OR REPLACE INTO totals VALUES (?, ?, ?)", (batch_id, row["word"], row["total"])
            )


def upserted(df: Any, batch_id: int) -> None:
    with sqlite3.connect("totals.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS totals (word TEXT PRIMARY KEY, total INT, batch INT)")
        for row in df.collect():
            db.execute(
                "INSERT INTO totals VALUES (?1, ?2, ?3) ON CONFLICT (word) DO UPDATE SET total = ?2, batch = ?3 "
                "WHERE batch <= ?3",
                (row["word"], row["total"], batch_id),
            )


def given_to(sink: Any, mode: str) -> Any:
    return lambda events: (
        events.groupBy("word")
        .agg(F.sum("n").alias("total"))
        .writeStream.outputMode(mode)
        .foreachBatch(sink)
        .start()
    )


REVISED = ((("a", 0, 1),), (("a", 2, 4),))
AGAIN = ((("a", 0, 1),), (("a", 2, 0),))


@pytest.mark.parametrize(
    ("mode", "feed", "what"),
    [
        ("update", REVISED, "has ('a', 1) beside the newer result ('a', 5)"),
        ("complete", AGAIN, "has ('a', 1) twice"),
    ],
)
def test_revised_results_that_are_added_are_a_question(mode: str, feed: Any, what: str) -> None:
    report = verified(given_to(added, mode), feed, Declares(bounded_by="few words"))
    assert found_in(report) == {"batching": FindingClass.UNDECLARED}
    assert what in report.findings[0].message


def test_revised_results_are_meant_in_a_log_or_replace_older_ones() -> None:
    log = Declares(bounded_by="few words", running=True)
    assert not verified(given_to(added, "update"), REVISED, log).findings
    assert not verified(given_to(upserted, "update"), REVISED, Declares(bounded_by="few words")).findings


def test_query_of_sparks_own_operators_is_run_under_schedules() -> None:
    target = spark_target("job", in_windows(), schemas=SCHEMA)
    assert target.kind is TargetKind.QUERY
