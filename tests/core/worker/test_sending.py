"""The worker with weak productions (MillWheel 6.1.3, Figure 11): sent before anything is persisted, ACKed upstream last."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace import Computation, Context, EngineOptions, Pipeline, Productions, Record, Timer
from headrace.history import Applied, Checkpointed, Resent
from headrace.wire import messages as m
from headrace.wire.effects import Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import MintChange
from headrace.wire.rows import Production, RowDelta
from tests.core.driver import (
    QUIET,
    WORKER,
    Rig,
    Scripted,
    Shop,
    ack,
    click,
    count,
    counter,
    forward,
    outside_acks,
    result,
    sent,
    watermark,
    wrote,
)

STRAGGLER_US = 1_000
SWEEP_US = 100
OPTIONS = replace(QUIET, straggler_delay_us=STRAGGLER_US, sweep_period_us=SWEEP_US)
FIRST = "r1>counter#0"
"""The id of the first production that record r1 causes."""


def weak(computation: Computation | None = None, *, exactly_once: bool = True) -> Pipeline:
    return counter(computation, productions=Productions.WEAK, exactly_once=exactly_once)


def both(context: Context, record: Record) -> None:
    """Make two productions of a record, and change nothing."""
    context.produce("counts", "a")
    context.produce("counts", "b")


def rig_of(
    on_record: Callable[[Context, Record], None] = count,
    on_timer: Callable[[Context, Timer], None] | None = None,
    *,
    exactly_once: bool = True,
) -> Rig:
    return Rig(weak(Scripted(on_record, on_timer), exactly_once=exactly_once), options=OPTIONS)


# Send, wait, commit, ACK


def test_productions_are_sent_first_and_the_write_and_the_ack_come_last() -> None:
    """Send; all ACKed: write; written: ACK upstream."""
    rig = rig_of()
    assert rig.feed(click("r1")) == [sent(result(FIRST, 1))]
    assert rig.feed(outside_acks(FIRST)) == [
        wrote(rig, RowDelta("dog", 1, state=b'{"n":1}', seen=(("r1", 1),)))
    ]
    assert rig.answer() == [ack("r1")]
    row = rig.shop.row("dog")
    assert row is not None
    assert (row.productions, row.seen) == ((), (("r1", 1),))


def test_all_productions_must_be_acked_before_the_write() -> None:
    rig = rig_of(both)
    assert rig.feed(click("r1")) == [sent(result("r1>counter#0", "a")), sent(result("r1>counter#1", "b"))]
    assert rig.feed(outside_acks("r1>counter#1")) == []
    assert rig.feed(outside_acks("r1>counter#1")) == [], "one of them twice is not both"
    assert len(rig.feed(outside_acks("r1>counter#0"))) == 1


def test_each_consumer_must_have_acked() -> None:
    pipeline = weak()
    for name in ("x", "y"):
        pipeline.add(Scripted(), name=name, inputs=["counts"])
    shop = Shop(pipeline, options=OPTIONS)
    rig = Rig(shop)
    shop.assign_all(others={"x": "worker-8", "y": "worker-9"})
    rig.settle(shop.table)
    assert rig.feed(click("r1")) == [
        sent(result(FIRST, 1, consumer="x"), to="worker-8"),
        sent(result(FIRST, 1, consumer="y"), to="worker-9"),
    ]
    assert rig.feed(m.Ack("x", (FIRST,))) == []
    assert len(rig.feed(m.Ack("y", (FIRST,)))) == 1


def test_a_step_without_productions_is_written_at_once() -> None:
    rig = rig_of(lambda context, _: context.state.update(on=True))
    assert rig.feed(click("r1")) == [wrote(rig, RowDelta("dog", 1, state=b'{"on":true}', seen=(("r1", 1),)))]
    assert rig.answer() == [ack("r1")]


def test_ids_are_a_function_of_the_cause_and_the_ordinal() -> None:
    """Two records share a step: each begins its own count of productions."""
    rig = Rig(weak(Scripted(both)), options=replace(OPTIONS, commit_batch=8))
    for record_id in ("r0", "r1", "r2"):
        rig.feed(click(record_id))
    effects = rig.settle(outside_acks("r0>counter#0", "r0>counter#1"))
    assert effects == [
        ack("r0"),
        *[
            sent(result(f"{cause}>counter#{ordinal}", "ab"[ordinal]))
            for cause in ("r1", "r2")
            for ordinal in (0, 1)
        ],
    ]


def test_a_key_is_locked_until_its_step_is_durable() -> None:
    rig = rig_of()
    rig.feed(click("r1"))
    assert rig.feed(click("r2")) == []
    rig.feed(outside_acks(FIRST))
    assert rig.answer() == [ack("r1"), sent(result("r2>counter#0", 2))]


def test_waiting_keys_delay_no_others() -> None:
    rig = Rig(weak(), options=replace(OPTIONS, commits_in_flight=1))
    for number in range(5):
        assert rig.feed(click(f"r{number}", f"key {number}")) == [
            sent(result(f"r{number}>counter#0", 1, f"key {number}"))
        ]


def test_a_duplicate_is_acked_and_sends_nothing() -> None:
    rig = rig_of()
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.feed(click("r1")) == [ack("r1")]


def test_one_ack_may_complete_steps_of_several_intervals() -> None:
    rig = Rig(counter(productions=Productions.WEAK, split_at=["m"]), options=OPTIONS)
    rig.feed(click("r1", "ant"))
    rig.feed(click("r2", "zebra"))
    rig.feed(outside_acks("r1>counter#0", "r2>counter#0"))
    assert [request.sequencer for request in rig.open if isinstance(request, m.Write)] == [1, 2]


def test_a_weak_sender_sends_again_by_itself_until_acked() -> None:
    """Its cause may have been forgotten upstream already, so nobody else would."""
    rig = Rig(weak(), options=replace(OPTIONS, retry_us=100, retry_max_us=100, straggler_delay_us=10**9))
    rig.feed(click("r1"))
    assert [rig.wake(at) for at in (100, 200)] == [[sent(result(FIRST, 1))]] * 2
    rig.feed(outside_acks(FIRST))
    rig.answer()
    assert rig.wake(300) == []
    assert rig.shop.of(Resent) == [Resent(0, WORKER, FIRST, "")] * 2


# Without exactly-once and state: a stateless function


def test_a_stateless_step_without_exactly_once_needs_no_write_at_all() -> None:
    rig = rig_of(forward, exactly_once=False)
    assert rig.feed(click("r1", value=5)) == [sent(result(FIRST, 5))]
    assert rig.feed(outside_acks(FIRST)) == [ack("r1")]
    assert rig.shop.of(Applied) == []


def test_a_filtered_record_is_acked_at_once() -> None:
    rig = rig_of(lambda context, record: None, exactly_once=False)
    assert rig.feed(click("r1")) == [ack("r1")]


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (lambda context: context.state.update(on=True), RowDelta("dog", 1, state=b'{"on":true}')),
        (lambda context: context.hold_watermark(50), RowDelta("dog", 1, hold=50)),
        (lambda context: context.cancel_timer("t"), RowDelta("dog", 1, cancelled=("t",))),
    ],
    ids=["state", "hold", "timer"],
)
def test_a_step_that_touches_its_row_is_written_also_without_exactly_once(
    hook: Callable[[Context], None], expected: RowDelta
) -> None:
    rig = rig_of(lambda context, _: hook(context), exactly_once=False)
    assert rig.feed(click("r1")) == [wrote(rig, expected)]


def test_with_exactly_once_a_stateless_step_is_written_for_its_id() -> None:
    rig = rig_of(lambda context, record: None)
    assert rig.feed(click("r1")) == [wrote(rig, RowDelta("dog", 1, seen=(("r1", 1),)))]


def test_a_stateless_step_without_exactly_once_reads_nothing_either() -> None:
    rig = Rig(weak(Scripted(forward), exactly_once=False), options=replace(OPTIONS, cache_bytes=0))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.feed(click("r2", value=5)) == [sent(result("r2>counter#0", 5))]


# Stragglers (6.1.3)


def test_a_straggler_is_checkpointed_after_the_delay_and_then_the_cause_is_acked() -> None:
    """One of two productions is ACKed; the other one is checkpointed when the delay is over, not before."""
    rig = rig_of(both)
    rig.feed(click("r1"))
    rig.feed(outside_acks("r1>counter#0"))
    straggler = result("r1>counter#1", "b")
    assert rig.feed(Wake(), at=STRAGGLER_US - 1) == []
    assert rig.feed(Wake(), at=STRAGGLER_US + SWEEP_US) == [
        wrote(rig, RowDelta("dog", 1, seen=(("r1", 1),), productions=(straggler,)))
    ]
    assert rig.shop.of(Checkpointed) == [Checkpointed(0, WORKER, "counter", "r1>counter#1", "")]
    assert rig.answer() == [ack("r1")]
    row = rig.shop.row("dog")
    assert row is not None
    assert row.productions == (straggler,)


def test_without_stragglers_the_delay_does_nothing() -> None:
    rig = rig_of()
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.wake(10 * STRAGGLER_US) == []
    assert rig.shop.of(Checkpointed) == []


def test_a_checkpointed_straggler_is_sent_on_and_deleted_when_it_is_acked() -> None:
    rig = Rig(weak(), options=replace(OPTIONS, retry_us=5_000, retry_max_us=5_000))
    rig.feed(click("r1"))
    assert rig.wake(STRAGGLER_US) == [ack("r1")]
    assert rig.wake(5_000) == [sent(result(FIRST, 1))]
    rig.feed(outside_acks(FIRST))
    rig.wake(5_000 + SWEEP_US)
    row = rig.shop.row("dog")
    assert row is not None
    assert row.productions == ()
    assert rig.wake(20_000) == []


def test_a_straggler_that_is_acked_while_it_is_being_checkpointed_is_deleted_afterwards() -> None:
    rig = rig_of()
    rig.feed(click("r1"))
    rig.feed(Wake(), at=STRAGGLER_US)
    assert rig.feed(outside_acks(FIRST)) == []
    assert rig.answer() == [ack("r1")]
    rig.wake(STRAGGLER_US + SWEEP_US)
    row = rig.shop.row("dog")
    assert row is not None
    assert row.productions == ()


def test_a_stateless_straggler_is_checkpointed_also_without_exactly_once() -> None:
    rig = rig_of(forward, exactly_once=False)
    rig.feed(click("r1"))
    assert rig.feed(Wake(), at=STRAGGLER_US) == [
        wrote(rig, RowDelta("dog", 1, productions=(result(FIRST, None),)))
    ]
    assert rig.answer() == [ack("r1")]


def test_a_re_run_whose_checkpoint_is_still_on_its_way_sends_nothing_new_and_is_acked() -> None:
    """Without exactly-once a duplicate runs again. What it makes is pending and durable already."""
    rig = rig_of(forward, exactly_once=False)
    rig.feed(click("r1"))
    rig.wake(STRAGGLER_US)
    assert rig.feed(click("r1")) == [ack("r1")]
    assert rig.worker.unacked == 1


# Two steps that make the same production: a nondeterministic sender's re-run made the same record for another key (6.1.3)


TWO = ["m"]
"""Both keys are this worker's, in intervals of their own: "ant" and "zebra"."""


