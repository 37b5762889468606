"""Every kind of fault really strikes, has its effect, and breaks no guarantee; here those of machines, sources and operators."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    Pipeline,
    Record,
    Timer,
)
from headrace import history as h
from headrace.wire.effects import Start
from headrace.wire.messages import (
    Journaled,
    MergeIntervals,
    MoveInterval,
    Progress,
    Reply,
    SplitInterval,
    Table,
    Verb,
    Watermarks,
)
from headrace_sim import SOUND, FeedBuilder, Protocol, Uniform, start
from headrace_sim import faults as f
from tests.sim.disturbances import (
    ADDRESSES,
    AT,
    COUNTER,
    EXAMPLES,
    MOVE,
    SORTER,
    applied,
    disturbed,
    events_of,
    executed,
    gone,
    minted_after,
)
from tests.sim.rig import (
    CHECKED,
    HEAL_US,
    assert_as_reference,
    assert_sound,
    finished,
    letters,
    mail,
    run,
    storm,
    with_engine,
)

# Every kind


def test_the_examples_have_every_kind_of_fault() -> None:
    assert EXAMPLES.keys() == f.KINDS.keys()


@pytest.mark.parametrize("kind", EXAMPLES, ids=f.KINDS.__getitem__)
def test_a_scheduled_fault_strikes_and_the_run_is_sound(kind: type[f.Fault]) -> None:
    done = disturbed(*EXAMPLES[kind])
    strikes = [event.kind for event in done.all(h.FaultStruck)]
    assert any(strike.startswith(f.KINDS[kind]) for strike in strikes)
    assert all(event.at_us >= AT for event in done.all(h.FaultStruck))


@pytest.mark.parametrize("kind", EXAMPLES, ids=f.KINDS.__getitem__)
def test_a_fault_ends_when_everything_heals(kind: type[f.Fault]) -> None:
    """The heal comes in the middle of it, and the run is short: nothing waits for the fault's own end."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *EXAMPLES[kind], heal_at_us=AT + 200 * MILLISECOND)
    assert_sound(done)
    (healed,) = done.all(h.Healed)
    late = [event for event in done.all(h.FaultStruck) if event.at_us > healed.at_us]
    assert [event.kind for event in late if event.kind not in ("skew_clock", "restart", "revive")] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_run_with_all_kinds_of_faults_is_survived(seed: int) -> None:
    pipeline = mail()
    reading = with_engine(cache_bytes=0)
    done = run(pipeline, letters(pipeline), *storm("mail/0", "counter"), options=reading, seed=seed)
    assert_sound(done)
    struck = {event.kind.partition("noise_")[0] or "noise" for event in done.all(h.FaultStruck)}
    assert struck == {*f.KINDS.values(), "restart", "revive"}


# Processes


def overhearing(replies: list[tuple[str, int, int]]) -> Protocol:
    """The sound protocol, and who was told what answer: (address, its incarnation, that of who had asked)."""

    def heard(kind: type) -> type:
        class Overheard(kind):  # type: ignore[misc]  # the class is a parameter
            incarnation = 0

            def handle(self, now: int, event: object) -> object:
                if isinstance(event, Start):
                    self.incarnation = event.incarnation
                elif isinstance(event, Reply):
                    replies.append((self.address, self.incarnation, event.request >> 32))
                return super().handle(now, event)

        return Overheard

    kinds: dict[str, Any] = {
        role: heard(getattr(SOUND, role)) for role in ("worker", "master", "authority", "injector")
    }
    return replace(SOUND, name="overheard", **kinds)


