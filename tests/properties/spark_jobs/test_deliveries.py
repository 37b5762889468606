"""What the source, the clock and the checkpoint may do to a job; and a wrong simulated Spark is noticed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobReport
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_sim import FeedSource
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.query import streaming_query
from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.state.stores import Store
from tests.properties.spark_jobs.planted import (
    FEED,
    MENDED,
    Processor,
    SumByMinute,
    again,
    at,
    by_clock,
    job,
    minute_of,
)
from tests.properties.spark_jobs.planted_state import FirstOfKeyForAnHour


class FirstToArrive(Processor):
    """Keeps the first row of a key that arrives; the rows of a call it sorts."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        first = min(row.n for row in rows)
        if not self.sum.exists():
            self.sum.updateValue((0,), (first,))
        yield from ()


class ClockOfBatch(Processor):
    """Rounds the clock of the batch to the hour."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(k=key[0], n=timerValues.getCurrentProcessingTimeInMs() // 3_600_000 % 24 + row.n)


class SumOfIds(SumByMinute):
    """Counts each row once, by what tells it from others."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.seen = handle.getMapState("seen", "minute LONG, n INT", "x INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        new = []
        for row in rows:
            if not self.seen.containsKey((minute_of(row), row.n)):
                self.seen.updateValue((minute_of(row), row.n), (1,))
                new.append(row)
        yield from super().handleInputRows(key, iter(new), timerValues)


class WritesLog(SumByMinute):
    """Logs to a file of its own."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        with Path("rows.log").open("a") as log:
            log.write(f"{key}\n")
        yield from super().handleInputRows(key, rows, timerValues)


ONE_BY_ONE = [[("a", at(1), 1)], [("a", at(2), 2)], [("b", at(3), 3)]]
ONCE_EACH_KEY = [[("a", at(1), 1)], [("b", at(2), 2)], [("c", at(3), 3)]]
ALLOW = frozenset({Cause.GROWTH})


def _causes(report: JobReport) -> list[Cause]:
    return [finding.trial.cause for finding in report.findings]


def test_delayed_row_breaks_only_jobs_that_depend_on_arrival() -> None:
    finding = check_job(job(FirstToArrive()), ONE_BY_ONE, schedules=60, allow=ALLOW).findings[0]
    assert finding.trial.cause is Cause.ORDER
    assert finding.trial.schedule is not None
    assert finding.trial.schedule.delayed == (0,)
    assert "comes two batches later" in finding.message


def test_jumping_batch_clock_breaks_only_jobs_that_use_it() -> None:
    assert _causes(check_job(job(ClockOfBatch()), ONE_BY_ONE, schedules=20)) == [Cause.CHANCE]


def test_duplicated_row_counts_once_where_ids_are_kept() -> None:
    assert _causes(check_job(again(MENDED), FEED, schedules=40)) == [Cause.DUPLICATES]
    once = check_job(again(job(SumOfIds())), FEED, schedules=60, allow=ALLOW)
    assert _causes(once) == []


def test_effect_in_a_task_is_found_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finding = check_job(job(WritesLog()), ONE_BY_ONE, schedules=5, allow=ALLOW).findings[0]
    assert (finding.trial.cause, len(finding.trial.kept)) == (Cause.EFFECT, 1)
    assert "test_deliveries.py:" in str(finding.place)
    assert "writes the file 'rows.log', which a task that is run again repeats" in finding.message


def test_restored_checkpoint_runs_batches_again_to_the_same_outcome() -> None:
    calm = run_job(MENDED, FEED)
    fault = ScheduledFault(FaultKind.CHECKPOINT_RESTORED, batch=2, delay=1)
    restored = run_job(MENDED, FEED, Schedule(faults=(fault,)))
    assert (restored.outputs, restored.state, restored.watermark_ms) == (
        calm.outputs,
        calm.state,
        calm.watermark_ms,
    )
    assert [call.batch for call in restored.sink_calls] == [0, 1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("within_s", "claims"),
    [
        (3600, {}),
        (7200, {Cause.FORGOTTEN: FindingClass.VIOLATED}),
        (None, {Cause.FORGOTTEN: FindingClass.UNDECLARED}),
    ],
)
def test_row_that_comes_again_after_the_ttl_that_tells_it_is_found_as_its_source_promises(
    within_s: int | None, claims: dict[Cause, FindingClass]
) -> None:
    source = FeedSource(once=False, again_within_s=within_s)
    first = replace(by_clock(FirstOfKeyForAnHour()), declares=Declares(source=source))
    report = check_job(again(first), ONCE_EACH_KEY, schedules=4)
    assert {found.trial.cause: found.finding_class for found in report.findings} == claims
    for found in report.findings:
        assert check_again(first, ONCE_EACH_KEY, found.trial) == found
        assert "again two batches later, " in found.message


def test_what_a_row_long_after_the_ttl_does_is_told_where_nobody_said_that_rows_come_again() -> None:
    first = by_clock(FirstOfKeyForAnHour())
    report = check_job(first, ONCE_EACH_KEY, schedules=4)
    assert report.findings == ()
    assert ["when its id is forgotten" in note for note in report.notes] == [True]
    once = replace(first, declares=Declares(source=FeedSource(once=True)))
    assert check_job(once, ONCE_EACH_KEY, schedules=4).notes == ()


def _dirty_retry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "copy", lambda self: self)


def _keeps_state_of_what_died(patch: pytest.MonkeyPatch) -> None:
    driven = streaming_query._Query._driven

    def wrong(self: Any, batch: Any) -> Any:
        done = driven(self, batch)
        if done is None:  # the driver died: its state was written nevertheless
            self._state = self._execute(batch)[1].state
        return done

    patch.setattr(streaming_query._Query, "_driven", wrong)


def _forgets_the_backup(patch: pytest.MonkeyPatch) -> None:
    restore = streaming_query._Query.go_on_from

    def wrong(self: Any, backup: Any) -> None:
        state = self._state
        restore(self, backup)
        self._state = state

    patch.setattr(streaming_query._Query, "go_on_from", wrong)


def _zombie_writes_state(patch: pytest.MonkeyPatch) -> None:
    give = streaming_query._Query._give

    def wrong(self: Any, batch: Any, rows: Any, *, zombie: bool = False) -> None:
        give(self, batch, rows, zombie=zombie)
        if zombie:
            self._state = self._execute(batch)[1].state
            self._tell_state()

    patch.setattr(streaming_query._Query, "_give", wrong)


@pytest.mark.parametrize(
    "broken", [_dirty_retry, _keeps_state_of_what_died, _forgets_the_backup, _zombie_writes_state]
)
def test_spark_that_fails_wrongly_is_noticed_and_the_right_one_is_not(
    broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _causes(check_job(MENDED, FEED, schedules=60)) == []
    broken(monkeypatch)
    assert Cause.FAULTS in _causes(check_job(MENDED, FEED, schedules=120))
