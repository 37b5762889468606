"""What only the author can mean is asked, and answered by a declaration; what a failure changes is violated all the same."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from headrace import OptionsError
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.kept_failures import KeptFailures
from headrace_properties.query_search import QuerySearch
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobReport
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_properties.target import SparkSource, TargetError
from headrace_properties.verifier import InvariantViolatedError, NotExercisedError, Verifier
from headrace_sim import FeedSource
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.spark_job import SparkJob
from tests.properties.spark_jobs.planted import FEED, MENDED, Processor, SumOfCall, again, at, job

ORDERED = FeedSource(ordered=True)
KEPT = "one key for each customer"
FEW = [[("a", at(1), 1), ("a", at(2), 2)], [("a", at(3), 4), ("b", at(4), 5)], [("b", at(5), 6)]]


class RunningTotal(Processor):
    """Tells the total so far in each call, and keeps it for ever."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        total = self.before(key) + sum(row.n for row in rows)
        self.sum.updateValue((0,), (total,))
        yield Row(k=key[0], n=total)

    def before(self, key: Any) -> int:
        return int(self.sum.getValue((0,))[0]) if self.sum.containsKey((0,)) else 0


class Latest(Processor):
    """Keeps the row of each key that arrived last."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.sum.updateValue((0,), (row.n,))
        yield from ()


_cached: dict[str, int] = {}


class CachedTotal(RunningTotal):
    """Trusts what the worker's module has of a key: the mistake, below three questions."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            _cached[key[0]] = row.n
            yield row

    def before(self, key: Any) -> int:
        return _cached.get(key[0]) or super().before(key)


class LatestOfTask(Latest):
    """Numbers its rows on the object, besides."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.number = getattr(self, "number", 0) + 1
            self.sum.updateValue((0,), (row.n * 100 + self.number,))
        yield from ()


class TotalOfIds(RunningTotal):
    """Counts each number of a key once."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.seen = handle.getMapState("seen", "n INT", "x INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        new = [row for row in rows if not self.seen.containsKey((row.n,))]
        for row in new:
            self.seen.updateValue((row.n,), (1,))
        yield from super().handleInputRows(key, iter(new), timerValues)


def _declaring(tried: SparkJob, **declares: Any) -> SparkJob:
    return replace(tried, declares=Declares(**declares))


def _claims(report: JobReport) -> dict[str, FindingClass]:
    return {finding.kind.name: finding.finding_class for finding in report.findings}


