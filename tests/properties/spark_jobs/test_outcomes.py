"""A job whose outcome depends on what it must not is found, with its cause; a fixed one holds in every schedule."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from headrace_properties.search.limits import CodeLimits
from headrace_properties.spark_jobs import outcomes
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobFailsError
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_properties.spark_jobs.runs import run_changed
from headrace_sim.spark.query.schedules import Schedule
from tests.properties.spark_jobs.planted import (
    FEED,
    MENDED,
    MORE,
    PLANTED,
    TOGETHER,
    CachedFunction,
    ShortTtl,
    SumByMinute,
    SumOfCall,
    SumOfFirstFrame,
    SumOfFrames,
    at,
    by_clock,
    job,
)
from tests.properties.spark_jobs.trials import found, held


@pytest.mark.parametrize("name", MORE)
def test_mistake_is_found_with_its_cause(name: str) -> None:
    planted, feed, cause = MORE[name]
    report = check_job(planted, feed, schedules=15)
    assert report.findings[0].trial.cause.value == cause, [str(finding) for finding in report.findings]


_LONG = ("append sink without batch id", "sink with two non-atomic writes")
"""Each fails for a sink, of which `tests/properties/sinks/test_sink_check.py` tries many by day."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name in _LONG else name for name in PLANTED]
)
def test_planted_mistake_is_found_and_explained_and_its_fixed_twin_holds(name: str) -> None:
    trial = found(name, schedules=20)
    assert trial.is_right, trial.said
    trial = held(name, schedules=20)
    assert trial.is_right, trial.said


def test_fixed_job_holds_in_every_schedule() -> None:
    report = check_job(MENDED, FEED, schedules=100)
    assert (report.findings, report.unknown, report.schedules, report.left_out) == ((), (), 100, "")


def test_schedule_that_is_drawn_again_counts_and_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[Cause, Schedule]] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        runs.append(arguments[2:4][::-1])
        return run_changed(*arguments, **options)

    monkeypatch.setattr(outcomes, "run_changed", counted)
    report = check_job(job(SumOfFirstFrame(), pandas=True), TOGETHER, schedules=50)
    assert len({*runs}) == len(runs) < report.schedules == 50
    (frames,) = (finding for finding in report.findings if finding.trial.cause is Cause.FRAMES)
    assert frames.trials > sum(cause is Cause.FRAMES for cause, _ in runs)


def test_cache_of_what_is_always_the_same_is_no_finding() -> None:
    assert check_job(job(CachedFunction()), FEED, schedules=40).findings == ()


def test_each_run_begins_without_what_an_earlier_one_left_in_the_module() -> None:
    planted, feed, _ = MORE["state in a module"]
    causes = {finding.trial.cause for finding in check_job(planted, feed, schedules=40).findings}
    assert Cause.PARTITIONS not in causes
    assert Cause.FAULTS not in causes


class ClearsItself(ShortTtl):
    """Finds nothing when its timer fires, because it has cleared the state itself."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        yield from super().handleInputRows(key, rows, timerValues)
        self.sum.clear()


def test_state_that_the_processor_cleared_has_not_expired() -> None:
    report = check_job(by_clock(ClearsItself()), FEED, schedules=10)
    assert report.findings == ()
    assert "delayed rows only while it stands still" in report.left_out


def test_intended_expiry_can_be_allowed() -> None:
    assert check_job(by_clock(ShortTtl()), FEED, schedules=10, allow={Cause.TTL}).findings == ()


def test_timers_that_no_watermark_fires_are_found() -> None:
    without = replace(MENDED, steps=MENDED.steps[1:])
    finding = check_job(without, FEED, schedules=1).findings[0]
    assert (finding.trial.cause, str(finding.place)) == (Cause.TIMER, "here:2")
    assert "without withWatermark() the watermark stays at 0" in str(finding)


def test_frames_are_cut_in_calls_with_more_rows_than_any_of_the_feed() -> None:
    apart = [[("a", at(1), 1)], [("a", at(2), 2)], [("a", at(3), 3)]]
    finding = check_job(job(SumOfFirstFrame(), pandas=True), apart, schedules=20).findings[0]
    assert finding.kind == Cause.FRAMES.kind()
    assert "cut into 2, 1 row in each frame" in finding.message
    assert check_job(job(SumOfFrames(), pandas=True), apart, schedules=20).findings == ()


class FramesInOtherOrder(SumOfFrames):
    def told(self, key: Any, frame: Any) -> Any:
        return super().told(key, frame)[["n", "k"]]


def test_pandas_frames_are_matched_by_the_names_of_their_columns() -> None:
    report = check_job(job(FramesInOtherOrder(), pandas=True), FEED, schedules=1)
    assert ("a", 3) in report.outcome.outputs[0]


def test_late_rows_of_the_feed_itself_are_counted_and_no_finding() -> None:
    late = [[("z", at(300), 1)], [("z", at(400), 1)], [("a", at(1), 1)], [("z", at(500), 1)]]
    report = check_job(MENDED, late, schedules=40)
    assert (report.findings, report.late) == ((), 1)


def test_finding_has_the_smallest_feed_and_the_schedule() -> None:
    finding = check_job(job(SumOfCall()), FEED, schedules=40).findings[0]
    assert len(finding.trial.kept) == 2
    assert isinstance(finding.trial.schedule, Schedule)
    assert "the outcome depends on how the input is cut into batches" in str(finding)
    assert "a call may have rows of several windows" in str(finding)


def test_report_is_the_same_each_time() -> None:
    one, two = (check_job(job(SumOfCall()), FEED, schedules=20) for _ in range(2))
    assert one.findings == two.findings


def test_job_without_output_is_unknown() -> None:
    (why,) = check_job(MENDED, [[("a", at(1), 1)]], schedules=5).unknown
    assert why.startswith("the job gave no output. Give it a feed")


class CountsPast(SumByMinute):
    """Never meets an odd number."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        n = 0
        while n != 101:
            n += 2
        yield from ()


