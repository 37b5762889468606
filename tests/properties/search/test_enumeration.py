"""Every single fault at every protocol step: the sound protocol survives all of them, and a broken one fails soon."""

import pytest

from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.workloads import WORKLOADS, Workload, tallies
from headrace_properties.search.enumeration import Enumeration
from headrace_properties.search.plans import ground_of
from headrace_properties.search.scope import small_cluster
from headrace_properties.search.step_faults import faults_at, pairs_of, single_faults, steps_of
from headrace_properties.search.strategy import search
from headrace_properties.search.verification import Verification
from headrace_sim import ClusterOptions, Does, Step
from headrace_sim import faults as f

TALLIES = tallies()
FEED = TALLIES.feed(0)
OPTIONS = ClusterOptions()
SINGLES = single_faults(TALLIES.pipeline, FEED, OPTIONS, first=1)


def told(found: Verification) -> tuple[object, ...]:
    return found.runs, found.idle, found.events, found.struck, found.reached, found.covered, found.verdicts


def test_the_steps_are_the_first_of_each_kind_and_the_last() -> None:
    steps = steps_of(TALLIES.pipeline, FEED, OPTIONS, first=2)
    delivered = [step.nth for step in steps if (step.process, step.verb) == ("letters/0", "sends Deliver")]
    assert delivered == [1, 2, 5]
    assert Step("master-0", Does.SENDS, "Mint") in steps
    assert Step("worker-0", Does.SENDS, "Write", 1, "senders") in steps
    assert Step("worker-0", Does.SENDS, "Write", 1) not in steps, "its computations are told apart"
    assert len(set(steps)) == len(steps)


def test_a_message_is_struck_once_in_flight() -> None:
    """Where it is sent; a reply of the store, which is no process, where it is received; never what is no message."""
    ground = ground_of(TALLIES.pipeline, FEED, OPTIONS)
    struck = {
        step.verb
        for step in steps_of(TALLIES.pipeline, FEED, OPTIONS)
        if any(isinstance(fault.fault, f.DropMessage) for fault in faults_at(step, ground))
    }
    assert {"sends Deliver", "sends Write", "receives Written", "receives Minted"} <= struck
    assert not {"receives Deliver", "receives Wake", "receives SourceRecord", "receives Start"} & struck


def check_every_single_fault(workload: Workload, options: ClusterOptions, more_than: int) -> None:
    found = search(Enumeration(workload.application, options=options, first=1), jobs=2)
    assert found.failure is None, found.failure
    assert found.runs > more_than
    assert found.idle < found.runs / 10
    assert {spot.role for spot in found.covered} >= {"worker", "master", "authority", "injector"}


def test_the_sound_protocol_holds_for_every_single_fault_at_every_step_of_a_small_cluster() -> None:
    check_every_single_fault(TALLIES, small_cluster(options=TALLIES.options), more_than=1_000)


@pytest.mark.nightly
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_sound_protocol_holds_for_every_single_fault_at_every_step(workload: Workload) -> None:
    check_every_single_fault(workload, workload.options, more_than=1_200)


def test_it_finds_a_store_without_sequencers() -> None:
    found = search(Enumeration(TALLIES.application, protocol=MUTANTS["without sequencers"], first=1), jobs=2)
    assert found.failure is not None
    assert found.failure.plan.faults.count == 1
    assert found.ok is False


def test_the_findings_do_not_depend_on_the_number_of_processes() -> None:
    def report(jobs: int) -> Verification:
        broken = MUTANTS["without sequencers"]
        return search(Enumeration(TALLIES.application, protocol=broken, first=1, pairs=60, seed=1), jobs=jobs)

    alone, shared = report(1), report(2)
    assert told(alone) == told(shared)
    assert alone.failure == shared.failure


def test_pairs_are_all_or_drawn_without_repetition() -> None:
    few = SINGLES[:5]
    assert len(pairs_of(few, 10)) == 10
    drawn = pairs_of(SINGLES, 500, seed=3)
    assert len({(SINGLES.index(first), SINGLES.index(second)) for first, second in drawn}) == 500
    assert drawn == pairs_of(SINGLES, 500, seed=3) != pairs_of(SINGLES, 500, seed=4)


def test_progress_is_reported_after_each_run() -> None:
    seen: list[int] = []
    found = search(
        Enumeration(TALLIES.application, pairs=5), on_run=lambda now: seen.append(now.runs + now.idle)
    )
    assert seen == [1, 2, 3, 4, 5]
    assert found.runs + found.idle == 5
