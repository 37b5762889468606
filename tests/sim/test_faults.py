"""Every kind of fault really strikes, has its effect, and breaks no guarantee."""

from itertools import pairwise

import msgspec
import pytest

from millrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    HistoryFormatError,
    OptionsError,
    Pipeline,
    Record,
    Timer,
)
from millrace import history as h
from millrace._effects import Start
from millrace._messages import (
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
from millrace_sim import SOUND, ClusterOptions, FaultSchedule, FeedBuilder, Protocol, Uniform, start
from millrace_sim import faults as f
from tests.sim.rig import (
    CHECKED,
    HEAL_US,
    Run,
    assert_as_reference,
    assert_sound,
    calm_owner,
    finished,
    letters,
    mail,
    run,
    storm,
    with_engine,
)

AT = 2 * SECOND
"""When most faults begin: in the middle of the feed."""

COUNTER = calm_owner("counter", "arco")
"""Owns an interval of the second stage, and nothing of the first."""

SORTER = calm_owner("sorter", "zeno")
"""Owns an interval of the first stage, and nothing of the second."""


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

    kinds = {role: heard(getattr(SOUND, role)) for role in ("worker", "master", "authority", "injector")}
    return Protocol(name="overheard", **kinds)


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
    assert [one for one in replies if one[0] == process and one[2] < one[1]]
    assert not [one for one in replies if one[2] > one[1]]


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
        kernel.call_at(AT + SECOND, lambda arrived: cluster.give(node, arrived), message)
    cluster.run_to_the_end()
    done = finished(cluster, pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)


ADDRESSES = (
    "worker-0", "worker-1", "worker-2", "master-0", "master-1", "authority-0.0", "authority-0.1", "mail/0",
)  # fmt: skip


def disturbed(*faults: f.AnyFault, options: ClusterOptions = CHECKED) -> Run:
    """Run `mail` with these faults; whatever they are, it is sound, and comes to what it would have come to."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *faults, options=options)
    assert_sound(done)
    assert_as_reference(done)
    return done


def events_of(done: Run, process: str, begin_us: int, end_us: int) -> list[h.Event]:
    """What a process did between two times (both exclusive), by its own account."""
    return [
        event
        for event in done.history
        if event.process == process
        and begin_us < event.at_us < end_us
        and not isinstance(event, h.FaultStruck)
    ]


def executed(done: Run, computation: str, process: str = "") -> list[h.Executed]:
    return [e for e in done.all(h.Executed) if e.computation == computation and process in ("", e.process)]


def applied(done: Run, computation: str) -> list[h.Applied]:
    return [event for event in done.all(h.Applied) if event.computation == computation]


def minted_after(done: Run, at_us: int) -> list[h.IntervalMinted]:
    return [event for event in done.all(h.IntervalMinted) if event.at_us > at_us]


# Every kind

EXAMPLES: dict[type[f.Fault], tuple[f.AnyFault, ...]] = {
    f.Crash: (f.Crash(at_us=AT, process=COUNTER, restart_after_us=SECOND),),
    f.Pause: (f.Pause(at_us=AT, process=COUNTER, for_us=SECOND),),
    f.Partition: (f.Partition(at_us=AT, side=(COUNTER,), for_us=SECOND),),
    f.Noise: (f.Noise(at_us=AT, for_us=SECOND, drop=0.2, duplicate=0.2, delay=0.2, delay_us=SECOND),),
    f.Hold: (f.Hold(at_us=AT, message="Report", count=2, for_us=SECOND),),
    f.DropMessages: (f.DropMessages(at_us=AT, message="Ack", count=2),),
    f.DelayCommit: (f.DelayCommit(at_us=AT, process=COUNTER, count=2, by_us=SECOND),),
    f.LoseCommit: (f.LoseCommit(at_us=AT, process=COUNTER, count=2),),
    f.LoseReply: (f.LoseReply(at_us=AT, process=COUNTER, count=2),),
    f.DuplicateCommit: (f.DuplicateCommit(at_us=AT, process=COUNTER, count=2, by_us=SECOND),),
    f.StoreUnavailable: (f.StoreUnavailable(at_us=AT, for_us=SECOND),),
    f.StoreErrors: (
        f.Operate(at_us=AT, verb=MoveInterval("counter", "arco")),
        f.StoreErrors(at_us=AT, for_us=SECOND, rate=1.0),
    ),
    f.Slow: (f.Slow(at_us=AT, process=COUNTER, for_us=SECOND, factor=1_000),),
    f.SkewClock: (f.SkewClock(at_us=AT, process=COUNTER, by_us=-SECOND, for_us=SECOND),),
    f.LateRecords: (f.LateRecords(at_us=AT, process="mail/0", count=3, by_us=100 * MILLISECOND),),
    f.StallSource: (f.StallSource(at_us=AT, process="mail/0", for_us=SECOND),),
    f.Operate: (f.Operate(at_us=AT, verb=MoveInterval("counter", "arco")),),
}  # fmt: skip


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
def test_all_kinds_in_one_run_are_survived(seed: int) -> None:
    pipeline = mail()
    reading = with_engine(cache_bytes=0)
    done = run(pipeline, letters(pipeline), *storm("mail/0", "counter"), options=reading, seed=seed)
    assert_sound(done)
    struck = {event.kind.partition("noise_")[0] or "noise" for event in done.all(h.FaultStruck)}
    assert struck == {*f.KINDS.values(), "restart", "revive"}


# Processes


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


def test_a_lasting_crash_is_worked_around_for_ever() -> None:
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
def test_what_is_to_last_does_not_end_by_itself_either(fault: f.AnyFault) -> None:
    """Its time is over long before the heal: it stays away, or cut off, even so, and the others do without it."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), fault, lasting=(COUNTER,))
    assert_sound(done)
    assert_as_reference(done)
    assert done.struck("revive") == done.struck("restart") == []
    assert max(one.at_us for one in done.struck(fault.kind)) < HEAL_US
    if isinstance(fault, f.Partition):
        assert max(one.at_us for one in done.struck(fault.kind)) > HEAL_US - SECOND
        assert done.cluster.nodes[COUNTER].process.intervals, "nobody has told it that it was replaced"


@pytest.mark.parametrize("fault", [f.Crash, f.Pause])
def test_what_a_process_that_stays_away_was_waiting_for_keeps_no_run_from_its_end(
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
def test_a_process_that_is_paused_is_silent_and_then_goes_on(address: str) -> None:
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


# The network

SPAN = 500 * MILLISECOND


def test_a_partition_cuts_both_ways() -> None:
    done = disturbed(f.Partition(at_us=AT, side=(SORTER,), other=("mail/0",), for_us=SPAN))
    assert f"Deliver mail/0 -> {SORTER}" in {event.detail for event in done.struck("partition")}
    in_flight_us = 2 * MILLISECOND
    during = [e for e in executed(done, "sorter", SORTER) if AT + in_flight_us < e.at_us < AT + SPAN]
    assert during == []


def test_a_one_way_partition_lets_the_other_way_through() -> None:
    """The sorter gets its records, and the injector no ACKs: it sends again, and what was done once stays done once."""
    done = disturbed(f.Partition(at_us=AT, side=(SORTER,), other=("mail/0",), for_us=SPAN, one_way=True))
    assert {event.detail for event in done.struck("partition")} == {f"Ack {SORTER} -> mail/0"}
    assert [e for e in executed(done, "sorter", SORTER) if AT < e.at_us < AT + SPAN]
    assert [event for event in done.all(h.Resent) if event.process == "mail/0"]
    assert [event for event in done.all(h.DuplicateDropped) if event.by == "id"]


def test_a_worker_that_is_cut_off_from_the_masters_is_replaced_and_lives_on_as_a_zombie() -> None:
    masters = ("master-0", "master-1")
    done = disturbed(f.Partition(at_us=AT, side=(COUNTER,), other=masters, for_us=2 * SECOND))
    (successor,) = [event for event in minted_after(done, AT) if event.computation == "counter"]
    assert successor.owner != COUNTER
    dropped = [e for e in done.all(h.IntervalDropped) if e.process == COUNTER and e.computation == "counter"]
    assert (dropped[0].why, dropped[0].at_us > successor.at_us) == ("refused", True)
    assert all(event.sequencer == event.live for event in done.all(h.Applied))


def test_an_empty_other_side_is_everybody_else() -> None:
    done = disturbed(f.Partition(at_us=AT, side=(COUNTER,), for_us=SPAN))
    details = " ".join(event.detail for event in done.struck("partition"))
    for other in ("store", "master-0", "authority-0.1", SORTER):
        assert f"-> {other}" in details or f"{other} ->" in details


def noise(**rates: float) -> f.Noise:
    return f.Noise(at_us=AT, for_us=SECOND, delay_us=300 * MILLISECOND, kinds=("Deliver",), **rates)  # type: ignore[arg-type]


def test_noise_drops_messages_and_their_senders_send_them_again() -> None:
    done = disturbed(noise(drop=0.5))
    assert {event.kind for event in done.all(h.FaultStruck)} == {"noise_drop"}
    assert len(done.all(h.Resent)) >= len(done.struck("noise_drop")) // 2


def test_noise_doubles_messages_and_the_second_copy_is_dropped() -> None:
    done = disturbed(noise(duplicate=0.5))
    assert {event.kind for event in done.all(h.FaultStruck)} == {"noise_duplicate"}
    assert done.all(h.DuplicateDropped)


def test_noise_delays_messages_and_so_reorders_them() -> None:
    done = disturbed(noise(delay=0.5))
    assert {event.kind for event in done.all(h.FaultStruck)} == {"noise_delay"}
    offsets = [int(e.cause.partition(":")[2]) for e in executed(done, "sorter", SORTER)]
    assert offsets != sorted(offsets)


def test_noise_keeps_to_its_kinds_and_its_process() -> None:
    bad = f.Noise(at_us=AT, for_us=SECOND, drop=1.0, kinds=("Ack",), process=SORTER)
    details = [event.detail for event in disturbed(bad).struck("noise_drop")]
    assert details
    assert all(detail.startswith("Ack ") and SORTER in detail for detail in details)


def test_held_messages_are_released_together() -> None:
    """Three deliveries, 50 ms apart, are held for 140 ms: shorter than a retry's pause, so that nothing was sent again."""
    hold = f.Hold(at_us=AT - 1, message="Deliver", source="mail/0", count=3, for_us=140 * MILLISECOND)
    done = disturbed(hold)
    held_us = [event.at_us for event in done.struck("hold")]
    assert held_us == [AT, AT + 50 * MILLISECOND, AT + 100 * MILLISECOND]
    released_us = AT - 1 + 140 * MILLISECOND
    arrived = [
        event.at_us
        for event in done.all(h.Delivered)
        if event.computation == "sorter" and AT <= event.at_us < AT + 150 * MILLISECOND
    ]
    assert len(arrived) == 3
    assert all(released_us < at_us < released_us + 2 * MILLISECOND for at_us in arrived)
    assert done.all(h.Resent) == []


@pytest.mark.parametrize("fault", [f.Crash, f.Pause])
@pytest.mark.parametrize("how", ["held", "delayed"])
def test_what_is_on_the_wire_arrives_although_its_sender_has_been_stopped(
    how: str, fault: type[f.Fault]
) -> None:
    """The sorter's deliveries leave, and are slow; then the sorter stops, and they arrive: remnants of a dead process."""
    wire: dict[str, f.AnyFault] = {
        "held": f.Hold(at_us=AT, message="Deliver", source=SORTER, count=3, for_us=700 * MILLISECOND),
        "delayed": f.Noise(
            at_us=AT, for_us=200 * MILLISECOND, delay=1.0, delay_us=700 * MILLISECOND, kinds=("Deliver",), process=SORTER
        ),
    }  # fmt: skip
    stopped_us = AT + 250 * MILLISECOND
    done = disturbed(wire[how], gone(fault, SORTER, stopped_us, 3 * SECOND))
    remnants = [
        event
        for event in done.all(h.Delivered)
        if event.sender == SORTER and stopped_us + 10 * MILLISECOND < event.at_us < stopped_us + SECOND
    ]
    assert remnants


def test_a_held_reply_of_the_store_is_not_taken_for_another_by_the_next_incarnation() -> None:
    """Requests are numbered from 1 in each incarnation: the old answer would fit a new question."""
    done = disturbed(
        f.Hold(at_us=0, message="Written", target=COUNTER, count=30, for_us=AT + 400 * MILLISECOND),
        f.Crash(at_us=AT, process=COUNTER, restart_after_us=10 * MILLISECOND),
        f.LoseCommit(at_us=AT, process=COUNTER, count=3),
    )
    assert len(done.struck("hold")) == 2
    assert AT < done.struck("lose_commit")[0].at_us < AT + 400 * MILLISECOND


def test_dropped_acks_are_asked_for_again_by_sending_again() -> None:
    done = disturbed(f.DropMessages(at_us=AT, message="Ack", source=SORTER, count=2))
    assert len(done.struck("drop")) == 2
    assert len([event for event in done.all(h.Resent) if event.process == "mail/0"]) >= 2
    assert len([e for e in done.all(h.DuplicateDropped) if e.computation == "sorter"]) >= 2


# The store


def test_a_delayed_commit_is_checked_when_it_arrives() -> None:
    """The interval moves while the write is on the wire: the write was in order when it was sent, and is refused."""
    done = disturbed(
        f.DelayCommit(at_us=AT, process=COUNTER, by_us=400 * MILLISECOND),
        f.Operate(at_us=AT + 200 * MILLISECOND, verb=MoveInterval("counter", "arco")),
    )
    (delay,), (refused,) = done.struck("delay_commit"), done.all(h.WriteRefused)
    assert refused.at_us >= delay.at_us + 400 * MILLISECOND
    assert refused.live > refused.sequencer


def test_a_delayed_commit_that_is_still_in_order_is_applied_late() -> None:
    done = disturbed(f.DelayCommit(at_us=AT, process=COUNTER, by_us=400 * MILLISECOND))
    (delay,) = done.struck("delay_commit")
    late = [e for e in executed(done, "counter", COUNTER) if AT <= e.at_us <= delay.at_us]
    (write,) = [
        e for e in applied(done, "counter") if e.delta.number == late[-1].version.number and e.at_us > AT
    ][:1]
    assert write.at_us >= delay.at_us + 400 * MILLISECOND


def test_a_lost_commit_is_sent_again_when_it_stays_unanswered() -> None:
    done = disturbed(f.LoseCommit(at_us=AT, process=COUNTER))
    (lost,) = done.struck("lose_commit")
    write = next(e for e in applied(done, "counter") if e.at_us > lost.at_us and e.delta.key == "arco")
    timeout_us = CHECKED.engine.store_timeout_us
    assert timeout_us <= write.at_us - lost.at_us < timeout_us + 100 * MILLISECOND


def test_a_commit_whose_reply_is_lost_is_sent_again_and_taken_once() -> None:
    done = disturbed(f.LoseReply(at_us=AT, process=COUNTER))
    (lost,) = done.struck("lose_reply")
    write = next(e for e in applied(done, "counter") if e.at_us > lost.at_us and e.delta.key == "arco")
    assert write.at_us - lost.at_us < 5 * MILLISECOND, "it was applied at once"
    causes = {record_id for record_id, _ in write.delta.seen}
    ack = next(e for e in done.all(h.AckSent) if causes & set(e.record_ids))
    assert ack.at_us - lost.at_us >= CHECKED.engine.store_timeout_us, "nobody knew"


def test_the_second_copy_of_a_doubled_commit_changes_nothing() -> None:
    done = disturbed(f.DuplicateCommit(at_us=AT, process=COUNTER, count=3, by_us=300 * MILLISECOND))
    assert len(done.struck("duplicate_commit")) == 3
    versions = [(e.sequencer, e.delta.number, e.delta.key) for e in applied(done, "counter")]
    assert len(versions) == len(set(versions))


def test_the_second_copy_of_a_doubled_commit_is_refused_when_the_key_has_moved() -> None:
    done = disturbed(
        f.DuplicateCommit(at_us=AT, process=COUNTER, by_us=SECOND),
        f.Operate(at_us=AT + 400 * MILLISECOND, verb=MoveInterval("counter", "arco")),
    )
    (doubled,), (refused,) = done.struck("duplicate_commit"), done.all(h.WriteRefused)
    assert refused.at_us >= doubled.at_us + SECOND
    assert refused.sequencer in {e.sequencer for e in applied(done, "counter") if e.at_us < refused.at_us}


@pytest.mark.parametrize("silent", [False, True], ids=["says so", "is silent"])
def test_an_unavailable_store_does_nothing_until_it_is_back(silent: bool) -> None:  # noqa: FBT001  a parameter of the test
    done = disturbed(f.StoreUnavailable(at_us=AT, for_us=SPAN, silent=silent))
    begin_us, end_us = AT, AT + SPAN
    assert done.struck("store_unavailable")
    writes = [event.at_us for event in done.all(h.Applied)]
    assert [at_us for at_us in writes if begin_us <= at_us < end_us] == []
    assert [at_us for at_us in writes if at_us >= end_us]


def test_a_store_that_is_unavailable_to_one_process_serves_the_others() -> None:
    done = disturbed(f.StoreUnavailable(at_us=AT, for_us=SPAN, process=COUNTER))
    assert {event.process for event in done.struck("store_unavailable")} == {COUNTER}
    during = [event for event in done.all(h.Applied) if AT <= event.at_us < AT + SPAN]
    assert during
    assert "arco" not in {event.delta.key for event in during if event.computation == "counter"}


def test_a_scan_that_fails_is_asked_for_again() -> None:
    done = disturbed(
        f.Operate(at_us=AT, verb=MoveInterval("counter", "arco")),
        f.StoreErrors(at_us=AT, for_us=SECOND, rate=1.0),
    )
    assert {event.detail for event in done.struck("store_errors")} == {"Scan"}
    (scanned,) = [event for event in done.all(h.ScanEnded) if event.at_us > AT]
    assert scanned.at_us > AT + SECOND
    assert scanned.timers, "the timers of the open windows were in the rows"


def test_reads_of_rows_that_fail_are_asked_for_again() -> None:
    done = disturbed(f.StoreErrors(at_us=AT, for_us=SECOND, rate=0.5), options=with_engine(cache_bytes=0))
    assert {event.detail for event in done.struck("store_errors")} == {"Read"}


# Machines


def test_a_slow_machine_takes_so_many_times_as_long() -> None:
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


def test_records_that_come_late_are_late_and_none_is_lost() -> None:
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


def test_a_stalled_source_gives_nothing_and_then_everything() -> None:
    done = disturbed(f.StallSource(at_us=AT, process="mail/0", for_us=SECOND))
    injected = [event.at_us for event in done.all(h.Injected)]
    assert len(injected) == 60
    gap_us = max(after - before for before, after in pairwise(injected))
    assert gap_us == SECOND + 50 * MILLISECOND


# Operators

MOVE = MoveInterval("counter", "arco")
SPLIT = SplitInterval("counter", "b")
MERGE = MergeIntervals("counter", "arco")


def test_moving_an_interval_gives_it_to_somebody_else() -> None:
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


def test_a_verb_that_can_not_be_done_changes_nothing() -> None:
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
def test_an_operator_may_interrupt_himself(first: Verb, second: Verb, after_us: int) -> None:
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
def test_a_standby_authority_takes_over_and_watermarks_go_on(fault: type[f.Fault]) -> None:
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


def gone(fault: type[f.Fault], process: str, at_us: int, for_us: int) -> f.AnyFault:
    if fault is f.Crash:
        return f.Crash(at_us=at_us, process=process, restart_after_us=for_us)
    return f.Pause(at_us=at_us, process=process, for_us=for_us)


# Schedules as values

SCHEDULE = FaultSchedule(
    tuple(fault for faults in EXAMPLES.values() for fault in faults), HEAL_US, ("worker-2",)
)


def test_a_schedule_survives_json() -> None:
    again = FaultSchedule.from_json(SCHEDULE.to_json())
    assert again == SCHEDULE
    assert [type(fault) for fault in again.faults] == [type(fault) for fault in SCHEDULE.faults]
    assert FaultSchedule.from_json(f.NO_FAULTS.to_json()) == f.NO_FAULTS


def test_schedules_are_equal_when_all_of_them_is() -> None:
    pause = f.Pause(at_us=AT, process=COUNTER, for_us=SECOND)
    assert FaultSchedule((pause,)) == FaultSchedule((f.Pause(at_us=AT, process=COUNTER, for_us=SECOND),))
    assert FaultSchedule((pause,)) != FaultSchedule((msgspec.structs.replace(pause, for_us=1),))
    assert FaultSchedule((pause,)) != FaultSchedule((pause,), heal_at_us=AT)
    assert FaultSchedule((pause,)) != FaultSchedule((pause,), lasting=(COUNTER,))
    crash = f.Crash(at_us=AT, process=COUNTER)
    assert crash != f.Crash(at_us=AT, process=SORTER)


def test_a_schedule_is_described_a_fault_a_line_in_order_of_time() -> None:
    schedule = FaultSchedule(
        (
            f.Operate(at_us=3 * SECOND, verb=MOVE),
            f.Partition(at_us=AT, side=("worker-0", "worker-1"), for_us=SPAN, one_way=True),
            f.Crash(at_us=SECOND, process="mail/0"),
        )
    )
    assert schedule.describe().splitlines() == [
        "1.000000s crash process=mail/0",
        "2.000000s partition side=worker-0,worker-1 for=0.500000s one_way=True",
        "3.000000s operate MoveInterval(counter, arco, )",
    ]
    assert f.NO_FAULTS.describe() == "no faults"


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ('{"faults": [{"type": "Crash", "at_us": "soon", "process": "worker-0"}]}', "$.faults[0].at_us"),
        ('{"faults": [{"type": "Crash", "process": "worker-0"}]}', "`at_us`"),
        ('{"faults": [{"type": "Explode", "at_us": 1}]}', "Explode"),
        (
            '{"faults": [{"type": "Operate", "at_us": 1, "verb": {"type": "MoveInterval", "key": "a"}}]}',
            "`computation`",
        ),
    ],
)
def test_a_schedule_that_can_not_be_read_names_what_is_wrong(data: str, wrong: str) -> None:
    with pytest.raises(HistoryFormatError) as caught:
        FaultSchedule.from_json(data.encode(), "faults.json")
    assert wrong in str(caught.value)
    assert str(caught.value).startswith("faults.json is not a fault schedule that can be read: ")


