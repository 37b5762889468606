"""Promises about jobs: asked after each batch and at the end of each run, shrunk, and replayed."""

import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace_properties.kept_failures import KeptFailures
from headrace_properties.promises import (
    PromiseError,
    Unexercised,
    always,
    at_end,
    eventually,
    expected,
    never,
    sometimes,
)
from headrace_properties.promises.call_watch import CallWatch
from headrace_properties.query_search import Again, QuerySearch
from headrace_properties.replays import ReplayFile
from headrace_properties.spark_jobs import promised
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobReport
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.outcomes import check_again, check_job
from headrace_properties.spark_jobs.promised import check_promises_of_job
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.target import SparkSource
from tests.properties.spark_jobs.planted import FEED, MENDED, SumOfCall, job, minute_of


@expected(table="output")
def sum_of_each_minute(rows: tuple[Any, ...]) -> Iterable[tuple[str, int]]:
    """Each minute has its sum, but for the last, which nothing has ended."""
    sums: dict[tuple[str, int], int] = {}
    for row in rows:
        sums[row.k, minute_of(row)] = sums.get((row.k, minute_of(row)), 0) + row.n
    latest = max(map(minute_of, rows))
    return [(key, total) for (key, minute), total in sums.items() if minute < latest]


@always
def totals_stay_small(moment: Any) -> bool:
    return all(row.n < 5 for row in moment.outputs)


@never
def anything_is_late(moment: Any) -> bool:
    return bool(moment.late)


@sometimes
def state_is_empty(moment: Any) -> bool:
    """It never is while there was a row of z."""
    return any(row.k == "z" for row in moment.rows) and not moment.state


@at_end
def state_is_read(moment: Any) -> bool:
    return ("sum", ("z",)) in moment.state


def _report(promises: list[Any], tried: Any = MENDED) -> JobReport:
    return check_job(tried, FEED, schedules=40, allow={Cause.BATCHING, Cause.GROWTH}, promises=promises)


def test_promises_that_are_kept_hold() -> None:
    assert _report([sum_of_each_minute, anything_is_late, state_is_read]).findings == ()


def test_job_with_unexpected_output_is_reported_with_the_smallest_feed() -> None:
    finding = _report([sum_of_each_minute], job(SumOfCall())).findings[0]
    assert (finding.kind.title, len(finding.trial.kept)) == ("the promise sum_of_each_minute", 1)
    assert "at the end: not expected: ('a', 1); with 1 row in batches of 1, undisturbed" in finding.message
    assert "test_promised.py:" in str(finding.place)


def test_promise_is_asked_after_each_batch() -> None:
    finding = _report([totals_stay_small]).findings[0]
    assert "after batch 3: totals_stay_small: this is not so" in finding.message
    again = check_again(MENDED, FEED, finding.trial, [totals_stay_small])
    assert again is not None
    assert again.message == finding.message


def test_sometimes_that_never_came_true_is_unknown() -> None:
    assert _report([state_is_empty]).unknown == ("the promise state_is_empty never came true",)


def test_replay_file_has_the_promise_and_refuses_one_that_is_gone(tmp_path: Path) -> None:
    target = spark_target(f"{__name__}:MENDED", MENDED, feed=FEED, promises=[totals_stay_small])
    report = target.verify(schedules=20)
    trials = QuerySearch(target, lambda _: target, SparkSource(target.name, feed="FEED"), 0)
    data = trials.replay(report.findings[0])
    assert data is not None
    replay = msgspec.json.decode(data, type=ReplayFile)
    assert isinstance(replay.trial, QueryTrial)
    assert replay.trial.promise == "totals_stay_small"
    found = Again(replay, replay.trial, target).finding
    assert found is not None
    assert found.kind.title == report.findings[0].kind.title
    gone = spark_target("x:y", MENDED, feed=FEED, promises=[])
    assert "which the module no longer makes" in Again(replay, replay.trial, gone).wrong
    kept = KeptFailures(tmp_path, trials.source)
    path = kept.keep(data)
    (retried,) = QuerySearch(gone, lambda _: gone, trials.source, 0).retry(kept)
    assert (retried.path, retried.passed, "cannot be run" in str(retried)) == (path, False, True)


@eventually(within_us=1)
def in_time(moment: Any) -> bool:
    return True


@always(of="counter")
def of_a_computation(moment: Any) -> bool:
    return True


@always
def raises(moment: Any) -> bool:
    return bool(moment.nothing)


@always
def returns_what_is_wrong(moment: Any) -> Any:
    return [row for row in moment.outputs if row.n < 0]


@never
def forgets_to_return(moment: Any) -> None:
    any(row.n < 0 for row in moment.outputs)


@at_end
def drains_state(moment: Any) -> bool:
    moment.state.clear()
    return not moment.state


@at_end
def negative_rows_are_dropped(moment: Any) -> bool:
    if all(row.n >= 0 for row in moment.rows):
        raise Unexercised("no row is below 0")
    return all(row.n >= 0 for row in moment.outputs)


@always
def great_rows_are_told(moment: Any) -> bool:
    return all(row.n < 9_000 or bool(moment.outputs) for row in moment.rows)


def test_promise_whose_case_never_came_up_is_unknown() -> None:
    (told,) = _report([great_rows_are_told]).unknown
    assert told.startswith("the promise great_rows_are_told was not tested: its case did not come up")


def test_promise_that_no_run_tested_is_unknown() -> None:
    report = _report([negative_rows_are_dropped])
    assert (report.findings, report.unknown) == (
        (),
        ("the promise negative_rows_are_dropped was not tested: no row is below 0",),
    )


@pytest.mark.parametrize(
    ("promises", "told"),
    [
        ([in_time], "is of kind eventually"),
        ([of_a_computation], "names a computation or a stream"),
        (raises, "is a Promise, not a list of promises"),
        ([minute_of], "is a function, not a promise. Decorate"),
        ([raises, raises], "name of another promise"),
    ],
)
def test_promise_that_cannot_be_asked_is_refused(promises: Any, told: str) -> None:
    with pytest.raises(PromiseError, match=told):
        check_promises_of_job(promises)


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        (raises, r"'raises' \(test_promised.py, line \d+\) raises AttributeError"),
        (returns_what_is_wrong, r"returned \[\]. Return True or False, or nothing"),
        (forgets_to_return, "returned None. Return True or False"),
        (drains_state, "changes what it is given"),
    ],
)
def test_wrong_promise_is_not_a_finding(promise: Any, told: str) -> None:
    with pytest.raises(PromiseError, match=told):
        _report([promise])


def test_promise_that_never_returns_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    @always
    def hangs(_moment: Any) -> bool:
        while True:
            with suppress(Exception):
                signal.sigtimedwait([], 0.01)

    monkeypatch.setattr(promised, "CallWatch", lambda: CallWatch(0.02))
    with pytest.raises(PromiseError, match=r"did not return within 0.02 s"):
        _report([hangs])
