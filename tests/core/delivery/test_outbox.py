"""What was sent and not ACKed (MillWheel 6.1.1)."""

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import KeyInterval
from headrace.api.time import MAX_TIME
from headrace.delivery.outbox import Outbox
from headrace.delivery.routing import NOWHERE, Routing
from headrace.wire.messages import Assignment, Table
from headrace.wire.rows import Production

RETRY_US, RETRY_MAX_US = 200, 1_000


def production(record_id: str, consumer: str = "counter", key: str = "dog") -> Production:
    return Production(record_id, "clicks", consumer, key, b"", timestamp=0, origin=0)


def outbox_of(now: int, *record_ids: str) -> Outbox[str]:
    outbox: Outbox[str] = Outbox(RETRY_US, RETRY_MAX_US)
    for record_id in record_ids:
        outbox.add(now, production(record_id), f"holder of {record_id}")
    return outbox


def ids_due(outbox: Outbox[str], now: int) -> list[str]:
    found = [pending.production.record_id for pending in outbox.due(now)]
    outbox.check_invariants()
    return found


def routing_with(*sequencers: int) -> Routing:
    """One interval ["", "m") and one ["m", end) of "counter", all of one owner."""
    intervals = (KeyInterval("", "m"), KeyInterval("m", None))
    assignments = (
        Assignment("counter", interval, sequencer, "worker-0", 1)
        for interval, sequencer in zip(intervals, sequencers, strict=True)
    )
    return Routing(Table(1, 0, (), tuple(assignments)))


def test_pauses_between_sends_double_up_to_the_longest_and_never_end() -> None:
    outbox = outbox_of(0, "a")
    sends: list[int] = []
    while len(sends) < 6:
        due_us = outbox.next_due()
        assert ids_due(outbox, due_us - 1) == []
        assert ids_due(outbox, due_us) == ["a"]
        sends.append(due_us)
    assert sends == [200, 600, 1_400, 2_400, 3_400, 4_400]


def test_what_waits_behind_an_acked_production_is_sent_again() -> None:
    outbox = outbox_of(0, "a", "b")
    assert ids_due(outbox, RETRY_US) == ["a", "b"]
    outbox.acked("counter", "a")
    assert ids_due(outbox, 3 * RETRY_US) == ["b"]


def test_what_is_added_on_a_clock_that_was_set_back_waits_behind_all_others() -> None:
    outbox = outbox_of(0, "a")
    for now, record_id in ((50, "b"), (20, "c")):
        outbox.add(now, production(record_id), "")
    outbox.check_invariants()
    assert ids_due(outbox, RETRY_US + 49) == ["a"]
    assert ids_due(outbox, RETRY_US + 50) == ["b", "c"]


def test_who_made_an_acked_production_is_free_as_soon_as_all_before_it_are_acked() -> None:
    class Step: ...

    outbox: Outbox[Step] = Outbox(RETRY_US, RETRY_MAX_US)
    step = Step()
    outbox.add(0, production("a"), Step())
    outbox.add(0, production("b"), step)
    freed = weakref.ref(step)
    del step
    outbox.acked("counter", "b")
    outbox.acked("counter", "a")
    assert freed() is None, "an ACKed production is kept until the next retry is due"
    outbox.check_invariants()


def test_attempts_are_counted() -> None:
    outbox = outbox_of(0, "a")
    pending = outbox.find("counter", "a")
    assert pending is not None
    assert pending.attempts == 1
    outbox.due(200)
    assert pending.attempts == 2


def test_an_acked_record_is_returned_once_with_its_holder_and_never_sent_again() -> None:
    outbox = outbox_of(0, "a", "b")
    pending = outbox.acked("counter", "a")
    assert pending is not None
    assert (pending.holder, pending.done) == ("holder of a", True)
    assert outbox.acked("counter", "a") is None
    assert (len(outbox), [entry.holder for entry in outbox]) == (1, ["holder of b"])
    assert ids_due(outbox, 10_000) == ["b"]


def test_one_consumers_ack_leaves_the_others_pending() -> None:
    outbox = outbox_of(0, "a")
    outbox.add(0, production("a", consumer="sorter"), "other")
    assert outbox.acked("nobody", "a") is None
    outbox.acked("counter", "a")
    assert outbox.find("counter", "a") is None
    assert outbox.find("nobody", "a") is None
    assert [pending.holder for pending in outbox.due(200)] == ["other"]


def test_a_discarded_record_is_not_sent_again_and_discarding_twice_is_harmless() -> None:
    outbox = outbox_of(0, "a")
    pending = outbox.find("counter", "a")
    assert pending is not None
    outbox.discard(pending)
    outbox.add(0, production("a"), "successor")
    outbox.discard(pending)
    assert [pending.holder for pending in outbox.due(200)] == ["successor"]


def test_the_same_record_cannot_be_pending_twice() -> None:
    outbox = outbox_of(0, "a")
    with pytest.raises(AssertionError, match="a is already pending at 'counter'"):
        outbox.add(0, production("a"), "again")


