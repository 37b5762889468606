"""The worker with strong productions (MillWheel 6.1.1, 6.1.2, 7.1): feed an event, assert all that comes out."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from millrace import MAX_TIME, Context, Eviction, KeyInterval, Record
from millrace import _messages as m
from millrace._effects import Send, Wake, WakeAt
from millrace._keys import ALL_KEYS
from millrace._messages import STORE, MintChange
from millrace._rows import RowImage, Version
from millrace.history import AckSent, Applied, Delivered, DuplicateDropped, Executed, IntervalDropped
from tests.core.driver import (
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

LEFT, RIGHT = KeyInterval("", "m"), KeyInterval("m")
NO_CACHE = replace(QUIET, cache_bytes=0)
FIRST = "counter@1.1#0"
"""The id of the first production of the first write."""


# A delivery's life (6.1.1)


def test_it_starts_by_showing_itself_to_all_masters() -> None:
    beat = m.Heartbeat(WORKER, 1, table_version=0)
    assert Rig(Shop(counter())).started == [
        Send("master-0", beat),
        Send("master-1", beat),
        WakeAt(QUIET.sweep_period_us),
    ]


def test_a_record_is_run_and_written_and_nothing_is_acked_or_sent_before_the_write_is_answered() -> None:
    rig = Rig(counter())
    assert rig.feed(click("r1")) == [wrote(rig, counted(1, 1, "r1"))]
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]
    assert rig.shop.row("dog") == RowImage(
        "dog", Version(1, 1), b'{"n":1}', MAX_TIME, (), (result(FIRST, 1),), (("r1", 1),)
    )


def test_the_history_tells_the_steps_of_a_delivery_in_their_order() -> None:
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


# Duplicates (6.1.1)


def test_a_duplicate_by_id_is_acked_and_not_run() -> None:
    rig = Rig(counter())
    rig.settle(click("r1"))
    assert rig.feed(click("r1", sender="worker-7")) == [ack("r1", to="worker-7")]
    assert rig.worker.user_code_runs == 1
    assert rig.shop.of(DuplicateDropped) == [DuplicateDropped(0, WORKER, "counter", "dog", "r1", "id")]


@pytest.mark.parametrize("eviction", list(Eviction))
def test_a_duplicate_is_found_by_reading_when_the_row_has_left_the_cache(eviction: Eviction) -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, eviction=eviction))
    rig.settle(click("r1"))
    assert rig.feed(click("r1")) == [Send(STORE, m.Read(rig.request().request, "counter", 1, "dog"))]
    assert rig.answer() == [ack("r1")]
    assert rig.worker.user_code_runs == 1


def test_a_false_positive_of_the_filter_runs_when_the_row_in_memory_does_not_have_it() -> None:
    rig = Rig(counter(), options=replace(QUIET, bloom_capacity=1, bloom_error=0.999))
    for number in range(20):
        rig.settle(click(f"r{number}"))
    assert rig.shop.state("dog") == {"n": 20}
    assert 12345 in rig.interval.seen_filter.known, "the filter is so small that it has everything"


def test_a_false_positive_of_the_filter_runs_after_the_row_was_read() -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, bloom_capacity=1, bloom_error=0.999))
    for number in range(20):
        rig.settle(click(f"r{number}"))
    assert rig.feed(click("new")) == [Send(STORE, m.Read(rig.request().request, "counter", 1, "dog"))]
    assert rig.answer() == [wrote(rig, counted(21, 21, "new"))]
    assert rig.answer() == [ack("new"), sent(result("counter@1.21#0", 21))]


def test_a_key_without_a_row_is_not_read() -> None:
    rig = Rig(counter(), options=NO_CACHE)
    assert rig.feed(click("r1")) == [wrote(rig, counted(1, 1, "r1"))]


def test_a_record_that_comes_again_while_in_progress_is_run_once_and_the_latest_sender_is_acked() -> None:
    """The sender's interval moves while its record is in progress here, so that its successor sends the record, too."""
    rig = Rig(counter())
    rig.feed(click("r1", sender="worker-7"))
    assert rig.feed(click("r1", sender="worker-8")) == []
    assert rig.answer() == [ack("r1", to="worker-8"), sent(result(FIRST, 1))]
    assert rig.worker.user_code_runs == 1
    assert rig.shop.of(DuplicateDropped) == [
        DuplicateDropped(0, WORKER, "counter", "dog", "r1", "in progress")
    ]


