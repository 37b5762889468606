"""The rules of duplicates, steps, productions, timers and recovery, each as a table of its answers."""

from typing import Any

import pytest

from headrace import Clock
from headrace.rules import RULES, Act
from headrace.wire.rows import Production, RowDelta, RowImage, StoredTimer, Version
from tests.core.rules_table import answers, ask

VERSION = Version(3, 7)
PRODUCTION = Production("letters/0:7", "letters", "senders", "ab", b"1", 20, 5)
OTHER = Production("letters/0:8", "letters", "senders", "ac", b"2", 21, 6)


def timer(tag: str, due: int, clock: Clock = Clock.WATERMARK, *, overdue: bool = False) -> StoredTimer:
    return StoredTimer(tag, due, clock, due, overdue, None, VERSION, 5)


# Duplicates (6.1.1)


@answers("remembers", ((True,), True), ((False,), False))
def test_a_computation_deduplicates_unless_exactly_once_is_disabled(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


def test_a_copy_joins_the_record_that_is_being_processed() -> None:
    assert RULES.joins_copy()


@answers("is_remnant", ((19, 20), True), ((20, 20), False), ((21, 20), False))
def test_a_delivery_from_before_the_horizon_is_a_remnant(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


def test_a_hit_of_the_filter_is_looked_up_in_the_row() -> None:
    assert RULES.must_check_row()


@answers("is_duplicate", ((True,), True), ((False,), False))
def test_a_record_is_a_duplicate_if_the_row_has_its_id(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


def test_a_duplicate_is_acked() -> None:
    assert RULES.acks_duplicate()


@answers("collects_below", ((20, 0), 20), ((20, 5), 15))
def test_ids_are_collected_below_the_horizon_less_the_slack(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


# A step, its write, and what follows (6.1.1, 6.2)


def test_a_key_waits_for_the_write_of_its_last_step() -> None:
    assert RULES.locks_key()


@answers("must_read", ((True,), True), ((False,), False))
def test_a_row_is_read_if_the_store_has_it(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers(
    "ends_step",
    ((timer("a", 20), 20, 0), True),
    ((timer("a", 21), 20, 0), False),
    ((timer("a", 21), 20, 99), False),
    ((timer("a", 20, Clock.WALL), 0, 20), True),
    ((timer("a", 21, Clock.WALL), 99, 20), False),
)
def test_a_timer_that_is_due_by_its_own_clock_ends_the_step_that_sets_it(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


FULL = RowDelta(
    "ab", 7, b"state", 20, (timer("a", 20),), ("b",), (timer("c", 19),), (("letters/0:7", 5),), (PRODUCTION,)
)


@answers("written", ((RowDelta("ab", 7),), RowDelta("ab", 7)), ((FULL,), FULL))
def test_a_write_holds_all_that_a_step_changes(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers(
    "needs_write",
    ((True, True, True), True),
    ((True, True, False), True),
    ((True, False, True), True),
    ((True, False, False), True),
    ((False, True, True), True),
    ((False, True, False), False),
    ((False, False, True), False),
    ((False, False, False), False),
)
def test_a_step_is_written_if_it_has_changes_or_ids_to_remember(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers(
    "order",
    ((True,), (Act.RUN, Act.COMMIT, Act.ACK, Act.SEND)),
    ((False,), (Act.RUN, Act.SEND, Act.AWAIT, Act.COMMIT, Act.ACK)),
)
def test_strong_productions_are_sent_after_the_commit_and_weak_ones_before(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


def test_the_records_of_a_refused_write_are_not_acked() -> None:
    assert not RULES.acks_refused()


# Productions (6.1.1-6.1.3)


@answers("recipients", ((["a", "b"],), ["a", "b"]), (([],), []))
def test_a_record_goes_to_all_that_subscribe_to_its_stream(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers(
    "id_prefix",
    (("senders", VERSION, "letters/0:7", True), "senders@3.7"),
    (("senders", VERSION, "letters/0:7", False), "letters/0:7>senders"),
)
def test_strong_productions_are_named_after_the_version_and_weak_ones_after_their_cause(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers("first_ordinal", ((4, True), 4), ((4, False), 0), ((0, True), 0))
def test_productions_of_one_version_share_a_count(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("is_straggler", ((99, 100), False), ((100, 100), True), ((101, 100), True))
def test_a_step_straggles_when_the_delay_has_passed(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("checkpointed", (((),), ()), (((PRODUCTION, OTHER),), (PRODUCTION, OTHER)))
def test_all_stragglers_are_checkpointed(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


def test_the_checkpoint_of_an_acked_production_is_deleted() -> None:
    assert RULES.deletes_checkpoint()


@answers("settled_by", (("a", ("a", "b")), ("a",)), (("a", ()), ("a",)))
def test_an_ack_settles_the_copy_of_its_own_consumer(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("retries", ((True,), True), ((False,), True))
def test_workers_and_injectors_retry(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("retried", ((PRODUCTION, 1), PRODUCTION), ((PRODUCTION, 9), PRODUCTION))
def test_a_retry_sends_the_same_record_under_the_same_id(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


# Timers (4.6, 6.2)


@answers("due", ((30, 20), 30), ((20, 20), 20), ((10, 20), 20))
def test_a_timer_is_due_at_its_timestamp_or_at_once(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@pytest.mark.parametrize("recovered", [True, False])
@pytest.mark.parametrize("overdue", [True, False])
def test_every_timer_enters_the_heap(*, overdue: bool, recovered: bool) -> None:
    assert RULES.queues(timer("a", 20, overdue=overdue), recovered)


@answers("may_fire", ((19, 20), True), ((20, 20), True), ((21, 20), False))
def test_a_timer_fires_once_its_clock_has_reached_it(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers(
    "in_order",
    (([timer("a", 21), timer("b", 20)],), [timer("b", 20), timer("a", 21)]),
    (([timer("b", 20), timer("a", 20)],), [timer("a", 20), timer("b", 20)]),
    (([timer("a", 20, overdue=True), timer("b", 20)],), [timer("b", 20), timer("a", 20, overdue=True)]),
    (([],), []),
)
def test_timers_fire_by_due_time_then_overdue_ones_last_then_by_tag(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers("most_firings", ((1,), 1), ((1_000,), 1_000))
def test_a_step_fires_as_many_timers_as_it_has_room_for(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


def test_the_timers_without_room_fire_in_the_next_step() -> None:
    assert RULES.fires_rest()


@answers(
    "origin_of_firing", ((5, 20, True), 20), ((20, 5, True), 20), ((5, 20, False), 5), ((20, 5, False), 20)
)
def test_what_a_strong_timer_produces_is_as_new_as_the_horizon(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


# Recovery (6.1.2, 6.2, 7.1)


def test_a_new_owner_scans() -> None:
    assert RULES.scans_first()


@answers("continues_scan", (("k",), True), (("",), True), ((None,), False))
def test_a_scan_continues_as_long_as_there_are_pages(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


IMAGE = RowImage("ab", VERSION, b"state", 20, (timer("a", 20),), (PRODUCTION,), (("letters/0:7", 5),))


@answers("may_run_during_scan", ((True,), True), ((False,), False))
def test_during_a_scan_a_key_runs_once_its_row_is_known(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("takes_scanned", ((True,), False), ((False,), True))
def test_a_scan_brings_only_rows_that_are_not_known(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("read_during_scan", ((IMAGE,), IMAGE))
def test_a_read_during_a_scan_recovers_the_whole_row(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("recovered", ((IMAGE,), IMAGE))
def test_a_scan_recovers_the_whole_row(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer
