"""A checker that no mutant fails is worth nothing: each broken protocol is told from the sound one, and by what."""

import inspect
import re
from functools import cache
from statistics import median

import pytest

from headrace import MILLISECOND, SECOND
from headrace.history import Applied
from headrace.wire.messages import MoveInterval
from headrace_properties.checkers import judge
from headrace_properties.proof.mutants import CATALOGUE, MUTANTS, Mutant, Parts, Probe, protocol_named
from headrace_properties.proof.mutants.hunt import Hunted, hunt, hunt_all
from headrace_properties.proof.mutants.mutant import RULE_NAMES, overridden
from headrace_properties.proof.oracles import fired, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS, Workload
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.verdict import Violated
from headrace_sim import SOUND, FaultSchedule, Protocol, simulate
from headrace_sim import faults as f
from tests.properties.oracle_names import oracle_names
from tests.sim.rig import HEAL_US, calm_owner, letters, mail

EVERY_MUTANT = pytest.mark.parametrize("mutant", CATALOGUE.values(), ids=CATALOGUE)
SEEDS = 1_000
SOON = 100


def test_protocols_are_found_by_name() -> None:
    assert protocol_named("sound") is SOUND
    for name, protocol in MUTANTS.items():
        assert protocol_named(name) is protocol
        assert protocol.name == name
    with pytest.raises(KeyError):
        protocol_named("without luck")


# The catalogue


def test_the_catalogue_has_at_least_forty_mutants_each_of_its_own_name_and_parts() -> None:
    assert len(CATALOGUE) >= 40
    assert len({str(mutant.parts) + mutant.workload for mutant in CATALOGUE.values()}) == len(CATALOGUE)
    assert len({mutant.wrong for mutant in CATALOGUE.values()}) == len(CATALOGUE)


@EVERY_MUTANT
def test_a_mutant_names_a_section_an_invariant_and_a_workload_that_there_are(mutant: Mutant) -> None:
    assert re.fullmatch(r"\d(\.\d){0,2}(, \d(\.\d){0,2})*", mutant.section)
    assert mutant.breaks
    assert set(mutant.breaks) <= oracle_names()
    assert mutant.workload in WORKLOADS


@EVERY_MUTANT
def test_a_mutant_is_made_of_subclasses_that_differ_in_a_few_methods(mutant: Mutant) -> None:
    sound, changed = Parts(), 0
    for part in Parts.__slots__:
        own, engine = getattr(mutant.parts, part), getattr(sound, part)
        assert issubclass(own, engine)
        for one in own.__mro__[: own.__mro__.index(engine)]:
            changed += sum(
                inspect.isfunction(member) or isinstance(member, property) for member in vars(one).values()
            )
    assert 1 <= changed <= 7


@EVERY_MUTANT
def test_a_mutant_breaks_a_rule_or_a_machine_and_names_what_its_machine_bypasses(mutant: Mutant) -> None:
    machines = [
        part
        for part in Parts.__slots__
        if part != "rules" and getattr(mutant.parts, part) is not getattr(Parts(), part)
    ]
    assert mutant.rules or machines
    assert machines or not mutant.bypasses
    assert set(mutant.bypasses) <= set(RULE_NAMES)
    assert set(mutant.rules) == {*overridden(mutant.parts.rules), *mutant.bypasses}


def test_a_class_between_a_mutants_rules_and_the_sound_ones_counts() -> None:
    assert CATALOGUE["without sequencers"].rules == ("is_valid", "is_applied", "takes_report")
    assert CATALOGUE["checkpoints deleted when sent"].rules == ("deletes_checkpoint",)


def test_the_engine_knows_of_no_mutant() -> None:
    for name in ("mediator", "worker", "master", "authority", "injector"):
        engine = getattr(SOUND, name)
        assert engine.__module__.startswith("headrace.")
        assert not hasattr(engine, "probe")


def test_what_a_mutant_does_not_change_is_the_engine_s_own_class() -> None:
    protocol = CATALOGUE["without sequencers"].protocol()
    assert type(protocol.rules) is not type(SOUND.rules)
    for name in ("mediator", "worker", "master", "authority", "injector"):
        assert getattr(protocol, name) is getattr(SOUND, name)


def test_a_mutant_of_a_machine_leaves_the_rules_and_the_other_machines_as_they_are() -> None:
    protocol = CATALOGUE["sequencer checked at begin"].protocol()
    assert protocol.rules is SOUND.rules
    assert issubclass(protocol.mediator, SOUND.mediator)  # type: ignore[arg-type]
    assert protocol.mediator is not SOUND.mediator
    for name in ("worker", "master", "authority", "injector"):
        assert getattr(protocol, name) is getattr(SOUND, name)


# The hunt