def test_the_next_due_time_skips_finished_records_and_considers_all_pauses() -> None:
    outbox = outbox_of(0, "a", "b")
    assert ids_due(outbox, 200) == ["a", "b"]
    outbox.add(350, production("c"), "")
    assert outbox.next_due() == 550
    outbox.acked("counter", "c")
    assert outbox.next_due() == 600
    outbox.acked("counter", "a")
    assert outbox.next_due() == 600
    outbox.acked("counter", "b")
    assert outbox.next_due() == MAX_TIME


def test_records_whose_interval_has_a_new_sequencer_are_due_at_once_and_begin_anew() -> None:
    """Two records wait for a long pause. Then the interval of one is minted anew, for the same worker: its queue is gone."""
    outbox: Outbox[str] = Outbox(RETRY_US, RETRY_MAX_US)
    outbox.add(0, production("a", key="dog"), "")
    outbox.add(0, production("z", key="zebra"), "")
    for now in (200, 600, 1_400):
        outbox.due(now)
    resent = outbox.resend_to_changed(1_500, routing_with(1, 2), routing_with(3, 2))
    outbox.check_invariants()
    assert [pending.production.record_id for pending in resent] == ["a"]
    assert [pending.attempts for pending in resent] == [1]
    assert ids_due(outbox, 1_700) == ["a"]
    assert ids_due(outbox, 2_400) == ["a", "z"]


def test_records_that_waited_for_the_first_table_are_due_when_it_arrives() -> None:
    outbox = outbox_of(0, "a", "b")
    outbox.acked("counter", "b")
    resent = outbox.resend_to_changed(10, NOWHERE, routing_with(1, 2))
    assert [pending.production.record_id for pending in resent] == ["a"]
    assert outbox.next_due() == 210


def test_when_the_clock_is_put_back_nothing_waits_longer_than_its_pause() -> None:
    outbox = outbox_of(10_000, "a", "b")
    outbox.acked("counter", "b")
    outbox.due(10_200)
    outbox.add(10_300, production("c"), "")
    outbox.set_clock_back(50)
    outbox.check_invariants()
    assert outbox.next_due() == 250
    assert ids_due(outbox, 250) == ["c"]
    assert ids_due(outbox, 450) == ["a"]
    outbox.set_clock_back(440)
    assert outbox.next_due() == 650


def test_a_clock_that_was_put_back_leaves_the_order_of_sending() -> None:
    outbox = outbox_of(1_000, "a")
    outbox.add(500, production("b"), "")
    outbox.check_invariants()
    assert outbox.next_due() == 1_200
    assert ids_due(outbox, 1_200) == ["a", "b"]
    outbox.add(100, production("c"), "")
    assert ids_due(outbox, 300) == ["c"]
    assert ids_due(outbox, 1_600) == ["a", "b", "c"]
    outbox.resend_to_changed(10, NOWHERE, routing_with(1, 1))
    outbox.check_invariants()


def test_owed_records_are_counted_only_for_consumers_that_are_owed_some() -> None:
    outbox = outbox_of(0, "a", "b")
    outbox.add(0, production("a", consumer="sorter"), "")
    assert outbox.owing(("sorter", "counter", "nobody")) == (("sorter", 1), ("counter", 2))
    outbox.acked("sorter", "a")
    assert outbox.owing(("sorter", "counter")) == (("counter", 2),)


Step = tuple[str, int]
steps = st.lists(st.tuples(st.sampled_from(["add", "ack", "due", "move"]), st.integers(0, 9)), max_size=60)


@given(steps=steps)
def test_whatever_happens_each_pending_record_is_due_when_a_plain_list_says_so(steps: list[Step]) -> None:
    outbox: Outbox[None] = Outbox(RETRY_US, RETRY_MAX_US)
    due_us: dict[str, int] = {}
    pauses_us: dict[str, int] = {}
    now, sequencer = 0, 1
    for number, (verb, argument) in enumerate(steps):
        now += argument * 70
        match verb:
            case "add":
                outbox.add(now, production(f"r{number}", key="dog" if argument % 2 else "zebra"), None)
                due_us[f"r{number}"], pauses_us[f"r{number}"] = now + RETRY_US, RETRY_US
            case "ack" if due_us:
                record_id = list(due_us)[argument % len(due_us)]
                assert outbox.acked("counter", record_id) is not None
                del due_us[record_id]
            case "due":
                found = {pending.production.record_id for pending in outbox.due(now)}
                assert found == {record_id for record_id, at_us in due_us.items() if at_us <= now}
                for record_id in found:
                    pauses_us[record_id] = min(pauses_us[record_id] * 2, RETRY_MAX_US)
                    due_us[record_id] = now + pauses_us[record_id]
            case "move":
                before, after = routing_with(sequencer, 0), routing_with(sequencer + 1, 0)
                sequencer += 1
                moved = [
                    pending.production.record_id for pending in outbox.resend_to_changed(now, before, after)
                ]
                assert sorted(moved) == sorted(
                    none.production.record_id for none in outbox if none.production.key == "dog"
                )
                for record_id in moved:
                    due_us[record_id], pauses_us[record_id] = now + RETRY_US, RETRY_US
            case _:
                pass
        outbox.check_invariants()
        assert len(outbox) == len(due_us)
        assert outbox.next_due() == min(due_us.values(), default=MAX_TIME)
