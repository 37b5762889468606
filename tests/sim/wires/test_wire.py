"""Faults of the network and of the store: each strikes, has its effect, and breaks no guarantee."""

import msgspec
import pytest

from headrace import MILLISECOND, SECOND
from headrace import history as h
from headrace.wire.messages import MoveInterval
from headrace_sim import faults as f
from tests.sim.disturbances import AT, COUNTER, SORTER, SPAN, applied, disturbed, executed, gone, minted_after
from tests.sim.rig import CHECKED, with_engine

# The network


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


def test_an_empty_other_side_means_all_other_processes() -> None:
    done = disturbed(f.Partition(at_us=AT, side=(COUNTER,), for_us=SPAN))
    details = " ".join(event.detail for event in done.struck("partition"))
    for process in ("store", "master-0", "authority-0.1", SORTER):
        assert f"-> {process}" in details or f"{process} ->" in details


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
def test_messages_on_the_wire_arrive_although_their_sender_has_been_stopped(
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


def test_a_held_reply_of_the_store_is_ignored_by_the_next_incarnation() -> None:
    """Requests are numbered from 1 in each incarnation: the old answer would fit a new question."""
    done = disturbed(
        f.Hold(at_us=0, message="Written", target=COUNTER, count=30, for_us=AT + 400 * MILLISECOND),
        f.Crash(at_us=AT, process=COUNTER, restart_after_us=10 * MILLISECOND),
        f.LoseCommit(at_us=AT, process=COUNTER, count=3),
    )
    assert len(done.struck("hold")) == 2
    assert AT < done.struck("lose_commit")[0].at_us < AT + 400 * MILLISECOND


def test_dropped_acks_are_recovered_by_resending() -> None:
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


def test_a_commit_whose_reply_is_lost_is_resent_and_applied_once() -> None:
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


def test_noise_spares_the_store_unless_requested() -> None:
    every = msgspec.structs.replace(noise(duplicate=0.3, delay=0.3), kinds=())
    assert not [struck for struck in disturbed(every).all(h.FaultStruck) if "store" in struck.detail]
    done = disturbed(msgspec.structs.replace(every, kinds=("Write", "Written")))
    details = [event.detail for event in done.all(h.FaultStruck)]
    assert any(detail.endswith("-> store") for detail in details)
    assert any("store ->" in detail for detail in details)