def twice(options: EngineOptions = OPTIONS) -> Rig:
    """The step of "ant" sends the production, and that of "zebra" finds it pending."""
    pipeline = counter(Scripted(forward), productions=Productions.WEAK, exactly_once=False, split_at=TWO)
    rig = Rig(pipeline, options=options)
    assert rig.feed(click("r1", "ant")) == [sent(result(FIRST, None, "ant"))]
    rig.feed(Wake(), at=SWEEP_US)
    assert rig.feed(click("r1", "zebra", sender="other/0")) == []
    return rig


OTHER_ACK = ack("r1", to="other/0")


def checkpoints(rig: Rig, *keys: str) -> list[tuple[Production, ...]]:
    rows = [rig.shop.row(key) for key in keys]
    return [() if row is None else row.productions for row in rows]


def lose(rig: Rig, key: str) -> None:
    """A key's interval is given to somebody else, and the worker hears of it."""
    low = next(
        assignment.interval for assignment in rig.shop.table.assignments if assignment.interval.contains(key)
    )
    rig.shop.mint(MintChange("counter", low, "worker-1", 1))
    rig.feed(rig.shop.table)


def test_a_step_waits_also_for_a_production_that_another_step_is_sending() -> None:
    """Its loss would be noticed by nobody if the second were ACKed before it is safe."""
    rig = twice()
    assert rig.feed(outside_acks(FIRST)) == [OTHER_ACK, ack("r1")]
    assert rig.feed(outside_acks(FIRST)) == []
    assert rig.wake(10 * STRAGGLER_US) == []
    assert rig.worker.unfinished == 0


