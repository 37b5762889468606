"""Plans: every string of bytes is a run, zeros are the healthy one, and every kind of fault is within reach."""

import dataclasses
import hashlib
import random
from collections import Counter

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace import HOUR, MINUTE, SECOND, Eviction
from headrace.wire.messages import ChangeTopology
from headrace_properties.search.fault_kinds import FIRST_TABLE, TABLES, Slot
from headrace_properties.search.plans import (
    FAULT_SLOTS,
    MAKERS,
    PLAN_BYTES,
    STEPS,
    Ground,
    Plan,
    decode_plan,
    draw_faults,
    ground_of,
)
from headrace_scenarios import zeitgeist
from headrace_scenarios.zeitgeist.search_traffic import UserSearch
from headrace_sim import ClusterOptions, FeedBuilder, Uniform, start
from headrace_sim import faults as f
from headrace_sim.steps import role_of

PIPELINE = zeitgeist.pipeline
FEED = zeitgeist.feed(0)
BASE = ClusterOptions()
GROUND = ground_of(PIPELINE, FEED, BASE)
HEADER_BYTES, SLOT_BYTES = 8, 5
ZEROS = bytes(PLAN_BYTES)
NEWEST = max(TABLES)

any_plan = st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES)


def decode(data: bytes) -> Plan:
    return decode_plan(data, GROUND, BASE)


def with_bytes(**at: int) -> bytes:
    """Zeros but for these; ``b3=7`` is byte 3."""
    data = bytearray(ZEROS)
    for name, value in at.items():
        data[int(name.removeprefix("b"))] = value
    return bytes(data)


def slot(kind: int, when: int = 0, where: int = 0, how: int = 0, how_long: int = 0) -> bytes:
    """A plan with one slot in use."""
    return (
        ZEROS[:HEADER_BYTES] + bytes([kind, when, where, how, how_long]) + ZEROS[HEADER_BYTES + SLOT_BYTES :]
    )


def test_the_zero_plan_is_a_healthy_run_with_the_base_options() -> None:
    assert decode(ZEROS) == Plan(f.FaultSchedule(heal_at_us=0), BASE, 0)


def test_a_plan_has_a_fixed_length() -> None:
    for data in (ZEROS[1:], ZEROS + b"\1\0", b""):
        with pytest.raises(AssertionError, match=f"a plan has {PLAN_BYTES} bytes"):
            decode(data)


def test_a_plan_of_a_table_that_does_not_exist_is_refused() -> None:
    for number in (0, NEWEST + 1):
        with pytest.raises(AssertionError, match=f"no table {number} of fault kinds"):
            decode(ZEROS + bytes([number]))


@given(any_plan)
@example(b"\xff" * PLAN_BYTES)
@example(ZEROS)
def test_every_string_of_bytes_is_a_plan_that_can_run(data: bytes) -> None:
    plan = decode(data)
    assert plan.faults.count <= FAULT_SLOTS
    start(
        PIPELINE, FEED, options=plan.options, faults=plan.faults, seed=plan.seed
    )  # refuses what names no process
    for fault in plan.faults.faults:
        assert 0 <= fault.at_us < GROUND.horizon_us <= plan.faults.heals_at_us


@given(any_plan)
def test_a_plan_survives_json(data: bytes) -> None:
    plan = decode(data)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


@given(any_plan)
def test_a_plan_is_a_function_of_its_bytes(data: bytes) -> None:
    assert decode(data) == decode(bytes(data))


def test_the_newest_table_has_every_kind_of_fault() -> None:
    numbers = range(1, len(TABLES[NEWEST].makers) + 1)
    made = [decode(slot(number) + bytes([NEWEST])).faults for number in numbers]
    assert all(schedule.count for schedule in made)
    assert {type(fault) for schedule in made for fault in schedule.faults} == set(f.KINDS)


def _meaning(ground: Ground) -> list[f.FaultSchedule]:
    """The faults that many plans and seeds of the first table mean."""
    draw = random.Random(0)
    plans = [decode_plan(draw.randbytes(PLAN_BYTES), ground, BASE).faults for _ in range(400)]
    return plans + [draw_faults(ground, 40, seed) for seed in range(10)]


def _added(slot: Slot) -> f.StallSource:
    """A new kind of fault that can be recognised."""
    return f.StallSource(at_us=slot.at_us, process=slot.ground.injectors[0], for_us=12_345)


