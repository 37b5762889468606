"""Faults outside the model: off unless asked for, and the invariants that are to notice each of them do."""

import dataclasses

import msgspec
import pytest

from headrace import SECOND, OptionsError
from headrace.store.mediator import Mediator
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.results import result_of
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.ground import ground_of
from headrace_properties.search.judging import JudgedRun, run_plan, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.search.scope import Scope, small_cluster
from headrace_properties.search.steering import Steering
from headrace_properties.search.store_breaches import NOTICED_BY, breaches_named, breaches_of, is_outside
from headrace_properties.search.strategy import search
from headrace_sim import FaultSchedule
from headrace_sim.endpoints.breaches import Breaches
from headrace_sim.faults import ASSUMPTIONS, Breach, BreakStore
from tests.properties.search.every_run import every_run

WINDOWS = WORKLOADS["windows"].application
OPTIONS = WORKLOADS["windows"].options


def struck_by(breach: Breach) -> list[JudgedRun]:
    """The runs in which it strikes, at each write in turn."""
    feed = WINDOWS.feed(0)
    heal_at_us = ground_of(WINDOWS.versions, feed, OPTIONS).horizon_us + SECOND
    schedules = breaches_of(WINDOWS.versions, feed, OPTIONS, (breach,))
    faults = [FaultSchedule((), heal_at_us, at_steps=tied) for tied in schedules]
    runs = [try_plan(WINDOWS, PipelineTrial(Plan(schedule, OPTIONS, 0))) for schedule in faults]
    return [run for run in runs if run.strikes[breach.value]]


@pytest.mark.parametrize("breach", Breach)
def test_a_broken_guarantee_of_the_store_is_always_noticed(breach: Breach) -> None:
    runs = struck_by(breach)
    assert len(runs) > 5
    assert [run.strikes for run in runs if not run.failed] == []
    assert set(NOTICED_BY[breach]) <= {name for run in runs for name in run.broken}


def test_nothing_breaks_where_the_store_keeps_its_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs, with the faults announced but none done: it is the breach that is noticed."""

    def keep(breaches: Breaches, source: str, request: object) -> object:
        mediator: Mediator = breaches._mediator
        return mediator.handle(request)  # type: ignore[arg-type]

    feed = WINDOWS.feed(0)
    schedules = breaches_of(WINDOWS.versions, feed, OPTIONS, tuple(Breach))
    monkeypatch.setattr(Breaches, "handle", keep)
    for tied in schedules[::5]:
        assert not try_plan(WINDOWS, PipelineTrial(Plan(FaultSchedule(at_steps=tied), OPTIONS, 0))).failed


@pytest.mark.parametrize("breach", Breach)
def test_a_random_search_notices_it(breach: Breach) -> None:
    found = search(Steering(WINDOWS, outside=(breach,)), examples=40)
    assert found.failure is not None
    assert set(NOTICED_BY[breach]) & set(found.verdicts)
    assert is_outside(found.failure.plan)
    assert ASSUMPTIONS[breach] in " ".join(found.failure.plan.describe())


def uncached(breach: Breach) -> Scope:
    """Single faults where every record reads its row, so that an old snapshot meets a reader."""
    small = small_cluster()
    options = msgspec.structs.replace(small, engine=dataclasses.replace(small.engine, cache_bytes=0))
    return Scope(2, 1, 0, (), options, outside=(breach,))


@pytest.mark.parametrize("breach", [breach for breach in Breach if breach is not Breach.OLD_SNAPSHOT])
def test_an_exhaustive_search_notices_it_with_one_fault(breach: Breach) -> None:
    found = search(ExhaustiveSearch(WINDOWS, uncached(breach)))
    assert found.failure is not None
    assert set(NOTICED_BY[breach]) <= found.failure.violations.keys()
    assert found.failure.plan.faults.count == 1


def test_an_old_row_that_only_user_code_reads_is_beyond_the_invariants() -> None:
    """A known limit: no event tells which state user code was given, so only a promise can tell; a scan is checked by S7."""
    states = []
    for trial, judged in every_run(ExhaustiveSearch(WINDOWS, uncached(Breach.OLD_SNAPSHOT))):
        history, _, _ = run_plan(WINDOWS, trial)
        states.append((judged.failed, judged.strikes["old_snapshot"], result_of(history).states))
    (_, _, right), *others = states
    assert [failed for failed, _, _ in states if failed] == []
    assert any(struck and came != right for _, struck, came in others)


def test_no_search_tries_them_unless_requested() -> None:
    found = search(ExhaustiveSearch(WINDOWS, Scope(1, 1, 0, ("reassign",))))
    assert not {breach.value for breach in Breach} & found.struck.keys()
    found = search(Steering(WINDOWS), examples=20)
    assert not {breach.value for breach in Breach} & found.struck.keys()
    assert found.failure is None


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(OptionsError, match="lost_write, torn_row"):
        breaches_named(["bit_rot"])


def test_a_fault_outside_the_model_says_so_and_names_what_it_breaks() -> None:
    schedule = FaultSchedule((BreakStore(at_us=5, how=Breach.TORN_ROW, process="worker-0"),))
    assert "worker-0's next write; outside the model, where a row's changes are applied all or none" in (
        schedule.describe()
    )
    assert FaultSchedule.from_json(schedule.to_json()) == schedule
