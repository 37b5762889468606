"""A long search resumes from its file, with the same result as one that was never stopped."""

from pathlib import Path

import pytest

from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search import journal
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.journal import JournalError
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.lineage import LineageSearch
from headrace_properties.search.scope import Scope
from headrace_properties.search.strategy import search
from headrace_properties.search.verification import Verification
from headrace_sim import Protocol

TALLIES = WORKLOADS["tallies"].application
SCOPE = Scope(records=1, faults=0, delays=1)


def result(found: Verification) -> tuple[object, ...]:
    return found.exploration, found.verdicts, found.reached, found.covered, found.struck, found.events


def test_a_resumed_search_has_the_result_of_an_uninterrupted_one(tmp_path: Path) -> None:
    path = tmp_path / "search"
    stopped = search(ExhaustiveSearch(TALLIES, SCOPE), examples=10, resume=path)
    assert stopped.exploration is not None
    assert not stopped.exploration.exhausted
    with path.open("ab") as file:
        file.write(b"[{")  # a line that was being written when the process was killed
    whole = search(ExhaustiveSearch(TALLIES, SCOPE))
    assert whole.exploration is not None
    assert result(search(ExhaustiveSearch(TALLIES, SCOPE), resume=path)) == result(whole)
    assert len(path.read_bytes().splitlines()) == 1 + whole.exploration.total


def test_runs_in_the_file_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = tmp_path / "search", list[int]()
    whole = search(ExhaustiveSearch(TALLIES, SCOPE), resume=path)

    def counted(application: Application, trial: PipelineTrial, protocol: Protocol) -> JudgedRun:
        made.append(1)
        return try_plan(application, trial, protocol)

    monkeypatch.setattr("headrace_properties.search.parallel.try_plan", counted)
    assert result(search(ExhaustiveSearch(TALLIES, SCOPE), resume=path)) == result(whole)
    assert len(made) == 1  # the first, to compare


def test_a_search_by_lineage_also_resumes(tmp_path: Path) -> None:
    path, scope = tmp_path / "search", Scope(1, 1, 0, ("drop",))
    search(LineageSearch(TALLIES, scope), examples=7, resume=path)
    assert result(search(LineageSearch(TALLIES, scope), resume=path)) == result(
        search(LineageSearch(TALLIES, scope))
    )


def test_the_file_of_another_search_pipeline_or_of_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "search"
    search(ExhaustiveSearch(TALLIES, SCOPE), examples=3, resume=path)
    with pytest.raises(JournalError, match="and this is"):
        search(ExhaustiveSearch(TALLIES, Scope(records=2, faults=0, delays=1)), resume=path)
    with pytest.raises(JournalError, match="has changed since it was written"):
        search(ExhaustiveSearch(WORKLOADS["windows"].application, SCOPE), resume=path)
    path.write_text("hello\n")
    with pytest.raises(JournalError, match="no journal"):
        search(ExhaustiveSearch(TALLIES, SCOPE), resume=path)


def test_a_change_of_the_code_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "search"
    search(ExhaustiveSearch(TALLIES, SCOPE), examples=3, resume=path)
    monkeypatch.setattr(journal, "code_digest", lambda _: "another")
    with pytest.raises(JournalError, match="has changed since it was written"):
        search(ExhaustiveSearch(TALLIES, SCOPE), examples=3, resume=path)
