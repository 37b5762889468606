"""The worker and a store that does not answer, or refuses (MillWheel 6.2)."""

from dataclasses import replace

import pytest

from headrace.history import Applied, DropCause, IntervalDropped
from headrace.wire import messages as m
from headrace.wire.effects import Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import STORE, MintChange
from tests.core.driver import (
    FIRST,
    LEFT,
    QUIET,
    RIGHT,
    WORKER,
    Rig,
    Shop,
    ack,
    click,
    counter,
    outside_acks,
    result,
    sent,
    watermark,
)

NO_CACHE = replace(QUIET, cache_bytes=0)


# The store does not answer


def test_an_unanswered_write_is_sent_again_as_the_same_request() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    (request,) = rig.asked()
    timeout_us = QUIET.store_timeout_us
    assert rig.feed(m.Unavailable(request.request)) == []
    assert rig.feed(Wake(), at=timeout_us) == [Send(STORE, request)]
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]


def test_a_write_that_was_applied_but_not_answered_counts_once() -> None:
    rig = Rig(counter())
    rig.feed(click("r1"))
    (request,) = rig.asked()
    first = rig.shop.store(request)
    rig.feed(Wake(), at=QUIET.store_timeout_us)
    assert rig.answer() == [ack("r1"), sent(result(FIRST, 1))]
    assert rig.feed(first) == [], "the first answer comes, too"
    assert len(rig.shop.of(Applied)) == 1


def test_an_answer_to_a_former_incarnation_of_the_process_is_ignored() -> None:
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


def test_a_worker_whose_clock_is_put_back_keeps_resending() -> None:
    rig = Rig(Shop(counter(), options=replace(QUIET, retry_us=100)))
    rig.now = 10**9
    rig.feed(Wake())
    rig.shop.assign_all()
    rig.settle(rig.shop.table)
    rig.settle(click("r1"))
    assert rig.wake(5) == []
    assert rig.wake(5 + QUIET.sweep_period_us) == [sent(result(FIRST, 1))]


def test_a_worker_whose_clock_is_put_back_keeps_deleting() -> None:
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
    assert rig.shop.of(IntervalDropped) == [
        IntervalDropped(0, WORKER, "counter", ALL_KEYS, 1, DropCause.REFUSED)
    ]
    assert rig.feed(click("r2")) == [], "and what comes for it is left to its sender's retries"
    assert rig.feed(Wake(), at=10**9) == []


def test_a_refused_write_leaves_other_intervals_at_work() -> None:
    rig = Rig(counter(split_at=["m"]))
    rig.feed(click("r1", "ant"))
    rig.feed(click("r2", "zebra"))
    rig.shop.mint(MintChange("counter", LEFT, "worker-1", 1))
    assert rig.answer() == []
    assert rig.answer() == [ack("r2"), sent(result("counter@2.1#0", 1, "zebra"))]
    assert [interval.interval for interval in rig.worker.intervals] == [RIGHT]


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


def test_a_dropped_interval_does_not_resend() -> None:
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
    rig = Rig(counter(), options=replace(NO_CACHE, collect_period_us=100, heartbeat_period_us=100))
    rig.settle(click("r1", origin=5))
    if what == "read":
        rig.feed(click("r2"))
    else:
        rig.feed(watermark(0, horizon=50))
        rig.feed(Wake(), at=100)
    rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    assert rig.answer() == []
    assert rig.worker.intervals == ()