KILLS = {
    "holds in memory only": 262,
    "a timer in the past never fires": 490,
    "a new origin for each reader": 447,
    "a restarted worker goes on as before": 229,
    "report before the scan": 160,
    "injector position at send": 158,
    "a refused write is ACKed": 145,
    "a split child on the old token": 128,
    "old sequencer killed after the scan": 104,
    "recovery queues no wall timer": 96,
    "send before checkpoint": 90,
    "a remnant is taken": 83,
    "a firing holds no origin": 74,
    "a percentile strips one too many": 61,
    "a row in use leaves the cache": 50,
    "silence is no failure": 49,
    "recovery without ids": 43,
    "a new id for each retry": 38,
    "an injector keeps its version": 35,
    "an observer's watermark goes back": 28,
    "sequencer checked at begin": 23,
    "a key runs before its row is known": 19,
    "a scan takes a key back": 19,
    "a row is read without its timers": 19,
}
"""Seeds that are known to kill, where the first that does comes late or takes long to make small. Should the engine's schedule
change so that one no longer kills, the hunt goes on from the first seed, as ``headrace mutants`` does, and takes longer."""


@cache
def hunted(name: str) -> Hunted:
    known = [KILLS[name]] if name in KILLS else []
    return hunt(CATALOGUE[name], [*known, *range(SEEDS)])


@EVERY_MUTANT
def test_every_mutant_is_activated_and_killed_by_an_invariant_that_it_is_to_break(
    mutant: Mutant,
) -> None:
    found = hunted(mutant.name)
    assert found.activated
    assert found.killed
    assert set(found.killed_by) & set(mutant.breaks)
    assert found.faults is not None
    assert found.faults <= 3


def test_chance_kills_most_mutants_soon_and_their_plans_are_small() -> None:
    by_chance = [hunted(name) for name, one in CATALOGUE.items() if one.directed is None]
    assert sum(one.killed and one.feed_seed < SOON for one in by_chance) >= 35
    assert median(one.faults for one in by_chance if one.faults is not None) <= 1


def test_a_hunt_is_the_same_in_every_process() -> None:
    names = ["recovery without timers", "without sequencers"]
    here = {name: hunt(CATALOGUE[name], range(50)) for name in names}
    there = {one.name: one for one in hunt_all(names, 50, jobs=2)}
    assert here == there


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_sound_protocol_survives_the_same_seeds_on_every_workload(workload: Workload) -> None:
    for seed in range(3):
        feed = workload.feed(seed)
        assert fired(try_workload(workload, feed, plan_of(workload, feed, seed))) == ()


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in CATALOGUE.values() if mutant.directed is not None],
    ids=lambda one: one.name,
)
def test_the_sound_protocol_survives_every_directed_scenario(mutant: Mutant) -> None:
    directed, workload = mutant.directed, WORKLOADS[mutant.workload]
    assert directed is not None
    assert directed.why
    feed, plan = workload.feed(directed.feed_seed), directed.plan(workload.options)
    assert fired(try_workload(workload, feed, plan)) == ()


def test_a_mutant_that_never_does_anything_wrong_is_neither_activated_nor_killed() -> None:
    idle = Mutant("idle", ("S1",), "6.2", "nothing", Parts(), "echoes")
    found = hunt(idle, range(5))
    assert (found.activated, found.killed, found.runs, found.faults) == (False, False, 5, None)


def test_the_probe_counts_one_run_only() -> None:
    workload, counts = WORKLOADS["tallies"], []
    feed = workload.feed(0)
    for _ in range(2):
        probe = Probe()
        protocol = CATALOGUE["ack before commit"].protocol(probe)
        try_workload(workload, feed, plan_of(workload, feed, 0), protocol)
        counts.append(probe.count)
    assert counts[0] == counts[1] > 0


# Without sequencers (6.2, Figure 12)


def test_without_faults_nobody_can_tell_a_store_without_sequencers_from_the_sound_one() -> None:
    pipeline = mail()
    protocols = (SOUND, MUTANTS["without sequencers"])
    runs = [simulate(pipeline, letters(pipeline), protocol=protocol) for protocol in protocols]
    assert runs[0].digest() == runs[1].digest()


def test_verify_kills_a_mutant_on_a_pipeline_of_the_user() -> None:
    protocol: Protocol = MUTANTS["without sequencers"]
    found = search(
        Steering(Application.with_input(mail(), letters(mail(), 20)), seed=6, protocol=protocol), examples=100
    )
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
    assert not [verdict for verdict in verdicts["sound"].values() if isinstance(verdict, Violated)]
    broken = verdicts["without sequencers"]["S6"]
    assert isinstance(broken, Violated)
    assert "MillWheel 6.2" in broken.message
    assert isinstance(broken.witness[-1], Applied)
