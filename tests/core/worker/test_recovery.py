"""Recovery (MillWheel 6.2, 7.1): a new owner scans, and continues from the rows, whatever its predecessor had in memory."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace import MAX_TIME, Computation, Context, EngineOptions, KeyInterval, Record, Timer
from headrace.history import DropCause, Executed, IntervalDropped, ScanBegun, ScanEnded
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import STORE, MintChange
from headrace.worker.states import AssignmentState
from tests.core.driver import (
    FIRST,
    QUIET,
    Rig,
    Scripted,
    Shop,
    ack,
    click,
    counter,
    outside_acks,
    result,
    sent,
    watermark,
)

HEIR = "worker-1"


def count_and_wait(context: Context, record: Record) -> None:
    context.state["n"] = context.state.get("n", 0) + 1
    context.produce("counts", context.state["n"])
    context.set_timer("t", 50)


def tell(context: Context, timer: Timer) -> None:
    context.produce("counts", f"fired after {context.state['n']}")


COUNTER = Scripted(count_and_wait, tell)


def predecessor(
    computation: Computation = COUNTER, *, options: EngineOptions = QUIET, records: int = 1
) -> Rig:
    """A worker that has processed some records of one key each."""
    rig = Rig(counter(computation), options=options)
    for number in range(1, records + 1):
        rig.settle(click(f"r{number}", f"key {number}"))
    return rig


def heir(rig: Rig, address: str = HEIR, incarnation: int = 1) -> tuple[Rig, list[Effect]]:
    """Another worker gets everything; return it, and what it sends when it has scanned."""
    shop = rig.shop
    shop.mint(MintChange("counter", ALL_KEYS, address, incarnation), topology=shop.table.topology)
    other = Rig(shop, address=address, incarnation=incarnation)
    return other, other.settle(shop.table)


def test_productions_that_were_not_acked_are_sent_again_with_the_same_ids() -> None:
    rig = predecessor(records=2)
    rig.settle(outside_acks(FIRST))
    rig.wake(50_000)
    _, effects = heir(rig)
    assert effects == [sent(result("counter@1.2#0", 1, "key 2"), sender=HEIR)]


def test_a_production_whose_ack_was_lost_with_its_sender_is_sent_again_and_then_deleted() -> None:
    rig = predecessor()
    other, effects = heir(rig)
    assert effects == [sent(result(FIRST, 1, "key 1"), sender=HEIR)]
    other.settle(outside_acks(FIRST))
    other.wake(50_000)
    row = rig.shop.row("key 1")
    assert row is not None
    assert row.productions == ()


def test_timers_are_live_again_and_fire_once() -> None:
    """A timer is set, its owner dies; the heir fires it, and dies when that is durable: its heir has nothing to fire."""
    rig = predecessor()
    other, _ = heir(rig)
    fired = result("counter@2.1#0", "fired after 1", "key 1", timestamp=50)
    assert other.settle(watermark(50, horizon=0)) == [sent(fired, sender=HEIR)]
    third, effects = heir(rig, "worker-2")
    assert effects == [
        sent(result(FIRST, 1, "key 1"), sender="worker-2"),
        sent(fired, sender="worker-2"),
    ]
    assert third.settle(watermark(60, horizon=0)) == []
    executed = [
        event for event in rig.shop.history if isinstance(event, Executed) and event.timer is not None
    ]
    assert len(executed) == 1


def test_a_timer_whose_firing_was_not_durable_fires_again() -> None:
    rig = predecessor()
    rig.feed(watermark(50, horizon=0))
    rig.asked()
    other, _ = heir(rig)
    assert len(other.settle(watermark(50, horizon=0))) == 1
    assert [
        event.version.sequencer for event in rig.shop.history if isinstance(event, Executed) and event.timer
    ] == [
        1,
        2,
    ]


def test_a_timer_that_is_due_by_the_journaled_watermark_fires_right_after_the_scan() -> None:
    rig = predecessor()
    rig.shop.journal(60, 0)
    _, effects = heir(rig)
    assert effects == [
        sent(result(FIRST, 1, "key 1"), sender=HEIR),
        sent(result("counter@2.1#0", "fired after 1", "key 1", timestamp=50), sender=HEIR),
    ]


def test_wall_timers_are_live_again() -> None:
    computation = Scripted(
        lambda context, _: context.set_wall_timer("w", 70_000),
        lambda context, _: context.produce("counts", 1),
    )
    rig = predecessor(computation)
    other, _ = heir(rig)
    assert other.wake(69_999) == []
    assert len(other.wake(120_000)) == 1


def test_after_recovery_a_wall_timer_asks_to_be_woken() -> None:
    rig = predecessor(Scripted(lambda context, _: context.set_wall_timer("w", 70_000)))
    other, effects = heir(rig)
    assert effects == []
    assert other.wakes[0] == 70_000


def test_ids_are_known_again() -> None:
    rig = predecessor()
    other, _ = heir(rig)
    assert other.feed(click("r1", "key 1")) == [ack("r1")]
    assert other.worker.user_code_runs == 0


def test_state_continues_and_versions_start_over() -> None:
    rig = predecessor()
    other, _ = heir(rig)
    other.feed(click("r2", "key 1"))
    (delta,) = other.write().deltas
    assert (delta.number, delta.state, delta.productions) == (
        1,
        b'{"n":2}',
        (result("counter@2.1#0", 2, "key 1"),),
    )


def test_what_was_only_in_memory_is_gone() -> None:
    """A record was run and its write lost with its owner: the heir runs it as if for the first time."""
    rig = Rig(counter(COUNTER))
    rig.feed(click("r1"))
    rig.asked()
    other, effects = heir(rig)
    assert effects == []
    assert other.settle(click("r1")) == [ack("r1"), sent(result("counter@2.1#0", 1), sender=HEIR)]


def test_a_write_that_was_applied_and_never_answered_is_found() -> None:
    """The write is durable, its owner dies before it knows: the heir sends the production and knows the record."""
    rig = Rig(counter(COUNTER))
    rig.feed(click("r1"))
    rig.shop.store(rig.write())
    other, effects = heir(rig)
    assert effects == [sent(result(FIRST, 1), sender=HEIR)]
    assert other.feed(click("r1")) == [ack("r1")]


def test_a_zombies_late_write_is_refused_and_its_heir_is_not_disturbed() -> None:
    rig = Rig(counter(COUNTER))
    rig.feed(click("r1"))
    other, _ = heir(rig)
    assert other.settle(click("r1")) == [ack("r1"), sent(result("counter@2.1#0", 1), sender=HEIR)]
    assert rig.answer() == []
    assert rig.shop.state("dog") == {"n": 1}
    assert other.settle(click("r2"))[0] == ack("r2")


def test_a_scan_of_many_pages_recovers_all_rows() -> None:
    rig = predecessor(options=replace(QUIET, scan_page_rows=2), records=5)
    shop = rig.shop
    shop.mint(MintChange("counter", ALL_KEYS, HEIR, 1))
    other = Rig(shop, address=HEIR)
    other.feed(shop.table)
    afters: list[str | None] = []
    effects: list[Effect] = []
    while other.interval.state is AssignmentState.SCANNING:
        scan = other.request()
        assert isinstance(scan, m.Scan)
        afters.append(scan.after)
        effects = other.answer()
    assert afters == [None, "key 2", "key 4"]
    assert effects == [sent(result(f"counter@1.{n}#0", 1, f"key {n}"), sender=HEIR) for n in range(1, 6)]
    assert shop.of(ScanBegun, ScanEnded)[-2:] == [
        ScanBegun(0, HEIR, "counter", ALL_KEYS, 2),
        ScanEnded(
            0, HEIR, "counter", ALL_KEYS, 2, 5,
            tuple((f"key {n}", "t") for n in range(1, 6)), tuple((f"counter@1.{n}#0", "") for n in range(1, 6)),
        ),
    ]  # fmt: skip


def test_a_lost_page_is_asked_for_again() -> None:
    rig = predecessor(options=replace(QUIET, scan_page_rows=2), records=3)
    rig.shop.mint(MintChange("counter", ALL_KEYS, HEIR, 1))
    other = Rig(rig.shop, address=HEIR)
    other.feed(rig.shop.table)
    other.answer()
    (lost,) = other.asked()
    assert other.feed(Wake(), at=QUIET.store_timeout_us)[0] == Send(STORE, lost)
    assert len(other.answer()) == 3


def scanning(rig: Rig) -> Rig:
    """A worker whose scan of everything is not answered yet."""
    rig.shop.mint(MintChange("counter", ALL_KEYS, HEIR, 1))
    other = Rig(rig.shop, address=HEIR)
    other.feed(rig.shop.table)
    return other


def test_a_delivery_that_comes_during_the_scan_is_processed_after_it() -> None:
    rig = predecessor()
    other = scanning(rig)
    assert other.feed(click("r2", "key 1")) == []
    assert other.feed(click("r1", "key 1")) == []
    effects = other.answer()
    assert effects == [
        sent(result(FIRST, 1, "key 1"), sender=HEIR),
        ack("r1"),
        Send(STORE, other.write()),
    ]
    assert [delta.seen for delta in other.write().deltas] == [(("r2", 1),)]


def test_a_delivery_that_comes_twice_during_the_scan_is_run_once() -> None:
    other = scanning(predecessor())
    other.feed(click("r2", sender="worker-7"))
    other.feed(click("r2", sender="worker-8"))
    other.answer()
    assert other.answer()[0] == ack("r2", to="worker-8")
    assert other.worker.user_code_runs == 1


def test_what_is_behind_the_journaled_horizon_is_a_remnant_for_the_heir_too() -> None:
    """Its predecessor had collected the id of a record whose remnant reaches the heir: the journal must tell it."""
    rig = predecessor()
    rig.shop.journal(0, horizon=2)
    other = scanning(rig)
    other.feed(click("r9", origin=1))
    assert other.answer() == [sent(result(FIRST, 1, "key 1"), sender=HEIR), ack("r9")]


@pytest.mark.parametrize("how", DropCause)
def test_an_interval_that_is_lost_during_its_scan_is_dropped(how: DropCause) -> None:
    other = scanning(predecessor())
    other.feed(click("r2"))
    shop = other.shop
    shop.mint(MintChange("counter", ALL_KEYS, "worker-2", 1))
    if how is DropCause.REFUSED:
        assert other.answer() == []
    else:
        stale = m.Scanned(other.request().request, (), None, ())
        assert other.feed(shop.table) == []
        assert other.feed(stale) == []
    assert other.worker.intervals == ()
    assert shop.of(IntervalDropped)[-1] == IntervalDropped(0, HEIR, "counter", ALL_KEYS, 2, how)


def test_nothing_is_done_for_an_interval_before_its_scan_has_ended() -> None:
    other = scanning(predecessor())
    assert other.feed(watermark(100, horizon=0)) == []
    assert other.feed(outside_acks(FIRST)) == []
    assert other.feed(click("r2", "key 1")) == []
    assert other.feed(Wake(), at=100_000) == []
    assert other.worker.user_code_runs == 0


def test_broadcasts_during_the_scan_count_after_it() -> None:
    other = scanning(predecessor())
    other.feed(watermark(100, horizon=0))
    other.answer()
    assert [delta.fired[0].tag for delta in other.write().deltas] == ["t"]


def test_a_row_larger_than_the_cache_is_still_recovered() -> None:
    rig = predecessor(options=replace(QUIET, cache_bytes=0))
    other, effects = heir(rig)
    assert effects == [sent(result(FIRST, 1, "key 1"), sender=HEIR)]
    assert other.settle(click("r1", "key 1")) == [ack("r1")]
    assert other.settle(watermark(60, 0)) == [
        sent(result("counter@2.2#0", "fired after 1", "key 1", timestamp=50), sender=HEIR)
    ]


def progress_of(rig: Rig) -> tuple[int, int]:
    report = rig.interval.report(None)
    return report.low_watermark, report.horizon


def test_what_was_scanned_holds_the_heirs_watermark() -> None:
    """An un-ACKed production at 10, a timer at 50: the heir reports no further than its predecessor would have."""
    other, _ = heir(predecessor())
    other.settle(watermark(40, 9))
    assert progress_of(other) == (10, 1)
    other.settle(outside_acks(FIRST))
    assert progress_of(other) == (40, 9)
    other.feed(watermark(90, 9))
    assert progress_of(other) == (50, 9)


def test_a_states_hold_is_scanned_too() -> None:
    rig = predecessor(Scripted(lambda context, _: context.hold_watermark(30)))
    other, _ = heir(rig)
    other.settle(watermark(90, 9))
    assert progress_of(other) == (30, 9)


def test_the_computations_own_journaled_progress_is_not_lowered() -> None:
    rig = predecessor()
    rig.settle(outside_acks(FIRST))
    rig.wake(50_000)
    rig.shop.journal(45, 7, of="counter")
    other, _ = heir(rig)
    assert progress_of(other) == (45, 7)


def test_halves_of_a_split_recover_their_own_rows_and_no_others() -> None:
    rig = predecessor(records=2)
    shop = rig.shop
    middle = "key 2"
    shop.mint(
        MintChange("counter", KeyInterval("", middle), HEIR, 1),
        MintChange("counter", KeyInterval(middle), "worker-2", 1),
    )
    for number, address in ((1, HEIR), (2, "worker-2")):
        other = Rig(shop, address=address)
        assert other.settle(shop.table) == [
            sent(result(f"counter@1.{number}#0", 1, f"key {number}"), sender=address)
        ]


def test_a_checkpoint_whose_consumer_has_left_is_deleted_and_not_sent() -> None:
    first = counter()
    first.add(Scripted(), name="sink", inputs=["counts"])
    shop = Shop(first, first.without("sink"))
    rig = Rig(shop)
    shop.assign_all()
    rig.settle(shop.table)
    rig.feed(click("r1"))
    shop.store(rig.open.pop())
    shop.mint(topology=1, removed=("sink",))
    other, effects = heir(rig)
    assert effects == []
    other.wake(50_000)
    row = shop.row("dog")
    assert row is not None
    assert (row.productions, other.worker.unacked) == ((), 0)


def test_a_restarted_process_recovers_what_it_is_given_again() -> None:
    rig = predecessor()
    again, effects = heir(rig, rig.address, incarnation=2)
    assert effects == [sent(result(FIRST, 1, "key 1"))]
    assert again.settle(click("r1", "key 1")) == [ack("r1")]


def wait_for_nothing(rig: Rig) -> None:
    rig.interval.soft.ready.append(rig.interval.soft.slots["key 1"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rig: setattr(rig.interval.soft.slots["key 1"], "due", True), "nobody will do it"),
        (wait_for_nothing, "nothing will wake them"),
        (lambda rig: setattr(rig.interval, "state", AssignmentState.DROPPED), None),
        (lambda rig: setattr(rig.worker._shared.cache, "used_bytes", 1), None),
    ],
    ids=["forgotten work", "a wait for nothing", "dropped", "cache"],
)
def test_inconsistent_soft_state_is_noticed(spoil: Callable[[Rig], None], message: str | None) -> None:
    rig = predecessor()
    rig.worker.check_invariants()
    spoil(rig)
    with pytest.raises(AssertionError, match=message):
        rig.worker.check_invariants()


def test_two_owners_in_turn_leave_what_one_would_have_left() -> None:
    """The same records come to one worker, and to a chain of workers each of which dies after every record."""
    lone = Rig(counter(COUNTER))
    for number in range(6):
        lone.settle(click(f"r{number}", f"key {number % 2}"))
    lone.settle(watermark(MAX_TIME, 0))
    chain = Rig(counter(COUNTER))
    for number in range(6):
        chain.settle(click(f"r{number}", f"key {number % 2}"))
        chain, _ = heir(chain, f"worker-{number + 1}")
    chain.settle(watermark(MAX_TIME, 0))
    for key in ("key 0", "key 1"):
        one, other = lone.shop.row(key), chain.shop.row(key)
        assert one is not None
        assert other is not None
        assert (one.state, one.seen, one.timers) == (other.state, other.seen, other.timers)
        assert [made.value for made in one.productions] == [made.value for made in other.productions]