@pytest.mark.parametrize(
    ("fault", "heals_at_us"),
    [
        (f.Pause(at_us=AT, process=COUNTER, for_us=SECOND), AT + SECOND),
        (f.Crash(at_us=AT, process=COUNTER, restart_after_us=SECOND), AT + SECOND),
        (f.Operate(at_us=AT, verb=MOVE), AT),
    ],
    ids=lambda one: one.kind if isinstance(one, f.Fault) else "",
)
def test_by_default_a_schedule_heals_when_its_last_fault_is_over(fault: f.AnyFault, heals_at_us: int) -> None:
    assert FaultSchedule((fault, f.Operate(at_us=SECOND, verb=MOVE))).heals_at_us == heals_at_us
    assert f.NO_FAULTS.heals_at_us == 0


@pytest.mark.parametrize("kind", EXAMPLES, ids=f.KINDS.__getitem__)
def test_by_default_a_fault_is_given_the_time_to_strike_and_to_last(kind: type[f.Fault]) -> None:
    """Without a time for the heal, a schedule of one fault must still be a run with a fault in it."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *EXAMPLES[kind], heal_at_us=None)
    assert_sound(done)
    assert any(event.kind.startswith(f.KINDS[kind]) for event in done.all(h.FaultStruck))


def test_by_default_a_crash_that_names_no_restart_lasts_for_a_while() -> None:
    pipeline = mail()
    done = run(pipeline, letters(pipeline), f.Crash(at_us=AT, process=COUNTER), heal_at_us=None)
    assert_sound(done)
    assert done.struck("restart")[0].at_us >= AT + CHECKED.engine.heartbeat_timeout_us


@pytest.mark.parametrize(
    "fault",
    [
        f.Crash(at_us=AT, process="worker-7"),
        f.Pause(at_us=AT, process="mail", for_us=1),
        f.Partition(at_us=AT, side=("worker-0",), other=("worker-7",), for_us=1),
        f.DelayCommit(at_us=AT, process="worker-7", by_us=1),
        f.LateRecords(at_us=AT, process="worker-0", count=1, by_us=1),
        f.Noise(at_us=AT, for_us=1, process="worker-7"),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_fault_on_a_process_that_does_not_exist_is_refused_at_once(fault: f.AnyFault) -> None:
    pipeline = mail()
    with pytest.raises(OptionsError) as caught:
        start(pipeline, letters(pipeline), faults=FaultSchedule((fault,)))
    assert caught.value.option == f"{fault.kind} of"
    assert "worker-0" in str(caught.value) or "mail/0" in str(caught.value)


def test_a_lasting_address_that_does_not_exist_is_refused_at_once() -> None:
    pipeline = mail()
    with pytest.raises(OptionsError, match="worker-7"):
        start(pipeline, letters(pipeline), faults=FaultSchedule(lasting=("worker-7",)))