def test_adding_a_kind_keeps_the_meaning_of_plans_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a plan that names the new table has faults of the new kind."""
    two = msgspec.structs.replace(GROUND, versions=2)
    before = [_meaning(ground) for ground in (GROUND, two)]
    monkeypatch.setitem(TABLES, NEWEST + 1, TABLES[NEWEST].with_more(_added))
    assert [_meaning(ground) for ground in (GROUND, two)] == before
    draw = random.Random(0)
    for ground in (GROUND, two):
        drawn = [draw.randbytes(PLAN_BYTES) for _ in range(400)]
        old = [fault for data in drawn for fault in decode_plan(data, ground, BASE).faults.faults]
        named = (decode_plan(data + bytes([NEWEST + 1]), ground, BASE) for data in drawn)
        new = [fault for plan in named for fault in plan.faults.faults]
        assert not [fault for fault in old if getattr(fault, "for_us", 0) == 12_345]
        assert [fault for fault in new if getattr(fault, "for_us", 0) == 12_345]
        assert any(
            fault.end_us - fault.at_us == 12_345
            for fault in draw_faults(ground, 99, 0, table=NEWEST + 1).faults
        )


def test_the_first_table_means_what_it_has_always_meant() -> None:
    """If this fails, a table was changed: put the change into a new one instead."""
    ground = Ground(
        workers=("worker-0", "worker-1", "worker-2"),
        leaders=("master-0", "master-1", "authority-0.0", "authority-0.1"),
        injectors=("letters/0", "letters/1"),
        computations=("sorter", "counter"),
        keys=("c", "g", "m", "s"),
        horizon_us=9 * SECOND,
        boundaries=(("m",), ()),
    )
    two = msgspec.structs.replace(ground, versions=2)
    digests = [
        hashlib.sha256(msgspec.json.encode(_meaning(ground))).hexdigest()[:16] for ground in (ground, two)
    ]
    assert digests == ["713e3ae5a7c1f133", "fcad2e91face606a"]
    assert all(
        decode(data) == decode(data + bytes([FIRST_TABLE])) for data in (ZEROS, slot(3), b"\x05" * PLAN_BYTES)
    )


def test_faults_are_tied_to_steps_too() -> None:
    """Every role's steps, crashes and pauses and partitions and verbs there, and each fate of a message."""
    draw = random.Random(0)
    tied = [at_step for _ in range(2_000) for at_step in decode(draw.randbytes(PLAN_BYTES)).faults.at_steps]
    assert {type(fault.fault) for fault in tied} == {
        f.Crash, f.Pause, f.Partition, f.Operate, f.DropMessage, f.DuplicateMessage, f.DelayMessage,
    }  # fmt: skip
    steps = {(role_of(fault.step.process), fault.step.does, fault.step.message) for fault in tied}
    assert steps == {(role, *step) for role in STEPS for step in STEPS[role]}
    assert {fault.step.nth for fault in tied} == set(range(1, 13))


def test_faults_can_be_correlated_in_time_or_in_place() -> None:
    draw = random.Random(0)
    for _ in range(50):
        data = bytearray(draw.randbytes(PLAN_BYTES))
        data[0], data[1], data[2] = 0b100, 0, 12  # crashes, and what comes late, only
        faults = decode(bytes(data)).faults.faults
        times = [fault.at_us for fault in faults]
        assert not times or max(times) - min(times) <= GROUND.horizon_us // 8
        assert len({fault.process for fault in faults if isinstance(fault, f.Crash)}) <= 1


def test_a_plan_may_leave_a_minority_broken_permanently() -> None:
    """The first process that is stopped, unless nobody can take its place."""
    crash = slot(3, where=4)
    lasting = crash[:2] + b"\x10" + crash[3:]
    assert decode(crash).faults.lasting == ()
    assert decode(lasting).faults.lasting == (GROUND.processes[4],)
    injector = slot(3, where=GROUND.processes.index("searches/0"))
    assert decode(injector[:2] + b"\x10" + injector[3:]).faults.lasting == ()


@pytest.mark.parametrize(
    ("how", "lasts"), [(0, True), (1, False), (2, False)], ids=["all", "one way", "masters"]
)
def test_a_process_cut_off_permanently_is_cut_off_from_all_others(how: int, lasts: bool) -> None:  # noqa: FBT001  a parameter of the test
    cut = slot(4, where=1, how=how)
    found = decode(cut[:2] + b"\x10" + cut[3:]).faults
    assert isinstance(found.faults[0], f.Partition)
    assert found.lasting == (("worker-1",) if lasts else ())