def test_each_of_two_steps_checkpoints_the_production_that_both_wait_for_and_both_delete_it() -> None:
    rig = twice()
    assert rig.wake(STRAGGLER_US) == [ack("r1")]
    assert rig.wake(STRAGGLER_US + SWEEP_US) == [OTHER_ACK]
    assert checkpoints(rig, "ant", "zebra") == [(result(FIRST, None, "ant"),)] * 2
    assert rig.worker.unacked == 1
    rig.feed(outside_acks(FIRST))
    rig.wake(STRAGGLER_US + 3 * SWEEP_US)
    assert checkpoints(rig, "ant", "zebra") == [(), ()]
    assert rig.worker.unfinished == 0


def test_a_production_that_is_acked_while_one_of_two_steps_checkpoints_it_lets_the_other_go_on() -> None:
    rig = twice()
    rig.feed(Wake(), at=STRAGGLER_US)
    assert rig.feed(outside_acks(FIRST)) == [OTHER_ACK]
    assert rig.answer() == [ack("r1")]
    rig.wake(STRAGGLER_US + 2 * SWEEP_US)
    assert checkpoints(rig, "ant") == [()]


@pytest.mark.parametrize(("lost", "left"), [("ant", OTHER_ACK), ("zebra", ack("r1"))])
def test_when_one_of_two_intervals_is_lost_the_others_step_still_sends_and_waits(
    lost: str, left: Send
) -> None:
    rig = twice(replace(OPTIONS, retry_us=SWEEP_US, retry_max_us=SWEEP_US))
    lose(rig, lost)
    assert rig.wake(2 * SWEEP_US) == [sent(result(FIRST, None, "ant"))]
    assert rig.feed(outside_acks(FIRST)) == [left]
    assert rig.worker.unacked == 0


