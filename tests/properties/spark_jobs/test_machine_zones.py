"""What follows the machine's time zone beside a session that has one is asked; without one, it is told."""

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.machine_zones import by_machine_zone
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.targets import SparkTarget

SCHEMA = "id STRING, at TIMESTAMP, s LONG"
FEED = [[("a", datetime(2030, 1, 1, 12), 1_900_000_000)], [("b", datetime(2030, 1, 2, 3), 1_900_050_000)]]


def _write(df: DataFrame, day: Any) -> None:
    with sqlite3.connect("days.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS days (id TEXT PRIMARY KEY, day TEXT)")
        rows = [(row.id, day(row)) for row in df.collect()]
        db.executemany("INSERT OR REPLACE INTO days VALUES (?, ?)", rows)


def naive_day(df: DataFrame, batch_id: int) -> None:
    _write(df, lambda row: row["at"].date().isoformat())


def day_of_the_session(df: DataFrame, batch_id: int) -> None:
    _write(df.withColumn("day", F.to_date("at").cast("string")), lambda row: row.day)


def local_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).date().isoformat()


def utc_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _target(zone: str, write: Any) -> SparkTarget:
    def job(rows: DataFrame) -> Any:
        if zone:
            SparkSession.builder.getOrCreate().conf.set("spark.sql.session.timeZone", zone)
        if not isinstance(write, str | list):
            return rows.writeStream.foreachBatch(write).start()
        columns = [
            F.expr(write) if isinstance(write, str) else F.udf(write[0], "string", useArrow=False)("s")
        ]
        return rows.select("id", "at", *columns).writeStream.format("delta").start("out")

    return spark_target("job", job, schemas=SCHEMA, feed=FEED)


@pytest.mark.parametrize(
    ("zone", "write", "claim"),
    [
        ("Europe/Berlin", naive_day, FindingClass.UNDECLARED),
        ("Europe/Berlin", day_of_the_session, None),
        ("", naive_day, None),
        ("UTC", [local_day], FindingClass.UNDECLARED),
        ("UTC", [utc_day], None),
        ("", [local_day], FindingClass.NOTE),
        ("", "to_date(at)", FindingClass.NOTE),
        ("UTC", "to_date(at)", None),
        ("", "date_trunc('minute', at)", None),
        ("", "unix_timestamp(at)", None),
    ],
)
def test_outcome_that_follows_the_machine_is_asked_beside_a_session_with_a_zone(
    zone: str, write: Any, claim: FindingClass | None
) -> None:
    found = by_machine_zone(_target(zone, write))
    assert (found and found.finding_class) is claim, found
    if found is not None:
        assert found.kind.name == Cause.ZONE.value
        whose = f"the session's is {zone}" if zone else "spark.sql.session.timeZone is not set"
        assert f"depends on the machine's time zone, and {whose}: on a machine" in found.message


def test_rows_that_the_same_date_has_everywhere_are_not_accused() -> None:
    target = replace(_target("UTC", [local_day]), feed=[[("a", datetime(2030, 1, 1), None)]])
    assert by_machine_zone(target) is None