def test_an_operator_changes_the_version_where_there_is_another() -> None:
    """Zeros change nothing, and where there is one version only nothing else can."""
    two = msgspec.structs.replace(GROUND, versions=2)
    assert decode_plan(bytes(PLAN_BYTES), two, BASE) == decode_plan(bytes(PLAN_BYTES), GROUND, BASE)
    draw, changes = random.Random(0), dict.fromkeys((GROUND, two), 0)
    for _ in range(200):
        data = draw.randbytes(PLAN_BYTES)
        for ground in changes:
            planned = decode_plan(data, ground, BASE).faults.planned
            faults = [crash.fault if isinstance(crash, f.StepFault) else crash for crash in planned]
            verbs = [fault.verb for fault in faults if isinstance(fault, f.Operate)]
            versions = {verb.topology for verb in verbs if isinstance(verb, ChangeTopology)}
            assert versions <= set(range(ground.versions))
            changes[ground] += bool(versions)
    assert changes[GROUND] == 0
    assert changes[two] > 40


def test_every_place_is_struck() -> None:
    """Each process crashes and is paused, each worker's writes are disturbed, each injector's records come late."""
    struck: dict[type[f.Fault], set[str]] = {}
    for number in range(1, len(MAKERS) + 1):
        for where in range(32):
            schedule = decode(slot(number, where=where)).faults
            (fault,) = schedule.faults or (schedule.at_steps[0].fault,)
            struck.setdefault(type(fault), set()).update(fault.addresses)
    places: dict[tuple[type[f.Fault], ...], tuple[str, ...]] = {
        (f.Crash, f.Pause, f.Slow, f.SkewClock): GROUND.processes,
        (f.DelayCommit, f.LoseCommit, f.LoseReply, f.DuplicateCommit): GROUND.workers,
        (f.LateRecords, f.StallSource): GROUND.injectors,
    }
    for kinds, addresses in places.items():
        for kind in kinds:
            assert struck[kind] == set(addresses)


def test_all_computations_are_operated_on() -> None:
    operated = {
        (type(fault.verb).__name__, fault.verb.computation)
        for where in range(8)
        for how in range(6)
        for fault in decode(slot(1, where=where, how=how)).faults.faults
        if isinstance(fault, f.Operate) and not isinstance(fault.verb, ChangeTopology)
    }
    verbs = ("MoveInterval", "SplitInterval", "MergeIntervals")
    assert operated == {(verb, name) for verb in verbs for name in PIPELINE.computations}


def test_a_random_plan_has_four_or_five_faults() -> None:
    draw = random.Random(0)
    counts = Counter(decode(draw.randbytes(PLAN_BYTES)).faults.count for _ in range(400))
    assert 4 <= sum(number * times for number, times in counts.items()) / 400 <= 5
    assert counts[0] < 10


def test_a_swarm_uses_some_kinds_only() -> None:
    """Two bits of the header: only those two kinds, whatever the slots say."""
    draw = random.Random(0)
    kinds = set()
    for _ in range(50):
        data = bytearray(draw.randbytes(PLAN_BYTES))
        data[0], data[1] = 0b110, 0
        kinds |= {type(fault) for fault in decode(bytes(data)).faults.faults}
    assert kinds == {f.Pause, f.Crash, f.LateRecords, f.StallSource}  # bits 1 and 2, and again 17 and 18


def test_smaller_bytes_make_earlier_and_shorter_faults() -> None:
    (early,), (later,) = (decode(slot(2, when=when)).faults.faults for when in (3, 200))
    (short,), (long,) = (decode(slot(2, how_long=how_long)).faults.faults for how_long in (0, 255))
    assert early.at_us < later.at_us
    assert isinstance(short, f.Pause)
    assert isinstance(long, f.Pause)
    assert short.for_us < SECOND < 3 * SECOND < long.for_us


def test_a_slot_of_zero_or_of_a_large_kind_is_empty() -> None:
    assert all(not decode(slot(kind)).faults.faults for kind in (0, 112, 255))


