"""A checker that no mutant fails is worth nothing: each broken protocol is told from the sound one, and by what."""

import pytest

from millrace import MILLISECOND, SECOND
from millrace._messages import MoveInterval
from millrace.history import Applied
from millrace_properties.checkers import judge
from millrace_properties.mutants import MUTANTS, protocol_named
from millrace_properties.verdict import Violated
from millrace_properties.verification import verify
from millrace_sim import SOUND, FaultSchedule, Protocol, simulate
from millrace_sim import faults as f
from tests.sim.rig import HEAL_US, calm_owner, letters, mail

EVERY_MUTANT = pytest.mark.parametrize("protocol", MUTANTS.values(), ids=MUTANTS)


def test_protocols_are_found_by_name() -> None:
    assert protocol_named("sound") is SOUND
    for name, protocol in MUTANTS.items():
        assert protocol_named(name) is protocol
        assert protocol.name == name
    with pytest.raises(KeyError):
        protocol_named("without luck")


@EVERY_MUTANT
def test_a_mutant_is_wrong_in_one_thing_only(protocol: Protocol) -> None:
    """It replaces one state machine by a subclass of the engine's."""
    parts = ("mediator", "worker", "master", "authority", "injector")
    changed = [part for part in parts if getattr(protocol, part) is not getattr(SOUND, part)]
    assert len(changed) == 1
    assert issubclass(getattr(protocol, changed[0]), getattr(SOUND, changed[0]))


@EVERY_MUTANT
def test_without_faults_nobody_can_tell_a_mutant_from_the_sound_protocol(protocol: Protocol) -> None:
    pipeline = mail()
    runs = [simulate(pipeline, letters(pipeline), protocol=one) for one in (SOUND, protocol)]
    assert runs[0].digest() == runs[1].digest()


@EVERY_MUTANT
def test_every_mutant_is_killed(protocol: Protocol) -> None:
    found = verify(mail(), lambda _: letters(mail(), 20), examples=100, seed=6, protocol=protocol)
    assert found.failure is not None
    assert found.failure.violations or found.failure.error


AT = 2 * SECOND
COUNTER = calm_owner("counter", "arco")

ZOMBIES: dict[str, tuple[f.AnyFault, ...]] = {
    "a write arrives after its interval has moved": (
        f.DelayCommit(at_us=AT, process=COUNTER, by_us=SECOND),
        f.Operate(at_us=AT + 300 * MILLISECOND, verb=MoveInterval("counter", "arco")),
    ),
    "a process wakes up after it was replaced": (
        f.Pause(at_us=AT, process=COUNTER, for_us=2_500 * MILLISECOND),
    ),
    "a process that the masters do not hear goes on": (
        f.Partition(at_us=AT, side=(COUNTER,), other=("master-0", "master-1"), for_us=3 * SECOND),
    ),
}


@pytest.mark.parametrize("faults", ZOMBIES.values(), ids=ZOMBIES)
def test_without_sequencers_each_kind_of_zombie_writes_and_is_seen_by_s6(
    faults: tuple[f.AnyFault, ...],
) -> None:
    pipeline = mail()
    schedule = FaultSchedule(faults, HEAL_US)
    verdicts = {}
    for name in ("sound", "without sequencers"):
        history = simulate(pipeline, letters(pipeline), faults=schedule, protocol=protocol_named(name))
        verdicts[name] = judge(history, [pipeline])
        stale = [event for event in history if isinstance(event, Applied) and event.sequencer != event.live]
        assert bool(stale) == (name != "sound")
    assert not [one for one in verdicts["sound"].values() if isinstance(one, Violated)]
    broken = verdicts["without sequencers"]["S6"]
    assert isinstance(broken, Violated)
    assert "MillWheel 6.2" in broken.message
    assert isinstance(broken.witness[-1], Applied)
