"""Jobs that bring several streams together: tried like any other, with rows that say which stream they are of."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.target import TargetError
from headrace_sim.spark.declares import Declares
from tests.sim.spark.apart import call
from tests.sim.spark.processors import Processor, ms

SCHEMA = "k STRING, at TIMESTAMP"
HOUR = 3_600_000


class HourlyCounts(Processor):
    """Counts the rows of each hour."""

    def declare(self, handle: Any) -> None:
        """Make a map of counts."""
        self.counts = handle.getMapState("counts", "hour LONG", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        """Count."""
        for row in rows:
            hour = ms(row) // HOUR
            counted = self.counts.getValue((hour,)) if self.counts.containsKey((hour,)) else (0,)
            self.counts.updateValue((hour,), (counted[0] + 1,))
            self.handle.registerTimer((hour + 1) * HOUR)
        yield from ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        """Tell."""
        hour = (expiry // HOUR - 1,)
        yield self.counts.getValue(hour)
        self.counts.removeKey(hour)


def hourly(left: Any, right: Any) -> Any:
    both = left.withWatermark("at", "1 hour").union(right.withWatermark("at", "1 hour"))
    return both.groupBy("k").transformWithState(
        HourlyCounts(), "k STRING, said STRING, at TIMESTAMP", "Append", "EventTime"
    )


def at(hour: int, minute: int) -> datetime:
    return datetime(2030, 1, 1, hour, minute)


FEED = [
    [{"left": ("a", at(0, 1))}, {"right": Row(k="b", at=at(9, 1))}],
    [{"left": ("a", at(0, 2))}],
    [{"left": ("a", at(3, 3))}],
    [{"left": ("a", at(5, 0))}],
]
"""The right stream is far ahead, and then silent."""


def test_sound_job_whose_streams_are_far_apart_holds_though_a_new_driver_lags() -> None:
    report = call(spark_target("hourly", hourly, schemas=SCHEMA, feed=FEED).verify)
    assert (report.findings, report.unknown) == ((), ())


def test_rows_of_each_stream_are_drawn_in_turn() -> None:
    target = spark_target("hourly", hourly, schemas=SCHEMA)
    streams = [[value is not None for value in row] for batch in target.feed for row in batch]
    assert {tuple(streams[number]) for number in (0, 1)} == {(True, False), (False, True)}
    assert all(sum(row) == 1 for row in streams)
    assert target.verify(schedules=5).job is not None


BAD_FEEDS = {
    "no stream is named": ([[("a", at(0, 1))]], "batch 0 of the feed does not fit struct<left:"),
    "an unknown stream": (
        [[{"middle": ("a", at(0, 1))}]],
        r"the row \(None, None\) is not a row of one of: left, right",
    ),
    "two streams at once": (
        [[{"left": ("a", at(0, 1)), "right": ("b", at(0, 1))}]],
        "is not a row of one of",
    ),
    "a wrong value": ([[], [{"left": ("a", "noon")}]], "batch 1 of the feed does not fit .* 'noon'"),
    "no batches": ([("a", at(0, 1)), "b"], "the feed is no list of batches"),
    "a number": (7, "the feed is no list of batches: 7. Write it as batches of rows"),
}


@pytest.mark.parametrize("name", BAD_FEEDS)
def test_feed_that_does_not_fit_is_refused(name: str) -> None:
    feed, message = BAD_FEEDS[name]
    with pytest.raises(TargetError, match=message):
        spark_target("hourly", hourly, schemas=SCHEMA, feed=feed)


def test_batches_may_be_given_one_after_the_other() -> None:
    target = spark_target(
        "hourly", hourly, schemas=SCHEMA, feed=lambda _seed: (iter(batch) for batch in FEED)
    )
    assert [len(batch) for batch in target.feed] == [2, 1, 1, 1]


@pytest.mark.parametrize("policy", ["min", "max"])
def test_row_dropped_as_late_within_the_delay_of_its_own_stream_is_found(policy: str) -> None:
    """The right stream is an hour ahead of what the left one may still bring."""

    def counted(spark: Any, left: Any, right: Any) -> Any:
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
        return hourly(left, right)

    target = spark_target("counted", counted, schemas={"left": SCHEMA, "right": SCHEMA}, feed=FEED)
    report = target.verify(schedules=0)
    assert report.job is not None
    found = [(finding.trial.cause, finding.trial.kept) for finding in report.job.findings]
    assert (report.job.late > 0) == bool(found)
    if policy == "max":
        assert [cause for cause, _ in found] == [Cause.LATE]
        assert "dropped as late, though within the delay of its own stream" in report.job.findings[0].message
        assert target.verify(schedules=0, allow=[Cause.LATE]).job.findings == ()  # type: ignore[union-attr]


def test_row_dropped_as_late_only_because_batches_are_cut_otherwise_is_a_question() -> None:
    def counted(spark: Any, left: Any, right: Any) -> Any:
        spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
        return hourly(left, right)

    target = spark_target(
        "counted",
        counted,
        schemas={"left": SCHEMA, "right": SCHEMA},
        feed=[[row for batch in FEED for row in batch]],
    )
    claims = {(finding.kind.name, finding.finding_class) for finding in target.verify(schedules=14).findings}
    assert claims == {("late", FindingClass.UNDECLARED)}
    meant = replace(target, job=replace(target.job, declares=Declares(late=True)))
    assert meant.verify(schedules=14).findings == ()
