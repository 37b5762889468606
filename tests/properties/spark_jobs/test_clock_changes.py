"""The hour that comes twice: a query that groups by a local text takes its rows for one time, and one by instants does not."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.spark_jobs.clock_changes import told_of_double_hour
from headrace_properties.spark_jobs.named_targets import spark_target

OF_HOUR = "date_format(at, 'yyyy-MM-dd HH')"


@pytest.mark.parametrize(
    ("zone", "hour", "told"),
    [
        ("Europe/Berlin", OF_HOUR, "Europe/Berlin is put back, 02:30"),
        ("America/New_York", OF_HOUR, "America/New_York is put back, 01:30"),
        ("Europe/Berlin", "window(at, '1 hour')", ""),
        ("Europe/Berlin", "date_trunc('hour', at)", ""),
        ("Europe/Berlin", "to_date(at)", ""),
        ("Asia/Kolkata", OF_HOUR, ""),
        ("", OF_HOUR, ""),
    ],
)
def test_hours_that_become_one_are_told(zone: str, hour: str, told: str) -> None:
    def job(rows: Any) -> Any:
        if zone:
            rows.sparkSession.conf.set("spark.sql.session.timeZone", zone)
        counts = rows.groupBy(F.expr(hour)).count()
        return counts.writeStream.outputMode("update").format("memory").queryName("counts").start()

    target = spark_target("job", job, schemas="id STRING, at TIMESTAMP", feed=[[("a", datetime(2030, 1, 1))]])
    notes = [*told_of_double_hour(target)]
    assert len(notes) == bool(told)
    assert all(told in note for note in notes)
