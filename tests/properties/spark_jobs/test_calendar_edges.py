"""Days that a calendar has and code forgets: a clock that is put back or forward, and the ends of months.

A job that takes two times for one is told so, one that fails on such a day is violated, and their sound twins are left alone.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from pyspark.sql import functions as F

from headrace_properties.findings import Finding
from headrace_properties.spark_jobs.calendar_edges import by_calendar
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_sim.deliveries import at_instant

OF_HOUR = "date_format(at, 'yyyy-MM-dd HH')"
OF_TEXT = "to_timestamp(get_json_object(value, '$.at'))"


def _by(group: str, zone: str) -> Callable[[Any], Any]:
    def job(rows: Any) -> Any:
        if zone:
            rows.sparkSession.conf.set("spark.sql.session.timeZone", zone)
        counts = rows.groupBy(F.expr(group)).count()
        return counts.writeStream.outputMode("update").format("memory").queryName("counts").start()

    return job


def _told(job: Callable[..., Any], schemas: str = "id STRING, at TIMESTAMP", row: Any = None) -> list[Any]:
    target = spark_target("job", job, schemas=schemas, feed=[[row or ("a", datetime(2030, 1, 1))]])
    return [*by_calendar(target)]


@pytest.mark.parametrize(
    ("zone", "group", "told"),
    [
        ("Europe/Berlin", OF_HOUR, "Europe/Berlin is put back, 02:30"),
        ("America/New_York", OF_HOUR, "America/New_York is put back, 01:30"),
        ("Europe/Berlin", "window(at, '1 hour')", ""),
        ("Europe/Berlin", "date_trunc('hour', at)", ""),
        ("Europe/Berlin", "to_date(at)", ""),
        ("Asia/Kolkata", OF_HOUR, ""),
        ("", OF_HOUR, ""),
        ("Europe/Berlin", "window(at, '1 day', '1 day', '23 hours')", "is put forward, 2030-03-31 12:00 and 2030-04-01 00:30"),
        ("Europe/Berlin", "window(at, '1 day', '1 day', '22 hours')", "is put back, 2030-10-27 12:00 and 2030-10-27 23:30"),
        ("Europe/Berlin", "session_window(at, '12 hours')", ""),
        ("Europe/Berlin", "add_months(to_date(at), 1)", "January 28 and 31"),
        ("", "substring(add_months(to_date(at), 12), 1, 10)", "February 28 and 29"),
        ("", "add_months(date_trunc('month', at), 1)", ""),
        ("", "last_day(at)", ""),
        ("", "window(at, '30 days')", ""),
        ("", "window(at, '4 days')", ""),
        ("", "window(at, '6 days')", ""),
        ("", "dayofmonth(at)", ""),
    ],
)  # fmt: skip
def test_times_that_become_one_are_told(zone: str, group: str, told: str) -> None:
    notes = _told(_by(group, zone))
    assert len(notes) == bool(told), notes
    assert all(told in note for note in notes)


@pytest.mark.parametrize(
    ("at", "group", "told"),
    [
        (
            "2030-01-01 10:00:00",
            OF_TEXT,
            "put forward, 02:30 does not exist, and its text is taken for 03:30",
        ),
        ("2030-01-01T10:00:00Z", OF_TEXT, ""),
        ("2030-01-01 10:00:00", "substring(get_json_object(value, '$.at'), 1, 13)", ""),
    ],
)
def test_text_of_an_hour_that_is_left_out_is_told(at: str, group: str, told: str) -> None:
    notes = _told(_by(group, "Europe/Berlin"), "value STRING", (json.dumps({"id": 1, "at": at}),))
    notes = [note for note in notes if "put back" not in note]  # the text says the hour once, too
    assert len(notes) == bool(told), notes
    assert all(told in note for note in notes)


def _next_month(day: date) -> date:
    return day.replace(month=day.month % 12 + 1)


def _end_of_next_month(day: date) -> date:
    first = day.replace(day=28) + timedelta(days=4)
    return min(first.replace(day=1) + timedelta(days=day.day - 1), first.replace(day=28))


def _next_year(day: date) -> date:
    return day.replace(year=day.year + 1)


def _at_half_past_two(day: date) -> date:
    at = datetime(day.year, day.month, day.day, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    if at.astimezone(UTC).astimezone(at.tzinfo) != at:
        raise ValueError("no such time")
    return day


def _renewing(renewed: Callable[[date], date]) -> Callable[[Any], Any]:
    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(at=[renewed(at.date()) for at in frame["at"]])

    def job(rows: Any) -> Any:
        rows.sparkSession.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        renewals = rows.mapInPandas(run, "id STRING, at DATE")
        return renewals.writeStream.format("memory").queryName("renewals").start()

    return job


@pytest.mark.parametrize(
    ("renewed", "day"),
    [(_next_month, "2029-01-31"), (_next_year, "2028-02-29"), (_at_half_past_two, "2030-03-31"), (_end_of_next_month, "")],
)  # fmt: skip
def test_code_that_fails_on_a_day_that_will_come_is_violated(
    renewed: Callable[[date], date], day: str
) -> None:
    found = [each for each in _told(_renewing(renewed)) if isinstance(each, Finding)]
    assert len(found) == bool(day), found
    assert all(f"fails on one of {day}" in each.message for each in found)


def _kept_by(renewed: Callable[[date], date]) -> Callable[[Any, int], None]:
    def sink(rows: Any, _batch: int) -> None:
        with sqlite3.connect("db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS renewals (day PRIMARY KEY, id)")
            kept = [(str(renewed(row.at.date())), row.id) for row in rows.collect()]
            db.executemany("INSERT OR REPLACE INTO renewals VALUES (?, ?)", kept)

    return sink


@pytest.mark.parametrize(
    ("renewed", "told"),
    [
        (lambda day: _next_month(day.replace(day=min(day.day, 28))), "January 28 and 31"),
        (lambda day: day, ""),
        (_next_month, "fails on one of 2029-01-31"),
    ],
)
def test_sink_is_tried_on_such_days(renewed: Callable[[date], date], told: str) -> None:
    found = _told(_kept_by(renewed))
    assert len(found) == bool(told), found
    assert all(told in str(each) for each in found)


def test_each_form_of_a_time_is_moved() -> None:
    at, wall = datetime(2030, 3, 31, 1, 30, tzinfo=UTC), datetime(2030, 3, 31, 3, 30)
    given = (
        "2024-01-01T08:00:00Z",
        "2024-01-01 08:00",
        b'{"at":1700000000000}',
        1_700_000_000,
        date(2024, 1, 1),
        "a1",
    )
    moved = (
        "2030-03-31T01:30:00Z",
        "2030-03-31 03:30",
        b'{"at":1901151000000}',
        1_901_151_000,
        wall.date(),
        "a1",
    )
    assert at_instant(given, at, wall) == moved