@pytest.mark.parametrize(
    ("data", "option", "value"),
    [
        (with_bytes(b3=1), "commit_batch", 1),
        (with_bytes(b3=4), "commits_in_flight", 1),
        (with_bytes(b3=8), "cache_bytes", 0),
        (with_bytes(b3=32), "eviction", Eviction.LRU),
        (with_bytes(b3=64), "scan_page_rows", 1),
        (with_bytes(b3=128), "id_slack_us", 0),
        (with_bytes(b4=1), "collect_period_us", SECOND // 10),
        (with_bytes(b4=2), "delete_delay_us", 0),
        (with_bytes(b4=4), "straggler_delay_us", 20_000),
        (with_bytes(b4=8), "bloom_capacity", 8),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_knob_of_the_engine_is_turned_alone(data: bytes, option: str, value: object) -> None:
    assert decode(data).options.engine == dataclasses.replace(BASE.engine, **{option: value})  # type: ignore[arg-type]


def test_the_clusters_knobs_are_turned() -> None:
    assert decode(with_bytes(b5=10)).options.clock_skew == Uniform(0, 40_000)
    assert decode(with_bytes(b4=16)).options.timer_lag == Uniform(0, 30_000)
    assert decode(with_bytes(b4=32)).options.store_write == Uniform(500, 60_000)
    assert decode(with_bytes(b6=1, b7=1)).seed == 257


def test_the_ground_lists_the_processes_and_keys() -> None:
    assert GROUND.workers == ("worker-0", "worker-1", "worker-2")
    assert GROUND.leaders == ("master-0", "master-1", "authority-0.0", "authority-0.1")
    assert GROUND.injectors == ("searches/0", "searches/1")
    assert GROUND.computations == tuple(PIPELINE.computations)
    assert {"m", "te"} <= set(GROUND.keys)
    assert GROUND.horizon_us == FEED.end_us + SECOND


def test_faults_strike_near_arrivals_and_not_in_the_days_between_them() -> None:
    builder, day_us = FeedBuilder(PIPELINE), 24 * HOUR
    arrivals = [day_us, day_us + 8 * SECOND, 3 * day_us, 3 * day_us + MINUTE]
    for at_us in arrivals:
        builder.record(at_us=at_us, value=UserSearch("carnival"), timestamp=at_us)
    ground = ground_of(PIPELINE, builder.build(), BASE)
    assert ground.busy_us == (35 + 8 + 35 + 35 + 1) * SECOND
    draw, moments = random.Random(0), [0, *arrivals]
    struck = [
        fault.at_us
        for seed in range(200)
        for schedule in (
            decode_plan(draw.randbytes(PLAN_BYTES), ground, BASE).faults,
            draw_faults(ground, 5, seed),
        )
        for fault in schedule.faults
    ]
    assert all(any(-5 * SECOND <= at_us - moment <= 30 * SECOND for moment in moments) for at_us in struck)
    assert all(any(abs(at_us - moment) < 5 * SECOND for at_us in struck) for moment in moments)


def _second(ground: Ground) -> list[f.FaultSchedule]:
    draw = random.Random(0)
    return [decode_plan(draw.randbytes(PLAN_BYTES) + b"\x02", ground, BASE).faults for _ in range(300)]


def test_the_second_table_has_faults_that_the_first_cannot_express() -> None:
    """Noise on the store's traffic, a new owner that hears no broadcasts, and whoever recovers is struck in the middle of it."""
    schedules = _second(GROUND)
    noises = [fault for each in schedules for fault in each.faults if isinstance(fault, f.Noise)]
    assert {kind for noise in noises for kind in noise.kinds} >= {
        "Mint",
        "Claim",
        "JournalWatermarks",
        "JournalPosition",
    }
    tied = [step for each in schedules for step in each.at_steps]
    deaf = [
        fault
        for fault in tied
        if fault.step.message == "Scanned"
        and isinstance(fault.fault, f.Partition)
        and fault.fault.other == (fault.step.process,)
    ]
    assert deaf
    assert all(role_of(side) == "authority" for fault in deaf for side in fault.fault.side)  # type: ignore[union-attr]
    heirs = [fault for fault in tied if fault.step.after_us]
    assert {role_of(heir.step.process) for heir in heirs} == {"worker", "master", "authority", "injector"}
    assert all(isinstance(heir.fault, f.Crash | f.Pause) for heir in heirs)
    for each in schedules:
        stops = {fault.at_us for fault in each.faults if isinstance(fault, f.Crash)}
        assert {step.step.after_us for step in each.at_steps if step.step.after_us} <= stops | {1}