def test_handler_that_never_ends_is_named_with_its_line() -> None:
    said = r"test_outcomes.py:\d+: .* never ends: .* it has not after 0.4 s of CPU time; --code-timeout allows more"
    with pytest.raises(JobFailsError, match=said):
        check_job(job(CountsPast()), FEED, schedules=1, limits=CodeLimits(call_s=0.4))


class SortsLater(SumByMinute):
    """Appends rows as they come, in a list and in an array, and sorts them when a timer fires."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.list = handle.getListState("list", "n INT")
        self.array = handle.getValueState("array", "n ARRAY<INT>")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        numbers = [row.n for row in rows]
        self.list.appendList([(n,) for n in numbers])
        self.array.update(([*(self.array.get() or ([],))[0], *numbers],))
        self.handle.registerTimer(10**13)
        yield from ()


def test_order_in_a_list_of_state_is_no_outcome() -> None:
    report = check_job(job(SortsLater()), TOGETHER, schedules=40)
    assert report.findings == ()


class SumsTenths(SumByMinute):
    def init(self, handle: Any) -> None:
        self.handle, self.total = handle, handle.getValueState("total", "n DOUBLE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        total = self.total.get()[0] if self.total.exists() else 0.0
        for row in rows:
            total = self.added(total, row.n / 10)
        self.total.update((total,))
        self.handle.registerTimer(10**13)
        yield from ()

    def added(self, total: float, tenths: float) -> float:
        return total + tenths


class SumsTenthsByArrival(SumsTenths):
    def added(self, total: float, tenths: float) -> float:
        return total / 2 + tenths


def test_last_digits_of_a_sum_of_floats_are_no_outcome_and_others_are() -> None:
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    assert check_job(job(SumsTenths()), TOGETHER, schedules=40).findings == ()
    (finding,) = check_job(job(SumsTenthsByArrival()), TOGETHER, schedules=40).findings
    assert finding.trial.cause is Cause.ORDER


class ReturnsNothing(SumByMinute):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.sum.updateValue((0,), (1,))


def test_handler_that_returns_nothing_is_told_what_to_return() -> None:
    with pytest.raises(JobFailsError, match=r"test_outcomes.py:\d+: .*Yield rows, or return iter"):
        check_job(job(ReturnsNothing()), FEED, schedules=1)


class AsksAHost(SumByMinute):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        socket.create_connection(("127.0.0.1", 9))
        yield from ()


def test_job_that_fails_for_want_of_a_host_is_told_what_it_does() -> None:
    (finding,) = check_job(job(AsksAHost()), FEED, schedules=1).findings
    assert finding.trial.cause is Cause.EFFECT
    assert "the code of a task uses a socket" in finding.message


def test_job_that_fails_without_faults_is_reported_with_its_line() -> None:
    class Fails(SumByMinute):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield 1 / 0

    with pytest.raises(
        JobFailsError, match=r"test_outcomes.py:\d+: the job fails without faults: ZeroDivisionError"
    ):
        check_job(job(Fails()), FEED)