def test_when_both_intervals_are_lost_nothing_is_left_of_it() -> None:
    rig = twice(replace(OPTIONS, retry_us=SWEEP_US, retry_max_us=SWEEP_US))
    lose(rig, "ant")
    lose(rig, "zebra")
    assert rig.worker.unacked == 0
    assert rig.wake(10 * SWEEP_US) == []


def test_an_owner_of_two_keys_that_checkpointed_the_same_production_sends_it_once_and_deletes_both() -> None:
    rig = twice()
    rig.wake(STRAGGLER_US + SWEEP_US)
    shop = rig.shop
    shop.mint(
        *[MintChange("counter", assignment.interval, "worker-1", 1) for assignment in shop.table.assignments]
    )
    other = Rig(shop, address="worker-1")
    assert other.settle(shop.table) == [sent(result(FIRST, None, "ant"), sender="worker-1")]
    other.settle(outside_acks(FIRST))
    other.wake(10 * STRAGGLER_US)
    assert checkpoints(rig, "ant", "zebra") == [(), ()]


def test_a_straggler_is_checkpointed_in_time_also_when_the_clock_was_put_back() -> None:
    rig = rig_of()
    rig.now = 10**9
    rig.feed(Wake())
    rig.feed(click("r1"))
    rig.wake(0)
    assert [rig.wake(at) for at in (SWEEP_US, STRAGGLER_US, STRAGGLER_US + SWEEP_US)][-2:] == [
        [ack("r1")],
        [],
    ]


# Crashes and zombies


def test_after_a_refused_write_nothing_is_acked_and_nothing_sent_again() -> None:
    rig = Rig(weak(), options=replace(OPTIONS, retry_us=100))
    rig.feed(click("r1"))
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    rig.feed(outside_acks(FIRST))
    assert rig.answer() == []
    assert rig.worker.unacked == 0
    assert rig.wake(10_000) == []


def successor(rig: Rig, address: str = "worker-1") -> Rig:
    """Another worker gets the whole computation, and has scanned it."""
    shop = rig.shop
    shop.mint(MintChange("counter", ALL_KEYS, address, 1))
    other = Rig(shop, address=address)
    other.settle(shop.table)
    return other


def test_a_re_run_after_a_crash_makes_the_same_ids() -> None:
    """A worker sends what a record made, and crashes before anything is durable.
    The record comes to its successor, which makes the same production again, for its consumer to recognise."""
    rig = rig_of()
    assert rig.feed(click("r1")) == [sent(result(FIRST, 1))]
    other = successor(rig)
    assert other.feed(click("r1")) == [sent(result(FIRST, 1), sender="worker-1")]


def test_a_timers_re_run_after_a_crash_makes_the_same_ids_and_origins() -> None:
    rig = rig_of(
        lambda context, _: context.set_timer("t", 50), lambda context, _: context.produce("counts", "fired")
    )
    rig.settle(click("r1", origin=3))
    production = Production(
        "counter@1.1!t>counter#0", "counts", "", "dog", b'"fired"', timestamp=50, origin=3
    )
    assert rig.feed(watermark(50, horizon=9)) == [sent(production)]
    rig.shop.journal(50, 9)
    other = successor(rig)
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-2", 1))
    third = Rig(rig.shop, address="worker-2")
    assert third.settle(rig.shop.table) == [sent(production, sender="worker-2")]
    assert other.worker.unacked == 1


def test_a_checkpointed_straggler_is_sent_again_by_the_successor_and_its_cause_is_a_duplicate_there() -> None:
    rig = rig_of()
    rig.feed(click("r1"))
    rig.wake(STRAGGLER_US)
    shop = rig.shop
    shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    other = Rig(shop, address="worker-1")
    assert other.settle(shop.table) == [sent(result(FIRST, 1), sender="worker-1")]
    assert other.feed(click("r1")) == [ack("r1")]