def test_a_record_that_waits_for_its_turn_is_in_progress_too() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    rig.feed(click("r2", sender="worker-7"))
    assert rig.feed(click("r2", sender="worker-8")) == []
    assert rig.settle(Wake())[:2] == [ack("r1"), sent(result(FIRST, 1))]
    assert rig.shop.of(AckSent)[-1] == AckSent(0, WORKER, "counter", ("r2",), "worker-8")
    assert rig.shop.state("dog") == {"n": 2}


def test_a_remnant_from_behind_the_horizon_is_acked_and_not_run_although_its_id_is_unknown() -> None:
    rig = Rig(counter())
    rig.feed(watermark(MAX_TIME, horizon=5))
    assert rig.feed(click("r1", origin=4)) == [ack("r1")]
    assert rig.worker.user_code_runs == 0
    assert rig.shop.of(DuplicateDropped) == [DuplicateDropped(0, WORKER, "counter", "dog", "r1", "horizon")]
    assert rig.settle(click("r2", origin=5))[0] == ack("r2")


def test_without_exactly_once_nothing_is_remembered_and_a_duplicate_runs_again() -> None:
    rig = Rig(counter(exactly_once=False))
    rig.feed(watermark(MAX_TIME, horizon=5))
    for number in (1, 2):
        rig.settle(click("r1", origin=4))
        row = rig.shop.row("dog")
        assert row is not None
        assert (row.seen, row.version) == ((), Version(1, number))
    assert rig.shop.state("dog") == {"n": 2}


# Collecting ids


COLLECTING = replace(QUIET, collect_period_us=100, sweep_period_us=50, id_slack_us=10)


def test_ids_behind_the_horizon_and_its_slack_are_collected_at_the_store_and_in_memory() -> None:
    rig = Rig(counter(), options=COLLECTING)
    for number in (4, 5):
        rig.settle(click(f"r{number}", origin=number))
    rig.feed(watermark(0, horizon=15))
    effects = rig.feed(Wake(), at=100)
    assert effects == [
        Send(STORE, m.CollectIds(rig.request().request, "counter", 1, ALL_KEYS, 5)),
        WakeAt(150),
    ]
    assert rig.answer() == []
    row = rig.shop.row("dog")
    assert row is not None
    assert row.seen == (("r5", 5),)
    assert rig.feed(click("r4", origin=4)) == [ack("r4")], "and still it is not run again"
    assert rig.feed(click("r5", origin=5)) == [ack("r5")]
    assert rig.worker.user_code_runs == 2


def test_ids_are_collected_again_only_when_the_horizon_has_moved() -> None:
    rig = Rig(counter(), options=COLLECTING)
    rig.settle(click("r1", origin=90))
    rig.feed(watermark(0, horizon=50))
    rig.wake(100)
    for at, horizon, expected in ((200, 50, []), (300, 60, [50])):
        rig.feed(watermark(0, horizon=horizon))
        rig.feed(Wake(), at=at)
        assert [one.below for one in rig.asked() if isinstance(one, m.CollectIds)] == expected


def test_without_ids_nothing_is_collected() -> None:
    rig = Rig(counter(exactly_once=False), options=COLLECTING)
    rig.settle(click("r1"))
    rig.feed(watermark(0, horizon=50))
    assert rig.feed(Wake(), at=100) == [WakeAt(150)]


def test_a_duplicate_whose_id_is_collected_while_its_row_is_being_read_is_not_run_again() -> None:
    """A duplicate waits for its row to be read. Meanwhile the horizon passes it, its id is collected,
    and only then the read is served: the row does not have the id any more."""
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1", origin=5))
    rig.feed(click("r1", origin=5))
    rig.feed(watermark(0, horizon=50))
    rig.feed(Wake(), at=100)
    read, collect = rig.open
    assert (type(read), type(collect)) == (m.Read, m.CollectIds)
    assert rig.answer(1) == []
    assert rig.answer(0) == [ack("r1")]
    assert rig.worker.user_code_runs == 1


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


def test_acks_are_gathered_by_sender() -> None:
    rig = Rig(counter(), options=replace(QUIET, commit_batch=8, commits_in_flight=1))
    for number, sender in enumerate(["feed/0", "feed/0", "feed/1", "feed/0"]):
        rig.feed(click(f"r{number}", f"key {number}", sender=sender))
    rig.answer()
    effects = rig.answer()
    assert effects[:2] == [ack("r1", "r3"), ack("r2", to="feed/1")]


