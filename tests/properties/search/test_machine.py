"""The fault machine: its verbs do what they say, the sound protocol passes it, and a broken one does not."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from headrace import MILLISECOND, SECOND
from headrace.history import (
    Applied,
    ComputationRemoved,
    FaultStruck,
    Healed,
    Injected,
    IntervalMinted,
    RunEnded,
    WriteRefused,
)
from headrace.wire.messages import MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.proof.mutants import MUTANTS
from headrace_scenarios import zeitgeist
from headrace_sim import SOUND, Feed, Protocol
from headrace_sim.faults import DelayCommit, DuplicateCommit, LoseCommit, LoseReply
from tests.properties.search.fault_machine import fault_machine
from tests.sim.rig import CHECKED, letters, mail, owner
from tests.sim.test_topology_changes import AUDITED, PLAIN

BUDGET = settings(
    max_examples=10, stateful_step_count=12, derandomize=True, database=None, deadline=None,
    phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
)  # fmt: skip


def small_feed(_seed: int) -> Feed:
    return letters(mail())


def small_machine(protocol: Protocol = SOUND) -> type[RuleBasedStateMachine]:
    return fault_machine(mail(), small_feed, CHECKED, protocol)


def test_the_sound_protocol_passes_ten_short_examples_on_a_small_pipeline() -> None:
    run_state_machine_as_test(small_machine(), settings=BUDGET)


def test_the_sound_protocol_passes_ten_short_examples_on_zeitgeist() -> None:
    run_state_machine_as_test(fault_machine(zeitgeist.pipeline, zeitgeist.feed), settings=BUDGET)


def begun(protocol: Protocol = SOUND) -> Any:
    """A machine to be driven by hand; `mail`'s feed runs from 1 s to 4 s, and the machine begins at 1 s."""
    machine: Any = small_machine(protocol)()
    machine.begin(0)
    return machine


def place_of(machine: Any, address: str) -> int:
    found: int = machine.ground.processes.index(address)
    return found


def struck(machine: Any) -> list[str]:
    return [event.kind for event in machine.cluster.history if isinstance(event, FaultStruck)]


def end(machine: Any) -> None:
    """What Hypothesis does after the last step."""
    machine.nothing_is_violated()
    machine.teardown()
    events = machine.cluster.history.events
    assert isinstance(events[-1], RunEnded)
    assert events[-1].why == "quiescent"
    assert any(isinstance(event, Healed) for event in events)


def test_crash_restart_pause_and_revive() -> None:
    machine = begun()
    for place in range(len(machine.ground.processes)):
        down = machine.crash(place)
        assert down == machine.ground.processes[place]
        machine.advance(5 * MILLISECOND)
        machine.restart(down)
        machine.advance(50 * MILLISECOND)
        paused = machine.pause(place)
        machine.advance(50 * MILLISECOND)
        machine.revive(paused)
        machine.nothing_is_violated()
    assert struck(machine) == ["crash", "restart", "pause", "revive"] * len(machine.ground.processes)
    end(machine)


@pytest.mark.parametrize("masters", [False, True])
@pytest.mark.parametrize("one_way", [False, True])
def test_partition_and_release(one_way: bool, masters: bool) -> None:  # noqa: FBT001  parameters of the test
    machine = begun()
    handle = machine.partition(0, one_way=one_way, masters=masters)
    machine.advance(1_500 * MILLISECOND)
    machine.nothing_is_violated()
    during = len(struck(machine))
    assert set(struck(machine)) == {"partition"}
    machine.release(handle)
    machine.advance(SECOND)
    assert len(struck(machine)) == during
    end(machine)


def test_hold_drop_duplicate_and_release() -> None:
    machine = begun()
    handles = [machine.hold("Deliver", 3), machine.drop("Ack", 2), machine.duplicate()]
    machine.advance(600 * MILLISECOND)
    for handle in handles:
        machine.release(handle)
    machine.advance(SECOND)
    assert {kind.partition("_")[0] for kind in struck(machine)} == {"hold", "drop", "noise"}
    end(machine)


def test_disturbed_commits() -> None:
    machine = begun()
    for worker, kind in enumerate((DelayCommit, DuplicateCommit, LoseCommit, LoseReply)):
        machine.disturb_commit(worker, kind, 400 * MILLISECOND)
        machine.advance(400 * MILLISECOND)
    assert set(struck(machine)) == {"delay_commit", "duplicate_commit", "lose_commit", "lose_reply"}
    end(machine)


