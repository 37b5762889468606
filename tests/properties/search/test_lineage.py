"""Search by lineage: the causes of an outcome are known, only faults that hit them are run, and the search ends."""

import pytest

from headrace import OptionsError
from headrace_properties.proof.mutants import CATALOGUE, MUTANTS
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.results import result_of
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.judging import run_plan
from headrace_properties.search.lineage import LINEAGE_KINDS, Lineage, LineageSearch
from headrace_properties.search.plans import Plan
from headrace_properties.search.scope import Scope
from headrace_properties.search.strategy import search
from headrace_sim import Does, FaultSchedule, StepFault
from headrace_sim.faults import DropMessage

TALLIES = WORKLOADS["tallies"].application
ONE = Scope(1, 1, 0, LINEAGE_KINDS)


def trial(*faults: StepFault) -> PipelineTrial:
    schedule = FaultSchedule((), 3_000_000, at_steps=faults)
    return PipelineTrial(Plan(schedule, ONE.options, 0, ()), 0, (0,))


def test_a_row_rests_on_its_record_its_write_and_its_owners_scan() -> None:
    supports = Lineage(TALLIES, trial()).supports
    assert set(supports) == {("row", "senders", "ba"), ("row", "cities", "b"), ("output", "received", "b")}
    row = {step.verb for step in supports["row", "senders", "ba"]}
    assert {"sends Deliver", "sends Write", "sends Mint", "sends Scan", "receives Watermarks"} <= row
    assert row.isdisjoint({"sends Heartbeat", "sends Ack", "sends CollectIds"})


def test_an_outcome_survives_the_loss_of_any_message_that_it_does_not_rest_on() -> None:
    lineage = Lineage(TALLIES, trial())
    supported = {step for steps in lineage.supports.values() for step in steps}
    others = [step for step in lineage.steps if step not in supported and step.does is Does.SENDS]
    assert len(others) > 20
    expected = result_of(run_plan(TALLIES, trial())[0])
    for step in others[::4]:
        history, _, _ = run_plan(TALLIES, trial(StepFault(step, DropMessage(at_us=0))))
        assert result_of(history).outputs == expected.outputs, step


def test_the_search_ends_on_the_sound_engine_in_fewer_runs_than_there_are_single_faults() -> None:
    told = []
    found = search(LineageSearch(TALLIES, ONE), on_run=lambda found: told.append(found.runs))
    exploration = found.exploration
    assert exploration is not None
    assert (exploration.exhausted, found.failure, exploration.rounds) == (True, None, 2)
    assert 1 < exploration.total < exploration.singles / 3
    assert len(told) == exploration.total


@pytest.mark.parametrize("name", ["checkpoints not replayed", "no recovery scan", "a role is granted once"])
def test_a_broken_recovery_shows_with_one_fault(name: str) -> None:
    application = WORKLOADS[CATALOGUE[name].workload].application
    found = search(LineageSearch(application, Scope(3, 1, 0, LINEAGE_KINDS), protocol=MUTANTS[name]), jobs=1)
    assert found.failure is not None
    assert found.exploration is not None
    assert found.failure.plan.faults.count == 1
    assert found.exploration.total < 20


def test_a_pair_is_run_only_if_it_hits_what_each_of_its_faults_left() -> None:
    """Of one kind, a lost message: what was sent again in its place has to be lost, too."""
    found = search(LineageSearch(TALLIES, Scope(1, 2, 0, ("drop",))), examples=40)
    exploration = found.exploration
    assert exploration is not None
    singles = exploration.runs[1, 0]
    assert exploration.rounds == 2
    assert exploration.pruned > 0
    assert exploration.expected < singles * (singles - 1) / 2
    assert (exploration.exhausted, exploration.stopped_for, found.ok) == (False, "examples", None)


def test_a_fault_that_cuts_nothing_off_is_refused() -> None:
    with pytest.raises(OptionsError, match="crash, drop, cut in a search by lineage"):
        search(LineageSearch(TALLIES, Scope(1, 1, 0, ("pause",))))


def test_the_number_of_processes_makes_no_difference() -> None:
    scope = Scope(1, 1, 0, ("drop",))
    alone, shared = search(LineageSearch(TALLIES, scope)), search(LineageSearch(TALLIES, scope), jobs=2)
    assert alone.exploration == shared.exploration
    assert (alone.verdicts, alone.events) == (shared.verdicts, shared.events)