def test_only_so_many_writes_are_under_way_at_once() -> None:
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
    assert ([one.key for one in deletion.deltas], deletion.delivered) == (["c"], (("dog", FIRST, ""),))
    assert ([one.key for one in step.deltas], step.delivered) == (["dog"], ())
    rig.answer(1)
    rig.answer(0)
    row = rig.shop.row("dog")
    assert row is not None
    assert (row.state, [one.record_id for one in row.productions]) == (b'{"n":2}', ["counter@1.5#0"])


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
    assert sum(len(one.seen) for one in rig.write().deltas) <= 2


# The store does not answer


def test_an_unanswered_write_is_sent_again_as_the_same_request() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    (request,) = rig.asked()
    timeout_us = QUIET.store_timeout_us
    assert rig.feed(m.Unavailable(request.request)) == []
    assert rig.feed(Wake(), at=timeout_us) == [
        Send(STORE, request),
        WakeAt(timeout_us + QUIET.sweep_period_us),
    ]
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]


def test_a_write_that_was_taken_but_not_answered_counts_once() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    (request,) = rig.asked()
    first = rig.shop.store(request)
    rig.feed(Wake(), at=QUIET.store_timeout_us)
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]
    assert rig.feed(first) == [], "the first answer comes, too"
    assert len(rig.shop.of(Applied)) == 1


def test_an_answer_to_a_former_life_of_the_process_is_not_taken_for_one_to_this() -> None:
    """A worker writes and crashes before it is answered; it restarts, gets its interval back and writes again.
    The old answer comes late: it must not make the new write count as durable."""
    shop = Shop(counter())
    shop.assign_all()
    former = Rig(shop)
    former.settle(shop.table)
    former.feed(click("r1"))
    stray = shop.store(former.write())
    shop.mint(MintChange("counter", ALL_KEYS, WORKER, 2))
    rig = Rig(shop, incarnation=2)
    rig.settle(shop.table)
    rig.feed(click("r2"))
    assert rig.feed(stray) == []


def test_a_worker_whose_clock_is_put_back_goes_on_sending_again() -> None:
    rig = Rig(Shop(counter(), options=replace(QUIET, retry_us=100)))
    rig.now = 10**9
    rig.feed(Wake())
    rig.shop.assign_all()
    rig.settle(rig.shop.table)
    rig.settle(click("r1"))
    assert rig.wake(5) == []
    assert rig.wake(5 + QUIET.sweep_period_us) == [sent(result(FIRST, 1))]


def test_a_worker_whose_clock_is_put_back_goes_on_deleting() -> None:
    rig = Rig(Shop(counter(), options=replace(QUIET, delete_delay_us=100, sweep_period_us=50)))
    rig.now = 10**9
    rig.feed(Wake())
    rig.shop.assign_all()
    rig.settle(rig.shop.table)
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    for at in (0, 50, 100, 150, 200):
        rig.wake(at)
    row = rig.shop.row("dog")
    assert row is not None
    assert row.productions == ()


# Refused writes (6.2)


def test_a_refused_write_sends_and_acks_nothing_and_the_interval_is_dropped() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    assert rig.answer() == []
    assert rig.worker.intervals == ()
    assert rig.shop.of(IntervalDropped) == [IntervalDropped(0, WORKER, "counter", ALL_KEYS, 1, "refused")]
    assert rig.feed(click("r2")) == [], "and what comes for it is left to its sender's retries"
    assert rig.feed(Wake(), at=10**9) == [WakeAt(10**9 + QUIET.sweep_period_us)]


def test_a_refused_write_leaves_other_intervals_at_work() -> None:
    rig = Rig(counter(split_at=["m"]))
    rig.feed(click("r1", "ant"))
    rig.feed(click("r2", "zebra"))
    rig.shop.mint(MintChange("counter", LEFT, "worker-1", 1))
    assert rig.answer() == []
    assert rig.answer() == [ack("r2"), sent(result("counter@2.1#0", 1, "zebra"))]
    assert [one.interval for one in rig.worker.intervals] == [RIGHT]


@pytest.mark.parametrize("refused_first", [True, False])
def test_of_two_writes_under_way_the_refused_one_ends_the_interval(refused_first: bool) -> None:  # noqa: FBT001
    """The first write is applied, then the interval is given away, and the second is refused.
    In whatever order the answers come: after the refusal nothing more is sent or ACKed."""
    rig = Rig(counter())
    rig.feed(click("r1", "a"))
    rig.feed(click("r2", "b"))
    first, second = rig.asked()
    written = rig.shop.store(first)
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    refused = rig.shop.store(second)
    if refused_first:
        assert rig.feed(refused) == []
        assert rig.feed(written) == []
    else:
        assert rig.feed(written) == [ack("r1"), sent(result("counter@1.1#0", 1, "a"))]
        assert rig.feed(refused) == []
    assert rig.worker.unacked == 0


