"""The worker and duplicates (MillWheel 6.1.1): what has been seen is ACKed and not run, until its id is collected."""

from dataclasses import replace

import pytest

from headrace import MAX_TIME, Eviction
from headrace.history import AckSent, DuplicateDropped, KnownBy
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import STORE
from headrace.wire.rows import Version
from tests.core.driver import (
    FIRST,
    QUIET,
    WORKER,
    Rig,
    ack,
    click,
    counted,
    counter,
    result,
    sent,
    watermark,
    wrote,
)

NO_CACHE = replace(QUIET, cache_bytes=0)


# Duplicates (6.1.1)


def test_a_duplicate_by_id_is_acked_and_not_run() -> None:
    rig = Rig(counter())
    rig.settle(click("r1"))
    assert rig.feed(click("r1", sender="worker-7")) == [ack("r1", to="worker-7")]
    assert rig.worker.user_code_runs == 1
    assert rig.shop.of(DuplicateDropped) == [DuplicateDropped(0, WORKER, "counter", "dog", "r1", KnownBy.ID)]


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
    assert 12345 in rig.interval.soft.seen_filter.known, "the filter is so small that it has everything"


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
        DuplicateDropped(0, WORKER, "counter", "dog", "r1", KnownBy.IN_PROGRESS)
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
    assert rig.shop.of(DuplicateDropped) == [
        DuplicateDropped(0, WORKER, "counter", "dog", "r1", KnownBy.HORIZON)
    ]
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


COLLECTING = replace(
    QUIET, collect_period_us=100, heartbeat_period_us=100, sweep_period_us=50, id_slack_us=10, masters=1
)


def beat(rig: Rig, at: int) -> list[Effect]:
    """Wake it for a heartbeat, and return what goes along with that."""
    first, *others = rig.feed(Wake(), at)
    assert isinstance(first, Send)
    assert isinstance(first.message, m.Heartbeat)
    return others


def test_ids_behind_the_horizon_and_its_slack_are_collected_at_the_store_and_in_memory() -> None:
    rig = Rig(counter(), options=COLLECTING)
    for number in (4, 5):
        rig.settle(click(f"r{number}", origin=number))
    rig.feed(watermark(0, horizon=15))
    collect = beat(rig, at=100)
    assert collect == [Send(STORE, m.CollectIds(rig.request().request, "counter", 1, ALL_KEYS, 5))]
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
        assert [request.below for request in rig.asked() if isinstance(request, m.CollectIds)] == expected


def test_without_ids_nothing_is_collected() -> None:
    rig = Rig(counter(exactly_once=False), options=COLLECTING)
    rig.settle(click("r1"))
    rig.feed(watermark(0, horizon=50))
    assert beat(rig, at=100) == []


def test_a_duplicate_whose_id_is_collected_while_its_row_is_being_read_is_not_run_again() -> None:
    """A duplicate waits for its row to be read. Meanwhile the horizon passes it, its id is collected,
    and only then the read is served: the row does not have the id any more."""
    rig = Rig(counter(), options=replace(COLLECTING, cache_bytes=0, id_slack_us=0))
    rig.settle(click("r1", origin=5))
    rig.feed(click("r1", origin=5))
    rig.feed(watermark(0, horizon=50))
    rig.feed(Wake(), at=100)
    read, collect = rig.open
    assert (type(read), type(collect)) == (m.Read, m.CollectIds)
    assert rig.answer(1) == []
    assert rig.answer(0) == [ack("r1")]
    assert rig.worker.user_code_runs == 1
