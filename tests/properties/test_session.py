"""A session does the same steps for every target: review, what was kept, the search; and what it finds is kept on file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.kept_failures import KeptFailure, KeptFailures, Retried
from headrace_properties.replays import ReplayFile, to_replay
from headrace_properties.session import Memory, Result, Session
from headrace_properties.target import PipelineSource
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.verdict import Holds, Verdict, Violated

SOURCE = PipelineSource("views:pipeline")
KIND = Kind(Family.CODE, "keeps-state")
TRIAL = CodeTrial(0, (0,), 0)
FOUND = [Finding(KIND, "it keeps state"), Finding(Kind(Family.CODE, "reads-clock"), "it reads the clock")]


@dataclass
class Steps:
    """Trials that note their steps, and find what they are told to."""

    findings: Sequence[Finding] = ()
    again: Path | None = None
    verdict: Verdict = field(default_factory=lambda: Holds(1))
    steps: list[str] = field(default_factory=list)
    opened: bool = False

    def review(self) -> None:
        self.steps.append("review")

    def retry(self, kept: KeptFailures) -> list[Retried]:
        self.steps.append("retry")
        replay = ReplayFile(SOURCE, TRIAL, {KIND.family: {KIND.name: "it keeps state"}})
        return [
            Retried(KeptFailure(path, replay), {KIND: self.verdict}) for path in kept.folder.glob("*.json")
        ]

    def search(self) -> None:
        self.steps.append("search")

    @property
    def leading(self) -> Finding | None:
        return next(iter(self.findings), None)

    def replay(self, finding: Finding) -> bytes:
        return to_replay(SOURCE, TRIAL, {finding.kind: finding.message})

    def file_of(self, finding: Finding) -> Path | None:
        return self.again if finding is self.leading else None

    def why_not_kept(self, finding: Finding) -> str:
        return "" if finding.kind == KIND else "nothing could judge it"

    def told(self, finding: Finding) -> str:
        return finding.told("views")

    @property
    def is_open(self) -> bool:
        return self.opened


@pytest.fixture
def failures(tmp_path: Path) -> KeptFailures:
    return KeptFailures(tmp_path, SOURCE)


def test_the_code_is_reviewed_before_what_was_kept_and_that_before_the_search(failures: KeptFailures) -> None:
    trials = Steps()
    Session(trials, Memory(failures)).run()
    assert trials.steps == ["review", "retry", "search"]


def test_what_is_found_is_kept_and_what_no_session_could_try_again_is_not(failures: KeptFailures) -> None:
    session = Session(Steps(FOUND), Memory(failures))
    session.keep()
    assert [*session.files] == [0]
    assert session.files[0].parent == failures.folder


def test_what_was_kept_before_is_not_kept_twice(failures: KeptFailures, tmp_path: Path) -> None:
    session = Session(Steps(FOUND, again=tmp_path / "before.json"), Memory(failures))
    session.keep()
    assert session.files == {0: tmp_path / "before.json"}
    assert not failures.folder.exists()


@pytest.mark.parametrize(("verdict", "retired"), [(Holds(1), 1), (Violated("again", ()), 0)])
def test_only_what_passes_is_retired(failures: KeptFailures, verdict: Verdict, retired: int) -> None:
    path = failures.keep(to_replay(SOURCE, TRIAL, {KIND: "it keeps state"}))
    session = Session(Steps(verdict=verdict), Memory(failures))
    session.run()
    assert len([*failures.folder.glob("retired/*.json")]) == retired
    assert session.kept[0].startswith(f"{path}: {'no longer violates' if retired else 'violated again'}")


def test_a_directory_that_cannot_be_written_is_told_of_once_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "views.pipeline").write_text("a file where the directory should be")
    complaints: list[OSError] = []
    memory = Memory(KeptFailures(tmp_path, SOURCE), complaints.append)
    session = Session(Steps([FOUND[0], FOUND[0]]), memory)
    session.keep()
    assert (len(complaints), session.files, memory.refused) == (1, {}, complaints[0])


ASKED = Finding(
    Kind(Family.CODE, "depends-on-order", FindingClass.UNDECLARED), "it goes by the order of arrival"
)
NOTED = Finding(Kind(Family.CODE, "noted", FindingClass.NOTE), "it goes on after a refusal")


@pytest.mark.parametrize(
    ("findings", "opened", "result"),
    [
        ([], False, Result.HOLDS),
        ([NOTED], False, Result.HOLDS),
        ([NOTED], True, Result.UNKNOWN),
        ([ASKED, NOTED], True, Result.UNDECLARED),
        ([FOUND[0], ASKED], True, Result.VIOLATED),
    ],
)
def test_the_gravest_finding_is_the_result(findings: list[Finding], opened: bool, result: Result) -> None:  # noqa: FBT001
    assert Session(Steps(findings, opened=opened), Memory(None)).result is result