def test_what_a_dropped_interval_had_sent_is_not_sent_again_by_it() -> None:
    rig = Rig(counter(), options=replace(QUIET, retry_us=100))
    rig.settle(click("r1"))
    assert rig.worker.unacked == 1
    rig.feed(click("r2"))
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    rig.answer()
    assert rig.worker.unacked == 0
    assert rig.wake(10**6) == []


@pytest.mark.parametrize("what", ["read", "collection"])
def test_any_refused_request_drops_the_interval(what: str) -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1", origin=5))
    if what == "read":
        rig.feed(click("r2"))
    else:
        rig.feed(watermark(0, horizon=50))
        rig.feed(Wake(), at=100)
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    assert rig.answer() == []
    assert rig.worker.intervals == ()


# Productions until they are ACKed (6.1.2)


def test_productions_are_sent_again_with_growing_pauses_until_they_are_acked() -> None:
    rig = Rig(counter(), options=replace(QUIET, retry_us=100, retry_max_us=400, sweep_period_us=100))
    rig.settle(click("r1"))
    resends = [at for at in range(100, 2_000, 100) if rig.wake(at) == [sent(result(FIRST, 1))]]
    assert resends == [100, 300, 700, 1_100, 1_500, 1_900]
    rig.feed(outside_acks(FIRST))
    assert [rig.wake(at) for at in (2_300, 9_000)] == [[], []]


def test_an_acked_production_is_deleted_with_the_next_write_of_its_row() -> None:
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


def test_an_acked_production_gets_a_write_of_its_own_when_none_has_come_along() -> None:
    rig = Rig(counter(), options=replace(QUIET, delete_delay_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    assert rig.feed(Wake(), at=50) == [WakeAt(100)]
    assert rig.feed(Wake(), at=100) == [wrote(rig, delivered=(("dog", FIRST, ""),)), WakeAt(150)]
    assert rig.answer() == []
    row = rig.shop.row("dog")
    assert row is not None
    assert (row.productions, row.state) == ((), b'{"n":1}')
    assert rig.feed(Wake(), at=10_000) == [WakeAt(10_050)]


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
    assert [one.consumer for one in row.productions] == ["x"]


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
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST))
    rig.wake(100)
    assert rig.interval.slots == {}
    rig.feed(click("r2"))
    assert isinstance(rig.request(), m.Read)
    rig.answer()
    assert [one.state for one in rig.write().deltas] == [b'{"n":2}']


def test_a_key_that_is_new_is_not_read_although_others_were_forgotten() -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.wake(100)
    rig.feed(click("r2", "cat"))
    assert [one.key for one in rig.write().deltas] == ["cat"]


def test_a_forgotten_key_still_knows_a_duplicate() -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.wake(100)
    assert rig.settle(click("r1")) == [ack("r1")]
    assert rig.worker.user_code_runs == 1


def test_a_production_of_a_forgotten_key_is_deleted_once_it_is_acked() -> None:
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
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
    options = replace(NO_CACHE, collect_period_us=100, sweep_period_us=50)
    rig = Rig(counter(Scripted(keep)), options=options)
    rig.settle(click("r1"))
    rig.wake(100)
    assert [*rig.interval.slots] == ["dog"]


def test_a_timer_that_was_moved_by_a_key_since_forgotten_is_nobodys() -> None:
    """A timer is set and cancelled, the key is forgotten, and then the watermark passes where it was."""

    def toggle(context: Context, record: Record) -> None:
        context.set_timer("t", 1_000) if record.value else context.cancel_timer("t")

    rig = Rig(counter(Scripted(toggle)), options=replace(NO_CACHE, collect_period_us=100, sweep_period_us=50))
    rig.settle(click("r1", value=1))
    rig.settle(click("r2", value=0))
    rig.wake(100)
    assert rig.interval.slots == {}
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
    for one in kept:
        one["n"] = 99
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
    assert [one.state for one in rig.write().deltas] == [state]


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
    assert [(one.state, one.hold) for one in rig.write().deltas] == [(b"", MAX_TIME)]


def test_the_worker_charges_each_run_of_user_code() -> None:
    rig = Rig(counter(Scripted(count)))
    rig.settle(click("r1"))
    rig.settle(click("r1"))
    rig.settle(click("r2"))
    assert rig.worker.user_code_runs == 2


def test_it_says_how_much_it_is_in_the_middle_of() -> None:
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
