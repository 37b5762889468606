"""What a History must be on every workload: writes of few records, claims that are not repeated, events of the right types."""

from collections import deque

import pytest

from headrace.store.mediator import Mediator
from headrace.wire import messages as m
from headrace.worker.commits import Commits
from headrace.worker.running import StepRun
from headrace.worker.step import KeyStep
from headrace_properties.proof.oracles import EXPECTED, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.judging import JudgedRun


def _run(name: str, seed: int = 0) -> JudgedRun:
    workload = WORKLOADS[name]
    feed = workload.feed(seed)
    return try_workload(workload, feed, plan_of(workload, feed, 0))


def _said(judged: JudgedRun) -> str:
    return judged.broken[EXPECTED].message


def test_a_write_of_more_records_than_may_share_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _run("sparing").failed

    def everything(commits: Commits) -> list[KeyStep]:
        steps: deque[KeyStep] = commits._committable
        taken = [*steps]
        steps.clear()
        return taken

    monkeypatch.setattr(Commits, "_next_batch", everything)
    assert any("a write at" in _said(run) for seed in range(20) if (run := _run("patient", seed)).failed)


def test_a_claim_that_is_repeated_and_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes each claim twice."""
    claim = Mediator._claim

    def twice(store: Mediator, request: m.Claim) -> m.Reply:
        first = claim(store, request)
        again = m.Claim(request.request, request.role, store.journal(request.role).epoch, request.holder)
        return claim(store, again) if isinstance(first, m.Claimed) else first

    monkeypatch.setattr(Mediator, "_claim", twice)
    assert "which it held" in _said(_run("windows"))


def test_an_event_with_a_value_of_another_type_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    note = StepRun._note_executed

    def swapped(
        run: StepRun, cause: str, timestamp: int, timer: object, *rest: object, **more: object
    ) -> None:
        given = (cause, timestamp) if timer is None else (timestamp, cause)
        note(run, *given, timer, *rest, **more)  # type: ignore[arg-type, call-arg]

    monkeypatch.setattr(StepRun, "_note_executed", swapped)
    assert "cannot be read back" in _said(_run("windows"))
