"""At the end of a quiet run every process agrees with the store, and one that does not is noticed."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.deadlines import Wakes
from headrace.store.mediator import Mediator
from headrace.wire.messages import Journaled, JournalPosition, JournalWatermarks, Renew, Renewed
from headrace.worker import soft_state
from headrace.worker.running import StepRun
from headrace.worker.seen import SeenFilter
from headrace.worker.soft_state import SoftState
from headrace_properties.proof.oracles import plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS
from tests.properties.proof.disturbed import try_disturbed


def _error(name: str = "windows") -> str:
    workload = WORKLOADS[name]
    feed = workload.feed(0)
    plan = plan_of(workload, feed, 0)
    watched = replace(plan, options=replace(plan.options, check_invariants=True))
    return str(try_workload(workload, feed, watched).error or "")


def _takes(request: Any) -> Callable[[Mediator, Any], Any]:
    def answer(_: Mediator, asked: Any) -> Journaled:
        assert isinstance(asked, request)
        return Journaled(asked.request)

    return answer


@pytest.mark.parametrize(
    ("of", "method", "instead", "said"),
    [
        (Mediator, "_journal_watermarks", _takes(JournalWatermarks), "and journaled None"),
        (Mediator, "_journal_position", _takes(JournalPosition), "for journaled"),
        (soft_state, "compact", lambda _: b"{}", "takes the state of"),
    ],
)
def test_whoever_believes_something_else_is_noticed(
    monkeypatch: pytest.MonkeyPatch, of: object, method: str, instead: object, said: str
) -> None:
    assert _error() == ""
    monkeypatch.setattr(of, method, instead)
    assert said in _error()


def test_an_authority_that_does_not_learn_that_it_was_deposed_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Authorities that were paused until others had their role go on, and are not refused."""

    def polite(_: Mediator, asked: Renew) -> Renewed:
        return Renewed(asked.request)

    monkeypatch.setattr(Mediator, "_renew", polite)
    errors = [str(try_disturbed("deposed", seed).error) for seed in range(8)]
    assert any("believes that it holds" in error for error in errors)


def test_a_process_that_sleeps_for_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wake is taken for one of two."""
    came = Wakes.came

    def twice(self: Wakes, now: int) -> None:
        came(self, now)
        self._asked.insert(0, now + 1)
        self.next_us = now + 1

    monkeypatch.setattr(Wakes, "came", twice)
    assert "believes that it will be woken" in _error()


def test_an_id_that_the_filter_takes_for_new_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new owner does not tell its filter what the rows have."""
    monkeypatch.setattr(SeenFilter, "add_all", lambda *_: None)
    assert "which the filter takes for new" in _error("echoes")


def test_failures_of_what_has_been_done_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    note = StepRun._note_executed

    def keeping(run: StepRun, *given: Any, **more: Any) -> None:
        before = run.outcome.failures
        note(run, *given, **more)
        run.outcome.failures = before

    monkeypatch.setattr(StepRun, "_note_executed", keeping)
    assert "which have been done since" in _error("slips")


def test_collected_ids_in_a_cached_row_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SoftState, "forget_ids", lambda soft, below: soft.seen_filter.forget_before(below))
    assert "has ids that were collected" in _error("eager collection")


def test_a_key_that_is_idle_and_not_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows do not stay in memory there, and the run goes on for longer than idle keys are kept."""
    monkeypatch.setattr(SoftState, "forget_idle", lambda _: None)
    assert "and not forgotten" in _error("patient")
