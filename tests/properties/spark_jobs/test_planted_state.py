"""What lasts as long as a Python worker, and what follows the clock of batches: mistakes are found, their twins hold."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.promises import never
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_sim.spark.columns.ddl import parse_schema
from tests.properties.spark_jobs.planted import MINUTE_MS, by_clock, job
from tests.properties.spark_jobs.planted_state import (
    FEED,
    PLANTED_STATE,
    SOUND,
    CacheBeforeState,
    Counts,
    CountsByClock,
    Forgets,
    _updating,
)
from tests.properties.spark_jobs.trials import found, held


@pytest.mark.parametrize("name", PLANTED_STATE)
def test_planted_mistake_is_found_and_its_twin_holds(name: str) -> None:
    trial = found(name, schedules=30)
    assert trial.is_right, trial.said
    trial = held(name, schedules=30)
    assert trial.is_right, trial.said


@pytest.mark.parametrize("name", SOUND)
def test_sound_job_is_not_accused(name: str) -> None:
    sound, allowed = SOUND[name]
    report = check_job(sound, FEED, schedules=30, allow={Cause(cause) for cause in allowed})
    assert (report.findings, report.unknown) == ((), ())


@never
def total_is_doubled(moment: Any) -> bool:
    return any(row.n > 20 for row in moment.outputs)


def test_what_is_kept_in_a_module_leads_and_the_promise_that_it_breaks_follows() -> None:
    report = check_job(job(CacheBeforeState()), FEED, schedules=40, promises=[total_is_doubled])
    assert [finding.trial.cause for finding in report.findings] == [Cause.MEMORY, Cause.PROMISE]


class CountsByStruct(CountsByClock):
    """Its key is a dict in the row API."""

    ttl_ms = 10 * MINUTE_MS

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if self.count.exists():
            yield from super().handleExpiredTimer(("a",), timerValues, expiredTimerInfo)


@pytest.mark.parametrize("key", ["STRUCT<a: STRING>", "BINARY"])
def test_key_of_any_type_is_watched(key: str) -> None:
    value: Any = b"a" if key == "BINARY" else Row(a="a")
    made = replace(by_clock(CountsByStruct()), input=parse_schema(f"k {key}, at TIMESTAMP, n INT"))
    feed = [[(value, at, n)] for _, at, n in (row for batch in FEED for row in batch)]
    assert check_job(made, feed, schedules=4).findings == ()


def test_time_mode_of_batches_without_timer_and_ttl_leaves_nothing_out() -> None:
    report = check_job(_updating(Forgets()), FEED, schedules=30, allow={Cause.GROWTH})
    assert report.left_out == ""
    assert Cause.BATCHING in {finding.trial.cause for finding in report.findings}
    assert Cause.BATCHING not in {
        finding.trial.cause for finding in check_job(_updating(Counts()), FEED, schedules=30).findings
    }
