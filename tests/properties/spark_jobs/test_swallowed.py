"""An error of a state call that the code catches is a finding, unless the code raises it, mends it, or tells of it."""

# ruff: noqa: BLE001, S110, SIM105, T201  the mistakes

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row

from headrace_properties.spark_jobs.explaining import explain_query
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobFailsError
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.spark_job import ApplyWithState, OutputMode, SparkJob, WatermarkStep
from tests.properties.spark_jobs.planted import INPUT, OUTPUT, Processor, at, by_clock

FEED = [[("a", at(1), 1), ("b", at(2), 30)], [("a", at(3), 40), ("b", at(4), 5)]]
ALLOW = {Cause.GROWTH, Cause.BATCHING, Cause.ORDER}


class Keeps(Processor):
    """Keeps large numbers, and passes small ones on."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.large = handle.getListState("large", "n INT")
        self.failures = handle.getValueState("failures", "n INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield from self.take(row)

    def take(self, row: Any) -> Iterator[Row]:
        if row.n > 25:
            self.keep(row)
        else:
            yield Row(k=row.k, n=row.n)

    def keep(self, row: Any) -> None:
        self.large.appendValue(row.n)  # no tuple


class Logs(Keeps):
    def keep(self, row: Any) -> None:
        try:
            super().keep(row)
        except Exception as error:
            print("error:", error)


class Suppresses(Keeps):
    def keep(self, row: Any) -> None:
        with suppress(TypeError):
            self.large.appendList([row.n])


class CountsForNobody(Keeps):
    def take(self, row: Any) -> Iterator[Row]:
        failed = 0
        try:
            yield from super().take(row)
        except TypeError:
            failed += 1


class CallsWhatIsNotThere(Keeps):
    def keep(self, row: Any) -> None:
        try:
            self.large.append((row.n,))
        except AttributeError:
            return


class LosesHalf(Keeps):
    """What it says of the row does not tell that the state lacks it."""

    def take(self, row: Any) -> Iterator[Row]:
        done = 0
        try:
            self.keep(row)
            done = 1
        except TypeError:
            pass
        yield Row(k=row.k, n=done)


class OnlyInOtherOrder(Keeps):
    def keep(self, row: Any) -> None:
        self.large.appendValue((row.n,))

    def take(self, row: Any) -> Iterator[Row]:
        try:
            if row.n < 25 and self.large.exists():
                self.large.put([row.n])
        except TypeError:
            pass
        yield from super().take(row)


class Raises(Keeps):
    def keep(self, row: Any) -> None:
        try:
            super().keep(row)
        except TypeError as error:
            raise ValueError(row) from error


class CatchesAnother(Keeps):
    def keep(self, row: Any) -> None:
        try:
            super().keep(row)
        except KeyError:
            pass


class YieldsTheFailure(Keeps):
    def take(self, row: Any) -> Iterator[Row]:
        try:
            yield from super().take(row)
        except TypeError:
            yield Row(k=f"failed: {row.k}", n=row.n)


class YieldsFailuresLater(Keeps):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        failed = []
        for row in rows:
            try:
                yield from self.take(row)
            except TypeError as error:
                print(error)
                failed.append(row)
        yield from (Row(k=f"failed: {row.k}", n=row.n) for row in failed)


class CountsFailures(Keeps):
    def keep(self, row: Any) -> None:
        try:
            super().keep(row)
        except TypeError:
            self.failures.update(((self.failures.get() or (0,))[0] + 1,))


class Mends(Keeps):
    def keep(self, row: Any) -> None:
        try:
            super().keep(row)
        except TypeError:
            self.large.appendValue((row.n,))


class AsksForWhatIsNotThere(Keeps):
    def keep(self, row: Any) -> None:
        append = "append" if hasattr(self.large, "append") else "appendValue"
        getattr(self.large, append)((row.n,))


@pytest.mark.parametrize(
    ("processor", "call", "lost"),
    [
        (Logs(), "large.appendValue(30) raises TypeError", "of ('b', datetime"),
        (Suppresses(), "large.appendList([30]) raises TypeError", "of ('b', datetime"),
        (
            CountsForNobody(),
            "large.appendValue(30) raises TypeError",
            "neither in its output nor in its state",
        ),
        (CallsWhatIsNotThere(), "large.append raises AttributeError", "of ('b', datetime"),
        (LosesHalf(), "large.appendValue(", "does no more than log it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Keeps) else "",
)
def test_caught_error_of_a_state_call_leads_with_its_row(processor: Keeps, call: str, lost: str) -> None:
    job = by_clock(processor)
    finding = check_job(job, FEED, schedules=1).findings[0]
    assert (finding.trial.cause, finding.trial.schedule) == (Cause.SWALLOWED, None)
    assert call in finding.message
    assert lost in finding.message
    assert len(finding.trial.kept) == 1
    again = check_again(job, FEED, finding.trial)
    assert again is not None
    assert again.message == finding.message


def test_error_that_is_caught_only_in_another_order_is_found_with_its_schedule() -> None:
    feed = [[("a", at(1), 1), ("a", at(2), 30)]]
    allow = {Cause.GROWTH, Cause.BATCHING}
    finding = check_job(by_clock(OnlyInOtherOrder()), feed, schedules=40, allow=allow).findings[0]
    assert finding.trial.cause is Cause.SWALLOWED
    assert finding.trial.schedule is not None
    job = by_clock(OnlyInOtherOrder())
    assert check_again(job, feed, finding.trial) is not None


@pytest.mark.parametrize(
    "processor",
    [YieldsTheFailure(), YieldsFailuresLater(), CountsFailures(), Mends(), AsksForWhatIsNotThere()],
    ids=lambda processor: type(processor).__name__,
)
def test_error_that_is_told_or_mended_is_none(processor: Keeps) -> None:
    with suppress(AttributeError):  # is around the check, not in the task
        assert check_job(by_clock(processor), FEED, schedules=16, allow=ALLOW).findings == ()
        return
    pytest.fail("it raised")


@pytest.mark.parametrize("processor", [Raises(), CatchesAnother()])
def test_error_that_ends_the_task_is_that_of_the_job(processor: Keeps) -> None:
    with pytest.raises(JobFailsError):
        check_job(by_clock(processor), FEED, schedules=1)


def test_call_that_raises_is_in_the_explanation() -> None:
    finding = check_job(by_clock(Logs()), FEED, schedules=1).findings[0]
    lines = list(explain_query(by_clock(Logs()), FEED, finding.trial).paragraphs())
    assert any("large.appendValue(30)" in line and "TypeError" in line for line in lines)


def test_caught_error_can_be_meant() -> None:
    assert check_job(by_clock(Logs()), FEED, schedules=1, allow=ALLOW | {Cause.SWALLOWED}).findings == ()


def goes_by_the_error(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    try:
        (before,) = state.get
    except ValueError:
        before = 0
    state.update((before + sum(map(len, frames)),))
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def gives_no_row(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    list(frames)
    try:
        state.update(None)
    except Exception:
        pass
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def timeout_behind_the_watermark(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    list(frames)
    state.update((1,))
    try:
        state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs() - 1, 1))
    except ValueError:
        pass
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


@pytest.mark.parametrize(
    ("function", "called"),
    [
        (goes_by_the_error, ""),
        (gives_no_row, "state.update(None)"),
        (timeout_behind_the_watermark, "state.setTimeoutTimestamp("),
    ],
)
def test_errors_of_a_group_state_are_heard(function: Any, called: str) -> None:
    step = ApplyWithState(
        function, ("k",), OUTPUT, parse_schema("n INT"), OutputMode.APPEND, "EventTimeTimeout", "here:1"
    )
    job = SparkJob(INPUT).then(WatermarkStep("at", 0, INPUT)).then(step)
    findings = check_job(job, [[row] for batch in FEED for row in batch], schedules=1, allow=ALLOW).findings
    assert [
        finding.message[: len(called)] for finding in findings if finding.trial.cause is Cause.SWALLOWED
    ] == ([called] if called else [])
