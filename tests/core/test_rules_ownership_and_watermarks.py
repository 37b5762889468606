"""The rules of the store, of low watermarks, injectors, ownership, the topology and the cache, each as a table of its answers."""

from typing import Any

import pytest

from headrace import MAX_TIME, MIN_TIME, Eviction, KeyInterval
from headrace.rules import RULES, Change, Leaving, Work
from headrace.wire.messages import Progress
from tests.core.rules_table import answers, ask

M_TO_T = KeyInterval("m", "t")
FROM_M = KeyInterval("m")


# The store (6.2, 7.1)


@answers(
    "is_valid",
    ((None, "m", "m"), False),
    ((M_TO_T, "m", "m"), True),
    ((M_TO_T, "m", "s"), True),
    ((M_TO_T, "m", "t"), False),
    ((M_TO_T, "l", "s"), False),
    ((FROM_M, "m", "zebra"), True),
    ((FROM_M, "", "zebra"), False),
)
def test_a_sequencer_is_valid_for_keys_of_its_interval_until_it_is_invalidated(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


@answers(
    "is_applied",
    (((3, 7), (3, 7)), True),
    (((3, 6), (3, 7)), True),
    (((3, 8), (3, 7)), False),
    (((4, 1), (3, 7)), False),
    (((2, 9), (3, 7)), True),
)
def test_a_row_has_taken_what_is_not_newer_than_its_last_write(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@pytest.mark.parametrize("change", Change)
def test_whatever_a_mint_does_to_an_interval_it_invalidates_its_sequencer(change: Change) -> None:
    assert RULES.invalidates(change)


@answers("next_sequencer", ((5, None), 5), ((5, 2), 5))
def test_each_assignment_gets_a_sequencer_of_its_own(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("takes_report", ((True,), True), ((False,), False))
def test_only_the_latest_owners_report_is_journaled(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("may_claim", ((0, 0), True), ((3, 3), True), ((3, 4), False))
def test_a_role_is_claimed_by_who_has_seen_its_latest_epoch(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("is_fenced", ((4, 4), False), ((3, 4), True))
def test_a_holder_is_fenced_once_it_has_a_successor(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


# Low watermarks (4.5, 7.2)


@pytest.mark.parametrize("work", [work for work in Work if work is not Work.FIRING])
@pytest.mark.parametrize(("timestamp", "holds"), [(20, True), (21, True), (19, False)])
def test_all_pending_work_that_is_not_late_holds_the_watermark(
    work: Work, timestamp: int, *, holds: bool
) -> None:
    assert RULES.holds_watermark(work, timestamp, 20) is holds


@pytest.mark.parametrize("work", [work for work in Work if work is not Work.STATE])
@pytest.mark.parametrize(("origin", "holds"), [(20, True), (21, True), (19, False)])
def test_all_that_makes_records_holds_the_horizon_but_a_strong_timer(
    work: Work, origin: int, *, holds: bool
) -> None:
    assert RULES.holds_horizon(work, origin, 20) is (holds and work is not Work.TIMER)


@answers(
    "low_watermark",
    ((MIN_TIME, 30, 40), 30),
    ((MIN_TIME, 40, 30), 30),
    ((35, 40, 30), 35),
    ((MIN_TIME, MAX_TIME, MAX_TIME), MAX_TIME),
)
def test_a_low_watermark_is_the_minimum_of_oldest_work_and_input_and_monotonic(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers("input_watermark", (([],), MAX_TIME), (([5],), 5), (([7, 3, 9],), 3), (([7, MIN_TIME],), MIN_TIME))
def test_the_watermark_of_an_input_is_the_minimum_over_its_senders(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers(
    "counts_as_sender",
    ((True, False), True),
    ((False, True), True),
    ((True, True), True),
    ((False, False), False),
)
def test_all_that_may_still_send_count_as_senders(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("is_late", ((19, 20), True), ((20, 20), False), ((21, 20), False))
def test_a_record_is_late_if_it_is_behind_the_watermark(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("may_report", ((True,), True), ((False,), False))
def test_an_owner_reports_an_interval_once_it_has_scanned_it(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("is_newer", ((4, 3), True), ((3, 3), False), ((2, 3), False))
def test_a_report_replaces_that_of_an_older_owner_only(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("reported", ((30, 20), 30), ((30, 29), 30))
def test_a_report_that_was_overtaken_takes_nothing_back(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("value_of_missing", ((MIN_TIME,), MIN_TIME), ((30,), 30))
def test_a_missing_interval_has_its_last_known_value(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


def test_values_are_journaled_before_they_are_broadcast() -> None:
    assert RULES.journals_first()


@answers(
    "merged",
    ((Progress(30, 3), Progress(40, 4)), Progress(40, 4)),
    ((Progress(30, 3), Progress(20, 4)), Progress(30, 4)),
    ((Progress(30, 3), Progress(40, 2)), Progress(40, 3)),
    ((Progress(30, 3, ((80.0, 50),)), Progress(30, 3, ((80.0, 45),))), Progress(30, 3, ((80.0, 50),))),
)
def test_nothing_that_is_known_of_progress_goes_back(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("advanced", ((30, 40), 40), ((30, 20), 30), ((30, 30), 30))
def test_an_observers_watermark_never_goes_back(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers(
    "outliers",
    ((80, 10), 2),
    ((80, 9), 1),
    ((99.9, 999), 0),
    ((99.9, 1_000), 1),
    ((100, 50), 0),
    ((99, 0), 0),
)
def test_a_percentile_leaves_its_share_of_outliers_behind_and_no_more(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


# Injectors (5.2, 8.4)


@answers("injected_id", (("mail/0", 7, 1), "mail/0:7"), (("mail/0", 7, 2), "mail/0:7"))
def test_every_reader_names_a_record_by_its_place(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers("stamp", ((30, 30), 30), ((30, 99), 30))
def test_every_reader_stamps_a_record_with_its_arrival_at_the_source(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers("resumes_at", ((3, 9), 3), ((9, 9), 9))
def test_a_successor_reads_on_from_the_oldest_unfinished_record(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) == answer


@answers(
    "may_inject", ((30, 20, 10), True), ((31, 20, 10), False), ((5, 20, 0), True), ((0, MIN_TIME, 10), False)
)
def test_a_record_waits_as_long_as_it_is_more_than_the_limit_ahead(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


# Ownership and topology (3, 7.1)


@answers("is_owner", ((2, 2), True), ((2, 1), False))
def test_an_assignment_is_for_one_incarnation(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("is_lost", ((99, 100), False), ((100, 100), False), ((101, 100), True))
def test_a_process_is_lost_when_it_has_been_silent_for_longer_than_the_time_out(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


@answers("is_orphan", ((True, False), True), ((False, True), True), ((False, False), False))
def test_an_interval_whose_owner_is_silent_or_has_lost_its_memory_gets_another(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


@answers("may_lead", ((99, 100), False), ((100, 100), True))
def test_a_standby_claims_a_role_after_a_lease_without_renewal(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("weight", ((7, 0, 100, 1_000), 7), ((7, 80, 100, 1_000), 8), ((7, 79, 100, 1_000), 7))
def test_an_interval_weighs_its_records_or_its_cpu_time_whichever_is_more(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer


@answers("is_overloaded", ((100, 100), False), ((101, 100), True), ((3, 2.5), True))
def test_more_than_the_most_is_too_much(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("is_relief", ((4, 5), True), ((5, 5), False))
def test_a_move_is_a_relief_if_the_new_owner_has_less_than_the_old_one_had(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) is answer


@answers("is_idle", ((4, 5), True), ((5, 5), False))
def test_neighbours_with_less_than_the_least_are_idle(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("adopts_version", ((True,), True), ((False,), True))
def test_every_process_goes_by_the_version_that_is_announced(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("may_switch", ((True,), True), ((False,), False))
def test_a_version_comes_into_force_when_all_know_of_it(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers("may_remove", ((True,), True), ((False,), False))
def test_a_retiring_computation_leaves_when_it_has_drained(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


# The cache (8.3)


@answers("may_evict", ((True,), False), ((False,), True))
def test_a_row_in_use_stays_in_the_cache(rule: str, asked: Any, answer: Any) -> None:
    assert ask(rule, asked) is answer


@answers(
    "eviction_order",
    ((Eviction.LRU,), (Leaving.LEAST_RECENTLY_USED,)),
    ((Eviction.BOUNDARY,), (Leaving.SPENT, Leaving.FURTHEST_BOUNDARY, Leaving.LEAST_RECENTLY_USED)),
)
def test_by_boundary_spent_rows_leave_first_and_then_those_that_wait_longest(
    rule: str, asked: Any, answer: Any
) -> None:
    assert ask(rule, asked) == answer
