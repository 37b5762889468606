"""Kept findings about user code are rechecked on their input, and stay until they no longer show."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_properties.explanation import StepKind
from headrace_properties.kept_failures import KeptFailure
from headrace_properties.pipeline_trials import explain_code, retry_code, shown_again
from headrace_properties.replays import read_replay, to_replay
from headrace_properties.search.application import Application
from headrace_properties.search.limits import CodeLimits
from headrace_properties.search.origins import input_digest
from headrace_properties.target import PipelineSource
from headrace_properties.user_code import look
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.review import CodeReview, review
from headrace_properties.verdict import Holds, Violated
from headrace_sim import Feed, FeedBuilder, FeedSource


@dataclass
class Newest(Computation):
    """Keeps the record that came last, or the greatest."""

    mended: bool = False

    def process_record(self, context: Context, record: Record) -> None:
        context.state = max(context.state or 0, record.value) if self.mended else record.value


class Failing(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        raise ValueError


def of(computation: Computation) -> Application:
    pipeline = Pipeline("kept")
    pipeline.injector("in")
    pipeline.add(computation, name="code", inputs=["in"])

    def feed(seed: int) -> Feed:
        builder = FeedBuilder(pipeline)
        for number in range(seed % 5):
            builder.record(at_us=SECOND + number, value=number, timestamp=SECOND, key="k")
        return builder.build()

    return Application(pipeline, feed)


def kept(folder: Path, seed: int) -> KeptFailure:
    """What a search with that seed finds in an input with four records."""
    application = of(Newest())
    (finding,) = review(application.versions, {4: application.feed(4)}, seed=seed).findings
    path = folder / "finding.json"
    source, rows = PipelineSource("kept:pipeline"), input_digest(application.input_of(finding.trial))
    path.write_bytes(to_replay(source, finding.trial, {finding.kind: str(finding)}, input_digest=rows))
    return KeptFailure(path, read_replay(path))


@pytest.mark.parametrize("seed", [6, 7, 8])
def test_a_findings_file_reproduces_it(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that is tried is that of the search."""
    monkeypatch.setattr(look, "PERMUTATIONS", 1)
    replay = kept(tmp_path, seed).replay
    assert isinstance(replay.trial, CodeTrial)
    again = shown_again(of(Newest()), replay.trial, replay.kinds)
    assert [(habit_of(finding), finding.trial.kept) for finding in again.findings] == [
        (Habit.DEPENDS_ON_ORDER, replay.trial.kept)
    ]


def test_a_finding_that_current_inputs_do_not_show_is_found_again(tmp_path: Path) -> None:
    one = kept(tmp_path, 0)
    found, (retried,) = retry_code(of(Newest()), [one], CodeReview(()))
    assert [habit_of(finding) for finding in found.findings] == [Habit.DEPENDS_ON_ORDER]
    assert (retried.failed, retried.passed) == (False, False)
    assert "undeclared again: depends-on-order" in str(retried)


def test_a_finding_that_no_longer_shows_has_passed(tmp_path: Path) -> None:
    found, (retried,) = retry_code(of(Newest(mended=True)), [kept(tmp_path, 0)], CodeReview(()))
    assert found.findings == ()
    assert (retried.failed, retried.passed) == (False, True)
    assert isinstance(retried.verdicts[Habit.DEPENDS_ON_ORDER.kind], Holds)


def test_a_finding_that_shows_differently_is_still_a_violation(tmp_path: Path) -> None:
    found, (retried,) = retry_code(of(Failing()), [kept(tmp_path, 0)], CodeReview(()))
    assert [habit_of(finding) for finding in found.findings] == [Habit.RAISES]
    assert (retried.failed, retried.passed) == (True, False)


class Counting(Computation):
    """Produces the number of records of a key so far."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = (context.state or 0) + 1
        context.produce("numbers", context.state)


def counting(source: FeedSource, keys: str) -> Application:
    pipeline = Pipeline("counts")
    pipeline.injector("in")
    pipeline.add(Counting(), name="counter", inputs=["in"], outputs=["numbers"])

    def feed(_: int) -> Feed:
        builder = FeedBuilder(pipeline)
        for number, key in enumerate(keys):
            builder.record(at_us=SECOND + number, value=number, timestamp=SECOND, key=key)
        return builder.build()

    return Application((pipeline,), feed, source=source)


def test_records_that_come_again_are_explained_by_both_runs_side_by_side() -> None:
    application = counting(FeedSource(once=False), "xy")
    trial, again = CodeTrial(0, (1,)), Habit.COUNTS_AGAIN.kind
    explanation = explain_code(application, trial, [again])
    assert explanation is not None
    assert [*explanation.paragraphs()] == [
        "Undisturbed",
        "  stream=in key='y' timestamp=1.000000s value=1",
        "    counter handles the record of 'y'; state (the initial one) becomes 1; produces 1 for 'y' on numbers at 1.000000s",
        "  = 1 for 'y' on numbers at 1.000000s",
        "With records that come again at once",
        "  stream=in key='y' timestamp=1.000000s value=1",
        "    counter handles the record of 'y'; state (the initial one) becomes 1; produces 1 for 'y' on numbers at 1.000000s",
        "! stream=in key='y' timestamp=1.000000s value=1  (again)",
        "    counter handles the record of 'y'; state 1 becomes 2; produces 2 for 'y' on numbers at 1.000000s",
        "  = 1 for 'y' on numbers at 1.000000s",
        "  = 2 for 'y' on numbers at 1.000000s",
        "The difference to the undisturbed run",
        "  the output has also 2 for 'y' on numbers at 1.000000s",
    ]
    assert explain_code(application, trial, [Habit.DEPENDS_ON_ORDER.kind]) is None
    assert explain_code(counting(FeedSource(), "xy"), trial, [again]) is None


def test_spellings_that_are_taken_for_two_keys_are_explained_by_both_runs() -> None:
    application = counting(FeedSource(keys_alike=True), "aa")
    explanation = explain_code(application, CodeTrial(), [Habit.SPLITS_KEYS.kind])
    assert explanation is not None
    usual, other = explanation.runs
    assert other.title == "With 'A' for 'a' in every second of its records"
    marked = [
        (step.text, step.again) for run in (usual, other) for step in run.steps if step.kind is StepKind.FAULT
    ]
    assert marked == [("stream=in key='A' timestamp=1.000000s value=1", False)]
    assert explanation.difference == (
        "the output has also 1 for 'A' on numbers at 1.000000s",
        "the output lacks 2 for 'a' on numbers at 1.000000s",
    )


def test_nothing_already_found_or_harmful_is_run(tmp_path: Path) -> None:
    application = of(Failing())
    today = review(application.versions, {4: application.feed(4)}, limits=CodeLimits())
    found, (retried,) = retry_code(application, [kept(tmp_path, 0)], today)
    assert found is today
    assert (retried.failed, retried.passed) == (False, False)
    assert isinstance(today.verdicts[Habit.RAISES.kind], Violated)