@pytest.mark.parametrize("silent", [False, True])
def test_the_store_is_unavailable(silent: bool) -> None:  # noqa: FBT001  a parameter of the test
    machine = begun()
    machine.store_unavailable(silent=silent, dt=400 * MILLISECOND)
    assert set(struck(machine)) == {"store_unavailable"}
    end(machine)


def test_operators_verbs() -> None:
    machine = begun()
    for place, verb in enumerate((SplitInterval, MoveInterval, MergeIntervals)):
        machine.operate(place, 0, verb)
        machine.advance(400 * MILLISECOND)
        machine.nothing_is_violated()
    minted = [event.at_us for event in machine.cluster.history if isinstance(event, IntervalMinted)]
    assert len({at_us for at_us in minted if at_us >= SECOND}) == 3
    end(machine)


def test_a_record_that_is_injected_by_hand_is_processed_like_any_other() -> None:
    machine = begun()
    machine.advance(50 * MILLISECOND)
    machine.inject(0, 5 * MILLISECOND)
    at_us = machine.cluster.kernel.now
    end(machine)
    injected = [event for event in machine.cluster.history if isinstance(event, Injected)]
    by_hand = [
        event for event in injected if at_us - 5 * MILLISECOND in {p.timestamp for p in event.productions}
    ]
    assert len(injected) == small_feed(0).records + 1
    (record,) = by_hand[0].productions
    applied = [event for event in machine.cluster.history if isinstance(event, Applied)]
    assert any(record.record_id in {record_id for record_id, _ in event.delta.seen} for event in applied)


def test_nothing_can_be_injected_into_a_source_that_has_ended() -> None:
    machine = begun()
    machine.advance(10 * SECOND)
    machine.inject(0, 5 * MILLISECOND)
    end(machine)
    injected = [event for event in machine.cluster.history if isinstance(event, Injected)]
    assert len(injected) == small_feed(0).records


def two_versions() -> type[RuleBasedStateMachine]:
    """`mail`, and the same with a second consumer of what is sorted."""
    return fault_machine((PLAIN, AUDITED), small_feed, CHECKED)


def test_computations_are_added_and_removed() -> None:
    machine: Any = two_versions()()
    machine.begin(0)
    machine.change_topology(1)
    machine.advance(1_500 * MILLISECOND)
    machine.nothing_is_violated()
    machine.change_topology(0)
    machine.advance(1_500 * MILLISECOND)
    assert any(isinstance(event, ComputationRemoved) for event in machine.cluster.history)
    end(machine)


def test_the_sound_protocol_passes_ten_short_examples_while_its_topology_changes() -> None:
    run_state_machine_as_test(two_versions(), settings=BUDGET)


def test_each_step_is_judged_once() -> None:
    machine = begun()
    machine.nothing_is_violated()
    judged = machine.judged
    assert judged == len(machine.cluster.history) > 0
    machine.nothing_is_violated()
    assert machine.judged == judged
    machine.advance(400 * MILLISECOND)
    machine.nothing_is_violated()
    assert machine.judged == len(machine.cluster.history) > judged
    end(machine)


def delayed_zombie(machine: Any) -> None:
    """Figure 12 in the machine's verbs: a write is delayed, the masters lose sight of its worker, and it arrives too late."""
    zombie = owner(machine.cluster, "counter", "arco")
    place = place_of(machine, zombie)
    machine.disturb_commit(machine.ground.workers.index(zombie), DelayCommit, 2 * SECOND)
    handle = machine.partition(place, one_way=True, masters=True)
    for _ in range(2):
        machine.advance(1_500 * MILLISECOND)
        machine.nothing_is_violated()
    machine.release(handle)


def test_a_directed_zombie_is_refused_by_the_sound_protocol() -> None:
    machine = begun()
    delayed_zombie(machine)
    assert [event for event in machine.cluster.history if isinstance(event, WriteRefused)]
    end(machine)


def test_a_directed_zombie_breaks_the_protocol_without_sequencers() -> None:
    machine = begun(MUTANTS["without sequencers"])
    with pytest.raises(AssertionError, match="S6: a write of key 'arco' at 'counter' was applied"):
        delayed_zombie(machine)


def test_random_steps_break_the_protocol_without_sequencers() -> None:
    budget = settings(BUDGET, max_examples=60, stateful_step_count=20)
    with pytest.raises(AssertionError, match=r"S\d+: .*MillWheel"):
        run_state_machine_as_test(small_machine(MUTANTS["without sequencers"]), settings=budget)
