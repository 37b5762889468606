"""Writes that wait for company (MillWheel 6.1.1): after a write, the next one lingers for more steps to share it."""

from dataclasses import replace

from headrace import Productions
from headrace.wire.effects import Wake
from headrace.wire.messages import Write
from headrace.wire.rows import RowDelta
from tests.core.driver import (
    FIRST,
    QUIET,
    Rig,
    ack,
    click,
    counted,
    counter,
    outside_acks,
    result,
    sent,
    wrote,
)

LINGER = replace(QUIET, commit_batch=3, commit_linger_us=1_000, sweep_period_us=10**9, delete_delay_us=10**9)


def test_the_first_write_after_a_quiet_period_goes_at_once() -> None:
    rig = Rig(counter(), options=LINGER)
    for at in (0, 1_000, 5_000):
        rig.feed(click(f"r{at}", key=str(at)), at)
        assert [delta.key for delta in rig.write().deltas] == [str(at)]
        rig.answer()


def test_the_next_one_waits_for_more_to_share_it() -> None:
    """A write is answered early. What comes after it waits until its time, and then goes in one write."""
    rig = Rig(counter(), options=LINGER)
    rig.feed(click("r1"), at=100)
    rig.answer(at=400)
    assert rig.feed(click("r2", "cat"), at=500) == []
    assert rig.wakes[0] == 1_100
    assert rig.feed(click("r3", "owl"), at=600) == []
    assert rig.feed(outside_acks(FIRST), at=700) == []
    assert rig.feed(Wake(), at=1_100) == [
        wrote(
            rig,
            counted(2, 1, "r2", key="cat"),
            counted(3, 1, "r3", key="owl"),
            delivered=(("dog", FIRST, ""),),
        )
    ]


def test_records_of_one_key_share_a_step() -> None:
    rig = Rig(counter(), options=LINGER)
    rig.settle(click("r1"))
    rig.feed(click("r2"), at=100)
    rig.feed(click("r3"), at=200)
    assert rig.feed(Wake(), at=1_000) == [wrote(rig, counted(2, 3, "r2", "r3"))]


def test_a_full_write_waits_no_longer() -> None:
    rig = Rig(counter(), options=LINGER)
    rig.settle(click("r1"))
    for number, key in enumerate(["ant", "bee", "cow"], 2):
        rig.feed(click(f"r{number}", key), at=number)
    assert [delta.key for delta in rig.write().deltas] == ["ant", "bee", "cow"]


def test_an_answer_that_comes_after_the_time_lets_the_next_one_go() -> None:
    rig = Rig(counter(), options=replace(LINGER, commits_in_flight=1))
    rig.feed(click("r1"))
    assert rig.feed(click("r2", "cat"), at=300) == []
    assert rig.answer(at=2_000) == [
        ack("r1"),
        sent(result(FIRST, 1)),
        wrote(rig, counted(2, 1, "r2", key="cat")),
    ]


def test_a_clock_that_is_put_back_lengthens_no_wait() -> None:
    rig = Rig(counter(), options=LINGER)
    rig.settle(click("r1"), at=10**6)
    rig.feed(click("r2", "cat"), at=10**6)
    assert rig.feed(Wake(), at=500) == []
    assert rig.wakes[0] == 1_500
    assert rig.feed(Wake(), at=1_500) == [wrote(rig, counted(2, 1, "r2", key="cat"))]


def test_weak_productions_do_not_wait() -> None:
    """User code runs and its productions are sent at once; only the write lingers, when they are ACKed."""
    rig = Rig(counter(productions=Productions.WEAK), options=LINGER)
    rig.settle(click("r1"))
    rig.settle(outside_acks("r1>counter#0"))
    made = result("r2>counter#0", 2)
    assert rig.feed(click("r2"), at=100) == [sent(made)]
    assert rig.feed(outside_acks(made.record_id), at=200) == []
    assert rig.wakes[0] == 1_000
    assert rig.feed(Wake(), at=1_000) == [wrote(rig, RowDelta("dog", 2, state=b'{"n":2}', seen=(("r2", 1),)))]


def test_a_deletion_that_is_due_goes_with_the_step_that_lingers() -> None:
    rig = Rig(counter(), options=replace(LINGER, delete_delay_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST), at=10)
    rig.feed(click("r2", "cat"), at=20)
    rig.feed(Wake(), at=150)
    assert rig.open == []
    assert rig.feed(Wake(), at=1_000)[0] == wrote(
        rig, counted(2, 1, "r2", key="cat"), delivered=(("dog", FIRST, ""),)
    )


def test_a_deletion_alone_lingers_no_longer_than_it_may() -> None:
    rig = Rig(counter(), options=replace(LINGER, delete_delay_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    rig.settle(outside_acks(FIRST), at=10)
    rig.feed(Wake(), at=150)
    (deletion,) = rig.open
    assert isinstance(deletion, Write)
    assert (deletion.deltas, deletion.delivered) == ((), (("dog", FIRST, ""),))