QUESTIONS = {
    "running total": (job(RunningTotal()), {"batching", "growth"}, {"running": True, "bounded_by": KEPT}),
    "latest": (job(Latest()), {"order", "growth"}, {"source": ORDERED, "bounded_by": KEPT}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_sound_job_is_asked_what_it_means_and_holds_once_it_says_so(name: str) -> None:
    sound, asked, declares = QUESTIONS[name]
    assert _claims(check_job(sound, FEW, schedules=40)) == dict.fromkeys(asked, FindingClass.UNDECLARED)
    assert check_job(_declaring(sound, **declares), FEW, schedules=40).findings == ()


def test_question_has_the_line_that_answers_it() -> None:
    report = check_job(job(Latest()), FEW, schedules=20)
    told = {finding.kind.name: str(finding) for finding in report.findings}
    assert (
        "Is that meant? Then declare source=FeedSource(ordered=True), or say --allow order. If not: compare"
        in told["order"]
    )
    assert "declare bounded_by='what bounds its keys', or say --allow growth" in told["growth"]


@pytest.mark.parametrize(
    ("planted", "declares"),
    [(CachedTotal(), {"running": True}), (LatestOfTask(), {"source": ORDERED})],
    ids=["running", "ordered"],
)
def test_mistake_below_a_question_is_found_and_stands_first(planted: Any, declares: dict[str, Any]) -> None:
    for tried in (job(planted), _declaring(job(planted), bounded_by=KEPT, **declares)):
        first = check_job(tried, FEW, schedules=20).findings[0]
        assert (first.kind.name, first.finding_class) == ("memory", FindingClass.VIOLATED)


def test_running_result_that_does_not_come_to_the_same_is_violated() -> None:
    report = check_job(_declaring(job(SumOfCall()), running=True), FEED, schedules=40)
    assert _claims(report) == {"batching": FindingClass.VIOLATED}
    assert "though a running result is declared" in str(report.findings[0])


@pytest.mark.parametrize(("bound", "claims"), [(1, {"growth": FindingClass.VIOLATED}), (2, {}), (KEPT, {})])
def test_bound_of_lasting_state_is_told_and_a_number_is_checked(
    bound: str | int, claims: dict[str, FindingClass]
) -> None:
    declared = _declaring(job(Latest()), source=ORDERED, bounded_by=bound)
    report = check_job(declared, FEW, schedules=20)
    assert _claims(report) == claims
    told = KEPT if bound == KEPT else f"at most {bound} keys"
    assert report.notes[0] == f"nothing removes the state of 2 keys on this input; declared: {told}"


@pytest.mark.parametrize("bound", [True, 0, -1, None])
def test_bound_that_says_nothing_is_refused(bound: Any) -> None:
    with pytest.raises(OptionsError, match=r"option bounded_by=.*or a number of keys"):
        Declares(bounded_by=bound)


def test_row_delivered_twice_is_found_only_where_it_counts_twice() -> None:
    counted = _claims(check_job(again(job(RunningTotal())), FEW, schedules=60))
    assert counted["duplicates"] is FindingClass.VIOLATED
    assert "duplicates" not in _claims(check_job(again(job(TotalOfIds())), FEW, schedules=60))


def test_allowed_by_name_means_the_same_as_declared() -> None:
    allowed = check_job(job(SumOfCall()), FEED, schedules=12, allow={Cause.BATCHING})
    declared = check_job(_declaring(job(SumOfCall()), running=True), FEED, schedules=12)
    assert allowed.findings == declared.findings


def test_module_declares_beside_its_feed() -> None:
    module: Any = type("module", (), {"feed": FEW, "source": ORDERED})
    target = spark_target("m:job", replace(MENDED, declares=Declares(running=True)), module=module)
    assert target.job.declares == Declares(source=ORDERED, running=True)
    module.declares = {"running": True}
    with pytest.raises(TargetError, match="Write it as declares = Declares"):
        spark_target("m:job", MENDED, module=module)


def test_fixture_asks_and_takes_the_answer(tmp_path: Path) -> None:
    verify = Verifier(12, 0, tmp_path, lambda *_: None)
    with pytest.raises(NotExercisedError, match=r"(?s)leaves open .*\(batching\).*declare running=True"):
        verify(job(RunningTotal()), FEW)
    assert verify(job(RunningTotal()), FEW, running=True, bounded_by=2).findings == ()
    with pytest.raises(InvariantViolatedError, match=r"breaks .*\(growth\)"):
        verify(job(RunningTotal()), FEW, running=True, bounded_by=1)


def _replaced_by_id(df: Any, batch_id: int) -> None:
    Path(f"batch-{batch_id}.txt").write_text(str(df.collect()))


def test_finding_about_a_new_checkpoint_is_kept_only_while_that_is_declared(tmp_path: Path) -> None:
    def trials(*, new_checkpoint: bool | None) -> QuerySearch:
        target = spark_target(
            "declared:sink", _replaced_by_id, schemas="n INT", feed=[[(1,)], [(2,)]],
            declares=Declares(new_checkpoint=new_checkpoint),
        )  # fmt: skip
        return QuerySearch(target, lambda _: target, SparkSource("declared:sink", feed="feed"), 0)

    judged = trials(new_checkpoint=True)
    trial = SinkTrial(SinkFault(SinkFaultKind.NEW_CHECKPOINT, 0, 0))
    kind = Kind(Family.SINK, "new checkpoint")
    data = judged.replay(Finding(kind, "old rows are replaced", trial=trial))
    assert data is not None
    kept = KeptFailures(tmp_path, judged.source)
    kept.keep(data)
    (again,) = judged.retry(kept)
    assert again.finding is not None
    assert again.finding.kind == kind
    assert trials(new_checkpoint=False).retry(kept) == ()
    assert trials(new_checkpoint=None).retry(kept) == ()