@pytest.mark.parametrize(
    "process", ["worker-0", "worker-1", "worker-2", "master-0", "authority-0.0", "mail/0"]
)
def test_a_process_that_restarts_ignores_the_answers_to_its_former_incarnation(process: str) -> None:
    """The store is slow: what was asked before the crash is answered after the restart."""
    replies: list[tuple[str, int, int]] = []
    pipeline = mail()
    crashes = [
        f.Crash(at_us=AT + after_ms * MILLISECOND, process=process, restart_after_us=MILLISECOND)
        for after_ms in (0, 40, 80, 370, 740, 1_110)
    ]
    slow = Uniform(20 * MILLISECOND, 100 * MILLISECOND)
    options = msgspec.structs.replace(CHECKED, store_write=slow)
    done = run(pipeline, letters(pipeline), *crashes, options=options, protocol=overhearing(replies))
    assert_sound(done)
    assert_as_reference(done)
    assert [reply for reply in replies if reply[0] == process and reply[2] < reply[1]]
    assert not [reply for reply in replies if reply[2] > reply[1]]


@pytest.mark.parametrize("process", ["worker-0", "master-0", "authority-0.0", "mail/0"])
def test_what_arrives_in_the_instant_of_a_restart_does_not_reach_a_process_that_has_not_begun(
    process: str,
) -> None:
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_until(AT)
    cluster.crash(process)
    kernel, node = cluster.kernel, cluster.nodes[process]

    def restart(_: None) -> None:
        assert cluster.restart(process)

    kernel.call_at(AT + SECOND, restart, None)
    for message in (Journaled(1), Table(99), Watermarks(0, (("counter", Progress(MAX_TIME)),))):
        kernel.call_at(AT + SECOND, lambda arrived: cluster.host.give(node, arrived), message)
    cluster.run_to_the_end()
    done = finished(cluster, pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_process_that_crashes_is_silent_and_then_starts_anew(address: str) -> None:
    done = disturbed(f.Crash(at_us=AT, process=address, restart_after_us=700 * MILLISECOND))
    (crash,), (restart,) = done.struck("crash"), done.struck("restart")
    assert (crash.at_us, restart.at_us) == (AT, AT + 700 * MILLISECOND)
    assert events_of(done, address, crash.at_us, restart.at_us) == []
    starts = [event.incarnation for event in done.all(h.ProcessStarted) if event.process == address]
    assert starts == [1, 2]


def test_a_crash_loses_memory_so_that_no_sequencer_is_inherited() -> None:
    """A worker is back long before it is missed: still, nothing that it owned is its own any more."""
    done = disturbed(f.Crash(at_us=AT, process=COUNTER, restart_after_us=50 * MILLISECOND))
    before = {e.version.sequencer for e in executed(done, "counter", COUNTER) if e.at_us < AT}
    after = {e.version.sequencer for e in done.all(h.Executed) if e.process == COUNTER and e.at_us > AT}
    assert before
    assert not before & after
    assert {event.interval.low for event in minted_after(done, AT) if event.computation == "counter"} == {""}


def test_a_restarted_process_knows_nothing() -> None:
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_until(AT)
    assert cluster.nodes[COUNTER].process.intervals
    assert cluster.crash(COUNTER)
    assert not cluster.crash(COUNTER), "there is nothing left to kill"
    assert cluster.restart(COUNTER)
    assert not cluster.restart(COUNTER), "it runs already"
    assert not cluster.nodes[COUNTER].process.intervals
    cluster.heal()
    cluster.run_to_the_end()
    assert_sound(finished(cluster, pipeline, letters(pipeline)))


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_process_that_is_killed_and_started_twice_in_one_instant_starts_once(address: str) -> None:
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_until(AT)
    for _ in range(2):
        cluster.crash(address)
        cluster.restart(address)
    cluster.heal()
    cluster.run_to_the_end()
    done = finished(cluster, pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    starts = [event.incarnation for event in done.all(h.ProcessStarted) if event.process == address]
    assert starts == [1, 3]


def test_a_crash_without_a_restart_lasts_until_the_heal() -> None:
    done = disturbed(f.Crash(at_us=AT, process=COUNTER))
    (restart,), (healed,) = done.struck("restart"), done.all(h.Healed)
    assert restart.at_us == healed.at_us == HEAL_US


def test_a_permanent_crash_is_worked_around() -> None:
    pipeline = mail()
    done = run(pipeline, letters(pipeline), f.Crash(at_us=AT, process=COUNTER), lasting=(COUNTER,))
    assert_sound(done)
    assert_as_reference(done)
    assert done.struck("restart") == []
    assert done.all(h.Healed)[0].lasting == (COUNTER,)


@pytest.mark.parametrize(
    "fault",
    [
        f.Partition(at_us=AT, side=(COUNTER,), for_us=SECOND),
        f.Pause(at_us=AT, process=COUNTER, for_us=SECOND),
        f.Crash(at_us=AT, process=COUNTER, restart_after_us=SECOND),
    ],
    ids=lambda fault: fault.kind,
)
def test_lasting_faults_do_not_end_by_themselves(fault: f.AnyFault) -> None:
    """Its time is over long before the heal: it stays away, or cut off, even so, and the others do without it."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), fault, lasting=(COUNTER,))
    assert_sound(done)
    assert_as_reference(done)
    assert done.struck("revive") == done.struck("restart") == []
    assert max(strike.at_us for strike in done.struck(fault.kind)) < HEAL_US
    if isinstance(fault, f.Partition):
        assert max(strike.at_us for strike in done.struck(fault.kind)) > HEAL_US - SECOND
        assert done.cluster.nodes[COUNTER].process.intervals, "nobody has told it that it was replaced"


@pytest.mark.parametrize("fault", [f.Crash, f.Pause])
def test_a_permanently_stopped_processs_pending_work_does_not_prolong_the_run(
    fault: type[f.Fault],
) -> None:
    """Its ACKs are held, so that it is stopped with productions that it still wants ACKed."""
    pipeline = mail()
    acks = f.Hold(at_us=AT - 200 * MILLISECOND, message="Ack", target=SORTER, count=1_000, for_us=SECOND)
    done = run(pipeline, letters(pipeline), acks, gone(fault, SORTER, AT, 600 * SECOND), lasting=(SORTER,))
    assert done.cluster.nodes[SORTER].process.unacked
    assert_sound(done)
    assert_as_reference(done)
    assert done.struck("revive") == done.struck("restart") == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_paused_process_is_silent_and_then_continues(address: str) -> None:
    done = disturbed(f.Pause(at_us=AT, process=address, for_us=2 * SECOND))
    (pause,), (revive,) = done.struck("pause"), done.struck("revive")
    assert (pause.at_us, revive.at_us) == (AT, AT + 2 * SECOND)
    assert events_of(done, address, pause.at_us, revive.at_us) == []
    assert [event.incarnation for event in done.all(h.ProcessStarted) if event.process == address] == [1]


def test_a_short_pause_leaves_memory_and_ownership_intact() -> None:
    done = disturbed(f.Pause(at_us=AT, process=COUNTER, for_us=400 * MILLISECOND))
    assert done.struck("revive")[0].detail == "still the owner"
    assert minted_after(done, SECOND) == []
    before = {e.version.sequencer for e in executed(done, "counter", COUNTER) if e.at_us < AT}
    after = {e.version.sequencer for e in executed(done, "counter", COUNTER) if e.at_us > AT}
    assert before == after != set()
    assert done.all(h.WriteRefused) == []


def test_after_a_long_pause_a_zombie_writes_and_is_refused() -> None:
    """Paused for longer than the heartbeat time-out, the worker is replaced; revived, it goes on with its old sequencer."""
    done = disturbed(f.Pause(at_us=AT, process=COUNTER, for_us=2_500 * MILLISECOND))
    (revive,) = done.struck("revive")
    assert revive.detail == "zombie"
    (successor,) = [event for event in minted_after(done, AT) if event.computation == "counter"]
    assert successor.owner != COUNTER
    refused = done.all(h.WriteRefused)
    assert refused
    assert all(event.at_us > revive.at_us for event in refused)
    assert {event.live for event in refused} == {successor.sequencer}


# Machines


def test_a_slow_machine_takes_factor_times_as_long() -> None:
    done = disturbed(f.Slow(at_us=AT, process=COUNTER, for_us=SECOND, factor=2_000))

    def worst_us(begin_us: int, end_us: int) -> int:
        written = {(e.sequencer, e.delta.number): e.at_us for e in applied(done, "counter")}
        waits = [
            written[e.version.sequencer, e.version.number] - e.at_us
            for e in executed(done, "counter", COUNTER)
            if begin_us <= e.at_us < end_us and (e.version.sequencer, e.version.number) in written
        ]
        return max(waits)

    assert worst_us(SECOND, AT) < 5 * MILLISECOND
    assert worst_us(AT, AT + SECOND) >= 2_000 * 20


class Alarm(Computation):
    """Rings half a second after a record came, by the machine's clock."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_wall_timer("alarm", context.wall_time + SECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("rings", context.key)


@pytest.mark.parametrize(("by_us", "rings_after_us"), [(0, SECOND), (600 * MILLISECOND, 400 * MILLISECOND)])
def test_a_clock_that_jumps_ahead_rings_its_wall_timers_early(by_us: int, rings_after_us: int) -> None:
    pipeline = Pipeline("alarm")
    pipeline.injector("in")
    pipeline.add(Alarm(), name="alarm", inputs=["in"], outputs=["rings"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value=1, timestamp=AT, key="k")
    jump = f.SkewClock(at_us=AT + 100 * MILLISECOND, process="worker-0", by_us=by_us, for_us=3 * SECOND)
    done = run(pipeline, builder.build(), jump)
    assert_sound(done)
    (rung,) = [event for event in done.all(h.Executed) if event.timer is not None]
    set_us = next(event.at_us for event in done.all(h.Executed))
    assert 0 <= rung.at_us - set_us - rings_after_us <= 60 * MILLISECOND


@pytest.mark.parametrize("by_us", [-3 * SECOND, 3 * SECOND])
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_clock_that_jumps_breaks_nothing(address: str, by_us: int) -> None:
    done = disturbed(f.SkewClock(at_us=AT, process=address, by_us=by_us, for_us=SECOND))
    assert [event.detail for event in done.struck("skew_clock")] == [f"by {by_us} us", f"by {-by_us} us"]


# Sources


def test_delayed_records_are_late_and_none_is_lost() -> None:
    pipeline = mail()
    late = f.LateRecords(at_us=AT, process="mail/0", count=4, by_us=SECOND)
    done = run(pipeline, letters(pipeline), late)
    assert_sound(done)
    assert [event.detail for event in done.struck("late_records")] == ["4 records"]
    behind = [event for event in executed(done, "counter") if event.late]
    assert len(behind) == 4
    assert sum(times for (stream, _), times in done.outputs.items() if stream == "late") == 4
    on_time = [int(e.version.number > 0) for e in executed(done, "counter") if not e.late and e.timer is None]
    assert len(on_time) == 56


def test_a_stalled_source_delivers_nothing_and_then_everything() -> None:
    done = disturbed(f.StallSource(at_us=AT, process="mail/0", for_us=SECOND))
    injected = [event.at_us for event in done.all(h.Injected)]
    assert len(injected) == 60
    gap_us = max(after - before for before, after in pairwise(injected))
    assert gap_us == SECOND + 50 * MILLISECOND


# Operators

SPLIT = SplitInterval("counter", "b")
MERGE = MergeIntervals("counter", "arco")


def test_moving_an_interval_gives_it_to_another_worker() -> None:
    done = disturbed(f.Operate(at_us=AT, verb=MoveInterval("counter", "arco", SORTER)))
    (minted,) = minted_after(done, SECOND)
    assert (minted.owner, minted.interval.low, minted.interval.high) == (SORTER, "", "m")


def test_splitting_an_interval_makes_two() -> None:
    done = disturbed(f.Operate(at_us=AT, verb=SPLIT))
    assert [(e.interval.low, e.interval.high) for e in minted_after(done, SECOND)] == [("", "b"), ("b", "m")]


def test_merging_two_intervals_makes_one() -> None:
    done = disturbed(f.Operate(at_us=AT, verb=MERGE))
    (minted,) = minted_after(done, SECOND)
    assert (minted.interval.low, minted.interval.high) == ("", None)


def test_a_verb_that_cannot_be_done_changes_nothing() -> None:
    verbs: list[Verb] = [
        MoveInterval("nobody", "arco"),
        MoveInterval("counter", "arco", COUNTER),
        SplitInterval("counter", "m"),
        MergeIntervals("counter", "zeno"),
    ]
    done = disturbed(*[f.Operate(at_us=AT, verb=verb) for verb in verbs])
    assert len(done.struck("operate")) == 4
    assert minted_after(done, SECOND) == []


@pytest.mark.parametrize("after_us", [0, 1_000, 3_000, 8_000, 20_000])
@pytest.mark.parametrize("second", [MOVE, SPLIT, MERGE], ids=lambda verb: type(verb).__name__)
@pytest.mark.parametrize("first", [MOVE, SPLIT, MERGE], ids=lambda verb: type(verb).__name__)
def test_operator_verbs_may_overlap(first: Verb, second: Verb, after_us: int) -> None:
    """The second verb comes while the first is being minted, told, scanned, or just done."""
    done = disturbed(
        f.Operate(at_us=AT, verb=first),
        f.Operate(at_us=AT + after_us, verb=second),
        f.Operate(at_us=AT + 2 * after_us, verb=MOVE),
    )
    changed_us = {event.at_us for event in minted_after(done, SECOND)}
    assert len(changed_us) == 2 if first is second is MERGE else 3, (
        "two merges: there is nothing left to merge"
    )


# Fail-over


@pytest.mark.parametrize("fault", [f.Crash, f.Pause])
def test_a_standby_master_takes_over_and_repairs(fault: type[f.Fault]) -> None:
    """The master is gone for good when a worker dies: its successor replaces the worker."""
    done = disturbed(
        gone(fault, "master-0", AT, 3 * SECOND),
        f.Crash(at_us=AT + 2 * SECOND, process=COUNTER, restart_after_us=2 * SECOND),
    )
    claims = [
        (event.epoch, event.holder.partition("#")[0])
        for event in done.all(h.RoleClaimed)
        if event.role == "master"
    ]
    assert claims[:2] == [(1, "master-0"), (2, "master-1")]
    (minted,) = [
        event
        for event in minted_after(done, AT)
        if event.interval.high == "m" and event.computation == "counter"
    ]
    assert minted.owner != COUNTER
    assert minted.at_us < AT + 2 * SECOND + 2 * CHECKED.engine.heartbeat_timeout_us


def test_a_revived_master_that_was_replaced_mints_nothing() -> None:
    """The verb reaches the paused master, too: when it wakes, it tries, and its epoch is over."""
    done = disturbed(
        f.Pause(at_us=AT, process="master-0", for_us=2_500 * MILLISECOND),
        f.Operate(at_us=AT + 10, verb=MOVE),
    )
    assert [event.epoch for event in done.all(h.RoleClaimed) if event.role == "master"] == [1, 2]
    assert minted_after(done, SECOND) == []


@pytest.mark.parametrize("fault", [f.Crash, f.Pause])
def test_a_standby_authority_takes_over_and_watermarks_continue(fault: type[f.Fault]) -> None:
    done = disturbed(gone(fault, "authority-0.0", AT, 3 * SECOND))
    claims = [
        (event.epoch, event.holder.partition("#")[0])
        for event in done.all(h.RoleClaimed)
        if event.role.startswith("authority")
    ]
    assert claims[:2] == [(1, "authority-0.0"), (2, "authority-0.1")]
    taken_us = next(e.at_us for e in done.all(h.RoleClaimed) if e.holder.startswith("authority-0.1"))
    published = [e for e in done.all(h.Published) if taken_us < e.at_us < AT + 3 * SECOND]
    assert {event.process for event in published} == {"authority-0.1"}
