"""The worker with strong productions (MillWheel 6.1.1, 6.1.2, 7.1): feed an event, assert all effects."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace import MAX_TIME, Context, Record
from headrace.history import AckSent, Applied, Delivered, Executed, History
from headrace.wire import messages as m
from headrace.wire.effects import Deliveries, Send, Start, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import MintChange
from headrace.wire.rows import RowImage, Version
from headrace.worker.worker import HANDLERS, Worker
from tests.core.driver import (
    FIRST,
    QUIET,
    WORKER,
    Rig,
    Scripted,
    Shop,
    ack,
    click,
    count,
    counted,
    counter,
    outside_acks,
    result,
    sent,
    watermark,
    wrote,
)
from tests.core.inputs import EXAMPLES

NO_CACHE = replace(QUIET, cache_bytes=0)
FORGETFUL = replace(NO_CACHE, collect_period_us=100, heartbeat_period_us=100, sweep_period_us=50)
"""Keys that are idle are forgotten with each heartbeat."""


# A delivery's life (6.1.1)


def test_it_starts_by_showing_itself_to_all_masters() -> None:
    beat = m.Heartbeat(WORKER, 1, table_version=0)
    rig = Rig(Shop(counter()))
    assert rig.started == [Send("master-0", beat), Send("master-1", beat)]
    assert rig.wakes == [QUIET.heartbeat_period_us]


def test_a_record_is_run_and_written_and_nothing_is_acked_or_sent_before_the_write_is_answered() -> None:
    rig = Rig(counter())
    assert rig.feed(click("r1")) == [wrote(rig, counted(1, 1, "r1"))]
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]
    assert rig.shop.row("dog") == RowImage(
        "dog", Version(1, 1), b'{"n":1}', MAX_TIME, (), (result(FIRST, 1),), (("r1", 1),)
    )


def test_the_history_records_the_steps_of_a_delivery_in_order() -> None:
    rig = Rig(counter())
    rig.settle(click("r1"))
    order = [type(event) for event in rig.shop.history]
    assert order[order.index(Delivered) :] == [Delivered, Executed, Applied, AckSent]


def test_a_production_has_its_causes_origin_and_timestamp_and_an_ordinal_in_its_write() -> None:
    def twice(context: Context, record: Record) -> None:
        context.produce("counts", "a")
        context.produce("counts", "b", timestamp=20, key="other")

    rig = Rig(counter(Scripted(twice)))
    assert rig.settle(click("r1", timestamp=15, origin=7)) == [
        ack("r1"),
        sent(result("counter@1.1#0", "a", timestamp=15, origin=7)),
        sent(result("counter@1.1#1", "b", "other", timestamp=20, origin=7)),
    ]


def test_each_consumer_gets_its_own_production_under_one_id_by_its_own_key() -> None:
    pipeline = counter()
    pipeline.add(Scripted(), name="by key", inputs=["counts"])
    pipeline.add(Scripted(), name="by value", inputs={"counts": lambda record: f"value {record.value}"})
    shop = Shop(pipeline)
    rig = Rig(shop)
    shop.assign_all(others={"by key": "worker-8", "by value": "worker-9"})
    rig.settle(shop.table)
    assert rig.settle(click("r1")) == [
        ack("r1"),
        sent(result(FIRST, 1, consumer="by key"), to="worker-8"),
        sent(result(FIRST, 1, "value 1", consumer="by value"), to="worker-9"),
    ]


def test_records_of_different_keys_are_written_without_waiting_for_each_other() -> None:
    rig = Rig(counter())
    rig.feed(click("r1", "cat"))
    rig.feed(click("r2", "dog"))
    assert len(rig.open) == 2
    assert rig.answer(1) == [ack("r2"), sent(result("counter@1.2#0", 1, "dog"))]
    assert rig.answer() == [ack("r1"), sent(result("counter@1.1#0", 1, "cat"))]


# Keys are serial; commits are shared (6.1.1)


def test_a_key_is_locked_until_its_write_is_answered() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    assert rig.feed(click("r2")) == []
    assert rig.worker.user_code_runs == 1
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1)), wrote(rig, counted(2, 2, "r2"))]


def test_records_of_a_key_that_have_waited_share_a_write() -> None:
    rig = Rig(counter(), options=replace(QUIET, commit_batch=8))
    for record_id in ("r1", "r2", "r3"):
        rig.feed(click(record_id))
    effects = rig.answer()
    assert effects[-1] == wrote(rig, counted(2, 3, "r2", "r3"))
    assert rig.answer() == [
        ack("r2", "r3"),
        sent(result("counter@1.2#0", 2)),
        sent(result("counter@1.2#1", 3)),
    ]


def test_keys_that_have_waited_share_a_write() -> None:
    rig = Rig(counter(), options=replace(QUIET, commit_batch=8, commits_in_flight=1))
    for number, key in enumerate("abc", 1):
        rig.feed(click(f"r{number}", key))
    assert rig.answer()[-1] == wrote(rig, counted(2, 1, "r2", key="b"), counted(3, 1, "r3", key="c"))
    assert rig.answer() == [
        ack("r2", "r3"),
        sent(result("counter@1.2#0", 1, "b")),
        sent(result("counter@1.3#0", 1, "c")),
    ]


def test_acks_are_batched_by_sender() -> None:
    rig = Rig(counter(), options=replace(QUIET, commit_batch=8, commits_in_flight=1))
    for number, sender in enumerate(["feed/0", "feed/0", "feed/1", "feed/0"]):
        rig.feed(click(f"r{number}", f"key {number}", sender=sender))
    rig.answer()
    effects = rig.answer()
    assert effects[:2] == [ack("r1", "r3"), ack("r2", to="feed/1")]


def test_the_number_of_writes_in_flight_is_limited() -> None:
    rig = Rig(counter(), options=replace(QUIET, commits_in_flight=2))
    for number, key in enumerate("abc"):
        rig.feed(click(f"r{number}", key))
    assert (len(rig.open), rig.worker.user_code_runs) == (2, 2)
    rig.answer()
    assert (len(rig.open), rig.worker.user_code_runs) == (2, 3)


def test_a_deletion_that_is_being_written_locks_no_key() -> None:
    """A key waits for its turn while others' writes are under way; one of them takes along the deletion of its checkpoint.
    Its own step does not wait for that, and it does not matter which of the two is applied first."""
    rig = Rig(counter(), options=replace(QUIET, commits_in_flight=2, delete_delay_us=10**9))
    rig.settle(click("r1"))
    rig.feed(click("a1", "a"))
    rig.feed(click("b1", "b"))
    rig.feed(outside_acks(FIRST))
    rig.feed(click("c1", "c"))
    rig.feed(click("r2"))
    rig.answer()
    rig.answer()
    deletion, step = rig.open
    assert isinstance(deletion, m.Write)
    assert isinstance(step, m.Write)
    assert ([delta.key for delta in deletion.deltas], deletion.delivered) == (["c"], (("dog", FIRST, ""),))
    assert ([delta.key for delta in step.deltas], step.delivered) == (["dog"], ())
    rig.answer(1)
    rig.answer(0)
    row = rig.shop.row("dog")
    assert row is not None
    assert (row.state, [production.record_id for production in row.productions]) == (
        b'{"n":2}',
        ["counter@1.5#0"],
    )


def test_with_single_commits_each_record_has_its_own_write() -> None:
    rig = Rig(counter())
    for number in range(4):
        rig.settle(click(f"r{number}"))
    assert [len(event.delta.seen) for event in rig.shop.history if isinstance(event, Applied)] == [1] * 4


def test_no_write_has_more_records_than_commit_batch_says() -> None:
    rig = Rig(counter(), options=replace(QUIET, commit_batch=2, commits_in_flight=1))
    for number, key in enumerate(["x", "a", "a", "b", "b"]):
        rig.feed(click(f"r{number}", key))
    rig.answer()
    assert sum(len(delta.seen) for delta in rig.write().deltas) <= 2


# Productions until they are ACKed (6.1.2)


def test_productions_are_sent_again_with_growing_pauses_until_they_are_acked() -> None:
    rig = Rig(counter(), options=replace(QUIET, retry_us=100, retry_max_us=400, sweep_period_us=100))
    rig.settle(click("r1"))
    resends = [at for at in range(100, 2_000, 100) if rig.wake(at) == [sent(result(FIRST, 1))]]
    assert resends == [100, 300, 700, 1_100, 1_500, 1_900]
    rig.feed(outside_acks(FIRST))
    assert [rig.wake(at) for at in (2_300, 9_000)] == [[], []]


def test_an_acked_production_is_deleted_with_the_next_write_of_its_own_row() -> None:
    rig = Rig(counter(), options=replace(QUIET, delete_delay_us=10**9))
    rig.settle(click("r1"))
    assert rig.settle(outside_acks(FIRST)) == []
    rig.feed(click("r2"))
    assert rig.write().delivered == (("dog", FIRST, ""),)


def test_an_acked_production_is_deleted_with_the_next_write_of_another_row() -> None:
    rig = Rig(counter(), options=replace(QUIET, delete_delay_us=10**9))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.feed(click("r2", "cat")) == [
        wrote(rig, counted(2, 1, "r2", key="cat"), delivered=(("dog", FIRST, ""),))
    ]


def test_an_acked_production_gets_its_own_write_if_no_other_is_due() -> None:
    rig = Rig(counter(), options=replace(QUIET, delete_delay_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.feed(Wake(), at=50) == []
    assert rig.feed(Wake(), at=100) == [wrote(rig, delivered=(("dog", FIRST, ""),))]
    assert rig.answer() == []
    row = rig.shop.row("dog")
    assert row is not None
    assert (row.productions, row.state) == ((), b'{"n":1}')
    assert rig.feed(Wake(), at=10_000) == []


def test_a_production_is_deleted_once_also_when_its_ack_comes_twice() -> None:
    rig = Rig(counter())
    rig.settle(click("r1"))
    rig.feed(outside_acks(FIRST, FIRST))
    rig.feed(outside_acks(FIRST))
    rig.feed(Wake(), at=50_000)
    assert rig.write().delivered == (("dog", FIRST, ""),)


def test_each_consumers_copy_is_deleted_by_its_own_ack() -> None:
    pipeline = counter()
    for name in ("x", "y"):
        pipeline.add(Scripted(), name=name, inputs=["counts"])
    shop = Shop(pipeline)
    rig = Rig(shop)
    shop.assign_all(others={"x": "worker-8", "y": "worker-9"})
    rig.settle(shop.table)
    rig.settle(click("r1"))
    rig.feed(m.Ack("y", (rig.shop.row("dog").productions[0].record_id,)))  # type: ignore[union-attr]
    rig.wake(50_000)
    row = rig.shop.row("dog")
    assert row is not None
    assert [production.consumer for production in row.productions] == ["x"]


def test_a_production_for_a_key_without_owner_is_kept_and_sent_when_there_is_one() -> None:
    pipeline = counter()
    pipeline.add(Scripted(), name="sink", inputs=["counts"])
    shop = Shop(pipeline)
    shop.mint(MintChange("counter", ALL_KEYS, WORKER, 1), MintChange("sink", ALL_KEYS, "worker-8", 1))
    rig = Rig(shop)
    rig.settle(shop.table)
    production = result("counter@1.1#0", 1, consumer="sink")
    assert rig.settle(click("r1")) == [ack("r1"), sent(production, to="worker-8")]
    shop.mint(MintChange("sink", ALL_KEYS, "worker-9", 1))
    assert rig.settle(shop.table) == [sent(production, to="worker-9")], "at once, to the new owner"


# Keys that only wait take no memory (8.3)


def test_an_idle_key_whose_row_has_left_the_cache_is_forgotten_and_its_row_is_read_again() -> None:
    rig = Rig(counter(), options=FORGETFUL)
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    rig.wake(100)
    assert rig.interval.soft.slots == {}
    rig.feed(click("r2"))
    assert isinstance(rig.request(), m.Read)
    rig.answer()
    assert [delta.state for delta in rig.write().deltas] == [b'{"n":2}']


def test_a_key_that_is_new_is_not_read_although_others_were_forgotten() -> None:
    rig = Rig(counter(), options=FORGETFUL)
    rig.settle(click("r1"))
    rig.wake(100)
    rig.feed(click("r2", "cat"))
    assert [delta.key for delta in rig.write().deltas] == ["cat"]


def test_a_forgotten_key_still_knows_a_duplicate() -> None:
    rig = Rig(counter(), options=FORGETFUL)
    rig.settle(click("r1"))
    rig.wake(100)
    assert rig.settle(click("r1")) == [ack("r1")]
    assert rig.worker.user_code_runs == 1


@pytest.mark.parametrize("capacity", [1, 8])
def test_no_forgotten_key_is_mistaken_for_a_new_one_however_often_the_filter_errs(capacity: int) -> None:
    """A key that the filter takes for a known one by error is new all the same, and the next filter must know it."""
    crowded = replace(FORGETFUL, bloom_capacity=capacity, bloom_error=0.5)
    rig = Rig(counter(), options=crowded)
    keys = [f"key {number}" for number in range(200)]
    for number, key in enumerate(keys):
        rig.settle(click(f"r{number}", key))
        rig.settle(outside_acks(f"counter@1.{number + 1}#0"))
        rig.wake(100 * (number + 1))
    assert rig.interval.soft.slots == {}
    for number, key in enumerate(keys):
        assert rig.settle(click(f"r{number}", key)) == [ack(f"r{number}")], f"{key} is run again"


def test_a_production_of_a_forgotten_key_is_deleted_once_it_is_acked() -> None:
    rig = Rig(counter(), options=FORGETFUL)
    rig.settle(click("r1"))
    rig.wake(100)
    rig.feed(outside_acks(FIRST))
    rig.feed(Wake(), at=200)
    assert rig.write().delivered == (("dog", FIRST, ""),)


@pytest.mark.parametrize(
    "keep",
    [
        lambda context, _: context.set_timer("t", 10**6),
        lambda context, _: context.hold_watermark(10**6),
    ],
    ids=["timer", "hold"],
)
def test_a_key_that_waits_for_something_is_not_forgotten(keep: Callable[[Context, Record], None]) -> None:
    rig = Rig(counter(Scripted(keep)), options=FORGETFUL)
    rig.settle(click("r1"))
    rig.wake(100)
    assert [*rig.interval.soft.slots] == ["dog"]


def test_a_timer_moved_by_a_key_since_forgotten_belongs_to_no_one() -> None:
    """A timer is set and cancelled, the key is forgotten, and then the watermark passes where it was."""

    def toggle(context: Context, record: Record) -> None:
        context.set_timer("t", 1_000) if record.value else context.cancel_timer("t")

    rig = Rig(counter(Scripted(toggle)), options=FORGETFUL)
    rig.settle(click("r1", value=1))
    rig.settle(click("r2", value=0))
    rig.wake(100)
    assert rig.interval.soft.slots == {}
    assert rig.settle(watermark(2_000, horizon=0)) == []


# User code and the engine share nothing


def test_what_user_code_does_to_its_objects_after_the_hook_is_not_seen() -> None:
    kept: list[dict[str, int]] = []

    def hoard(context: Context, record: Record) -> None:
        context.state["n"] = context.state.get("n", 0) + 1
        record.value["seen"] = True
        context.produce("counts", record.value)
        kept.extend((context.state, record.value))

    rig = Rig(counter(Scripted(hoard)))
    rig.feed(click("r1", value={"a": 1}))
    for entry in kept:
        entry["n"] = 99
    assert rig.settle(Wake()) == [ack("r1"), sent(result(FIRST, {"a": 1, "seen": True}))]
    rig.settle(click("r2", value={}))
    assert rig.shop.state("dog") == {"n": 2}


@pytest.mark.parametrize(
    ("hook", "state"),
    [
        (lambda context: context.state.update(n=2), b'{"n":2}'),
        (lambda context: setattr(context, "state", [1]), b"[1]"),
        (lambda context: context.state, None),
        (lambda context: context.clear_state(), None),
    ],
    ids=["changed", "assigned", "looked at", "cleared, as it was"],
)
def test_a_step_writes_the_state_only_if_it_changed(
    hook: Callable[[Context], object], state: bytes | None
) -> None:
    rig = Rig(counter(Scripted(lambda context, _: (hook(context), None)[1])))
    rig.feed(click("r1"))
    assert [delta.state for delta in rig.write().deltas] == [state]


def test_a_state_that_is_initial_again_is_stored_as_nothing() -> None:
    def toggle(context: Context, _: Record) -> None:
        if context.state:
            context.clear_state()
        else:
            context.state["on"] = True

    rig = Rig(counter(Scripted(toggle)))
    rig.settle(click("r1"))
    assert rig.shop.state("dog") == {"on": True}
    rig.feed(click("r2"))
    assert [(delta.state, delta.hold) for delta in rig.write().deltas] == [(b"", MAX_TIME)]


def test_the_worker_charges_each_run_of_user_code() -> None:
    rig = Rig(counter(Scripted(count)))
    rig.settle(click("r1"))
    rig.settle(click("r1"))
    rig.settle(click("r2"))
    assert rig.worker.user_code_runs == 2


def test_it_reports_its_amount_of_unfinished_work() -> None:
    """A record, its write, its production, its checkpoint's deletion: when all that is done, it only waits."""
    rig = Rig(counter(), options=replace(QUIET, sweep_period_us=50))
    assert rig.worker.unfinished == 0
    rig.feed(click("r1"))
    assert rig.worker.unfinished > 0
    rig.answer()
    assert rig.worker.unfinished == rig.worker.unacked == 1
    rig.feed(outside_acks(FIRST))
    assert rig.worker.unfinished == 1
    rig.wake(50)
    assert rig.worker.unfinished == 0


# Inputs

TAKEN = {
    Start, Wake, Deliveries, m.Deliver, m.Ack, m.Table, m.Watermarks, m.RowRead, m.Scanned, m.Written, m.Collected, m.Refused,
    m.Unavailable,
}  # fmt: skip


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_each_input_is_declared_or_raises(kind: type) -> None:
    worker = Worker(WORKER, [counter()], QUIET, History())
    worker.handle(0, Start(1))
    if kind in TAKEN:
        worker.handle(1, EXAMPLES[kind])
        worker.check_invariants()
        return
    with pytest.raises(AssertionError, match=f"{WORKER} got {kind.__name__}"):
        worker.handle(1, EXAMPLES[kind])


def test_the_table_has_no_other_inputs() -> None:
    assert set(HANDLERS) == TAKEN
