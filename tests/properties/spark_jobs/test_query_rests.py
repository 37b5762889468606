"""A query that rests for longer than its TTLs and timers: what fails then is found, and what stops is told."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_sim.deliveries import FeedSource
from headrace_sim.spark.declares import Declares
from tests.properties.spark_jobs.planted import MINUTE_MS, Processor, at, by_clock
from tests.properties.spark_jobs.planted_state import CountsByClock

FEED = [[("a", at(1), 1)], [("b", at(2), 2)], [("a", at(3), 3)]]


class ChangeOfAmount(Processor):
    """Reads what it takes to be there as long as the count is, and has another TTL."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "n INT", ttlDurationMs=60 * MINUTE_MS)
        self.count = handle.getValueState("count", "n INT", ttlDurationMs=120 * MINUTE_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            before = self.before()
            self.last.update((row.n,))
            self.count.update((1,))
            yield Row(k=key[0], n=row.n - before)

    def before(self) -> int:
        return int(self.last.get()[0]) if self.count.exists() else 0


class ChangeSinceAnHour(ChangeOfAmount):
    def before(self) -> int:
        return int(self.last.get()[0]) if self.last.exists() else 0


class CountsForTenMinutes(CountsByClock):
    """Its timer fires after a minute, but after a stop of ten it finds nothing."""

    ttl_ms = 10 * MINUTE_MS


class CountsWhatIsThere(CountsForTenMinutes):
    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if self.count.exists():
            yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)


_IN_ORDER = Declares(source=FeedSource(ordered=True))


@pytest.mark.parametrize(
    ("wrong", "sound", "rest"),
    [
        (ChangeOfAmount(), ChangeSinceAnHour(), "1:00:01"),
        (CountsForTenMinutes(), CountsWhatIsThere(), "0:10:01"),
    ],
)
def test_code_that_fails_after_a_rest_is_found_and_its_twin_holds(wrong: Any, sound: Any, rest: str) -> None:
    job = replace(by_clock(wrong), declares=_IN_ORDER)
    (finding,) = check_job(job, FEED, schedules=4).findings
    assert finding.kind == Cause.ERROR.kind()
    assert f"a rest of {rest} (h:min:s) behind batch 0" in finding.message
    assert check_again(job, FEED, finding.trial) is not None
    sound_job = replace(by_clock(sound), declares=_IN_ORDER)
    assert check_job(sound_job, FEED, schedules=4).findings == ()


def test_timers_that_are_due_when_a_stopped_query_goes_on_are_told() -> None:
    notes = check_job(by_clock(CountsByClock()), [FEED[0], FEED[0]], schedules=4).notes
    told = [note for note in notes if "in the first batch after a stop, rows come before the timers" in note]
    assert len(told) == 1
    assert "the output has ('a', 2) instead of ('a', 1), ('a', 1)" in told[0]
