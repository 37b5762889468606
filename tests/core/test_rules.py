"""Each rule of the protocol as a table of its answers."""

import ast
import inspect
import textwrap
from typing import Any

import pytest

from headrace import MAX_TIME, MIN_TIME, Clock, Eviction, KeyInterval
from headrace.rules import RULES, Act, Change, Leaving, Rules, Work
from headrace.wire.messages import Progress
from headrace.wire.rows import Production, RowDelta, RowImage, StoredTimer, Version

VERSION = Version(3, 7)
PRODUCTION = Production("letters/0:7", "letters", "senders", "ab", b"1", 20, 5)
OTHER = Production("letters/0:8", "letters", "senders", "ac", b"2", 21, 6)
M_TO_T = KeyInterval("m", "t")
FROM_M = KeyInterval("m")


def timer(tag: str, due: int, clock: Clock = Clock.WATERMARK, *, overdue: bool = False) -> StoredTimer:
    return StoredTimer(tag, due, clock, due, overdue, None, VERSION, 5)


FULL = RowDelta(
    "ab", 7, b"state", 20, (timer("a", 20),), ("b",), (timer("c", 19),), (("letters/0:7", 5),), (PRODUCTION,)
)
IMAGE = RowImage("ab", VERSION, b"state", 20, (timer("a", 20),), (PRODUCTION,), (("letters/0:7", 5),))

RULINGS: tuple[tuple[Any, ...], ...] = (
    # Duplicates (6.1.1)
    ("a computation deduplicates unless exactly once is disabled", "remembers", ((True,), True), ((False,), False)),
    ("a copy joins the record that is being processed", "joins_copy", ((), True)),
    ("a delivery from before the horizon is a remnant", "is_remnant", ((19, 20), True), ((20, 20), False), ((21, 20), False)),
    ("a hit of the filter is looked up in the row", "must_check_row", ((), True)),
    ("a record is a duplicate if the row has its id", "is_duplicate", ((True,), True), ((False,), False)),
    ("a duplicate is acked", "acks_duplicate", ((), True)),
    ("ids are collected below the horizon less the slack", "collects_below", ((20, 0), 20), ((20, 5), 15)),
    # A step, its write, and what follows (6.1.1, 6.2)
    ("a key waits for the write of its last step", "locks_key", ((), True)),
    ("a row is read if the store has it", "must_read", ((True,), True), ((False,), False)),
    ("a timer that is due by its own clock ends the step that sets it", "ends_step", ((timer("a", 20), 20, 0), True),
        ((timer("a", 21), 20, 0), False), ((timer("a", 21), 20, 99), False), ((timer("a", 20, Clock.WALL), 0, 20), True),
        ((timer("a", 21, Clock.WALL), 99, 20), False)),
    ("a write holds all that a step changes", "written", ((RowDelta("ab", 7),), RowDelta("ab", 7)), ((FULL,), FULL)),
    ("a step is written if it has changes or ids to remember", "needs_write", ((True, True, True), True),
        ((True, True, False), True), ((True, False, True), True), ((True, False, False), True), ((False, True, True), True),
        ((False, True, False), False), ((False, False, True), False), ((False, False, False), False)),
    ("strong productions are sent after the commit and weak ones before", "order",
        ((True,), (Act.RUN, Act.COMMIT, Act.ACK, Act.SEND)), ((False,), (Act.RUN, Act.SEND, Act.AWAIT, Act.COMMIT, Act.ACK))),
    ("the records of a refused write are not acked", "acks_refused", ((), False)),
    # Productions (6.1.1-6.1.3)
    ("a record goes to all that subscribe to its stream", "recipients", ((["a", "b"],), ["a", "b"]), (([],), [])),
    ("strong productions are named after the version and weak ones after their cause", "id_prefix",
        (("senders", VERSION, "letters/0:7", True), "senders@3.7"),
        (("senders", VERSION, "letters/0:7", False), "letters/0:7>senders")),
    ("productions of one version share a count", "first_ordinal", ((4, True), 4), ((4, False), 0), ((0, True), 0)),
    ("a step straggles when the delay has passed", "is_straggler", ((99, 100), False), ((100, 100), True), ((101, 100), True)),
    ("all stragglers are checkpointed", "checkpointed", (((),), ()), (((PRODUCTION, OTHER),), (PRODUCTION, OTHER))),
    ("the checkpoint of an acked production is deleted", "deletes_checkpoint", ((), True)),
    ("an ack settles the copy of its own consumer", "settled_by", (("a", ("a", "b")), ("a",)), (("a", ()), ("a",))),
    ("workers and injectors retry", "retries", ((True,), True), ((False,), True)),
    ("a retry sends the same record under the same id", "retried", ((PRODUCTION, 1), PRODUCTION),
        ((PRODUCTION, 9), PRODUCTION)),
    # Timers (4.6, 6.2)
    ("a timer is due at its timestamp or at once", "due", ((30, 20), 30), ((20, 20), 20), ((10, 20), 20)),
    ("a timer fires once its clock has reached it", "may_fire", ((19, 20), True), ((20, 20), True), ((21, 20), False)),
    ("timers fire by due time then overdue ones last then by tag", "in_order",
        (([timer("a", 21), timer("b", 20)],), [timer("b", 20), timer("a", 21)]),
        (([timer("b", 20), timer("a", 20)],), [timer("a", 20), timer("b", 20)]),
        (([timer("a", 20, overdue=True), timer("b", 20)],), [timer("b", 20), timer("a", 20, overdue=True)]), (([],), [])),
    ("a step fires as many timers as it has room for", "most_firings", ((1,), 1), ((1_000,), 1_000)),
    ("the timers without room fire in the next step", "fires_rest", ((), True)),
    ("what a strong timer produces is as new as the horizon", "origin_of_firing", ((5, 20, True), 20), ((20, 5, True), 20),
        ((5, 20, False), 5), ((20, 5, False), 20)),
    # Recovery (6.1.2, 6.2, 7.1)
    ("a new owner scans", "scans_first", ((), True)),
    ("a scan continues as long as there are pages", "continues_scan", (("k",), True), (("",), True), ((None,), False)),
    ("during a scan a key runs once its row is known", "may_run_during_scan", ((True,), True), ((False,), False)),
    ("a scan brings only rows that are not known", "takes_scanned", ((True,), False), ((False,), True)),
    ("a read during a scan recovers the whole row", "read_during_scan", ((IMAGE,), IMAGE)),
    ("a scan recovers the whole row", "recovered", ((IMAGE,), IMAGE)),
    # The store (6.2, 7.1)
    ("a sequencer is valid for keys of its interval until it is invalidated", "is_valid", ((None, "m", "m"), False),
        ((M_TO_T, "m", "m"), True), ((M_TO_T, "m", "s"), True), ((M_TO_T, "m", "t"), False), ((M_TO_T, "l", "s"), False),
        ((FROM_M, "m", "zebra"), True), ((FROM_M, "", "zebra"), False)),
    ("a row has taken what is not newer than its last write", "is_applied", (((3, 7), (3, 7)), True),
        (((3, 6), (3, 7)), True), (((3, 8), (3, 7)), False), (((4, 1), (3, 7)), False), (((2, 9), (3, 7)), True)),
    ("each assignment gets a sequencer of its own", "next_sequencer", ((5, None), 5), ((5, 2), 5)),
    ("only the latest owners report is journaled", "takes_report", ((True,), True), ((False,), False)),
    ("a role is claimed by who has seen its latest epoch", "may_claim", ((0, 0), True), ((3, 3), True), ((3, 4), False)),
    ("a holder is fenced once it has a successor", "is_fenced", ((4, 4), False), ((3, 4), True)),
    # Low watermarks (4.5, 7.2)
    ("a low watermark is the minimum of oldest work and input and monotonic", "low_watermark", ((MIN_TIME, 30, 40), 30),
        ((MIN_TIME, 40, 30), 30), ((35, 40, 30), 35), ((MIN_TIME, MAX_TIME, MAX_TIME), MAX_TIME)),
    ("the watermark of an input is the minimum over its senders", "input_watermark", (([],), MAX_TIME), (([5],), 5),
        (([7, 3, 9],), 3), (([7, MIN_TIME],), MIN_TIME)),
    ("all that may still send count as senders", "counts_as_sender", ((True, False), True), ((False, True), True),
        ((True, True), True), ((False, False), False)),
    ("a record is late if it is behind the watermark", "is_late", ((19, 20), True), ((20, 20), False), ((21, 20), False)),
    ("an owner reports an interval once it has scanned it", "may_report", ((True,), True), ((False,), False)),
    ("a report replaces that of an older owner only", "is_newer", ((4, 3), True), ((3, 3), False), ((2, 3), False)),
    ("a report that was overtaken takes nothing back", "reported", ((30, 20), 30), ((30, 29), 30)),
    ("a missing interval has its last known value", "value_of_missing", ((MIN_TIME,), MIN_TIME), ((30,), 30)),
    ("values are journaled before they are broadcast", "journals_first", ((), True)),
    ("nothing that is known of progress goes back", "merged", ((Progress(30, 3), Progress(40, 4)), Progress(40, 4)),
        ((Progress(30, 3), Progress(20, 4)), Progress(30, 4)), ((Progress(30, 3), Progress(40, 2)), Progress(40, 3)),
        ((Progress(30, 3, ((80.0, 50),)), Progress(30, 3, ((80.0, 45),))), Progress(30, 3, ((80.0, 50),)))),
    ("an observers watermark never goes back", "advanced", ((30, 40), 40), ((30, 20), 30), ((30, 30), 30)),
    ("a percentile leaves its share of outliers behind and no more", "outliers", ((80, 10), 2), ((80, 9), 1),
        ((99.9, 999), 0), ((99.9, 1_000), 1), ((100, 50), 0), ((99, 0), 0)),
    # Injectors (5.2, 8.4)
    ("every reader names a record by its place", "injected_id", (("mail/0", 7, 1), "mail/0:7"),
        (("mail/0", 7, 2), "mail/0:7")),
    ("every reader stamps a record with its arrival at the source", "stamp", ((30, 30), 30), ((30, 99), 30)),
    ("a successor reads on from the oldest unfinished record", "resumes_at", ((3, 9), 3), ((9, 9), 9)),
    ("a record waits as long as it is more than the limit ahead", "may_inject", ((30, 20, 10), True), ((31, 20, 10), False),
        ((5, 20, 0), True), ((0, MIN_TIME, 10), False)),
    # Ownership and topology (3, 7.1)
    ("an assignment is for one incarnation", "is_owner", ((2, 2), True), ((2, 1), False)),
    ("a process is lost when it has been silent for longer than the time out", "is_lost", ((99, 100), False),
        ((100, 100), False), ((101, 100), True)),
    ("an interval whose owner is silent or has lost its memory gets another", "is_orphan", ((True, False), True),
        ((False, True), True), ((False, False), False)),
    ("a standby claims a role after a lease without renewal", "may_lead", ((99, 100), False), ((100, 100), True)),
    ("an interval weighs its records or its cpu time whichever is more", "weight", ((7, 0, 100, 1_000), 7),
        ((7, 80, 100, 1_000), 8), ((7, 79, 100, 1_000), 7)),
    ("more than the most is too much", "is_overloaded", ((100, 100), False), ((101, 100), True), ((3, 2.5), True)),
    ("a move is a relief if the new owner has less than the old one had", "is_relief", ((4, 5), True), ((5, 5), False)),
    ("neighbours with less than the least are idle", "is_idle", ((4, 5), True), ((5, 5), False)),
    ("every process goes by the version that is announced", "adopts_version", ((True,), True), ((False,), True)),
    ("a version comes into force when all know of it", "may_switch", ((True,), True), ((False,), False)),
    ("a retiring computation leaves when it has drained", "may_remove", ((True,), True), ((False,), False)),
    # The cache (8.3)
    ("a row in use stays in the cache", "may_evict", ((True,), False), ((False,), True)),
    ("by boundary spent rows leave first and then those that wait longest", "eviction_order",
        ((Eviction.LRU,), (Leaving.LEAST_RECENTLY_USED,)),
        ((Eviction.BOUNDARY,), (Leaving.SPENT, Leaving.FURTHEST_BOUNDARY, Leaving.LEAST_RECENTLY_USED))),
)  # fmt: skip
"""The claim, the rule, and what it is asked with its answer, for each case."""


@pytest.mark.parametrize(
    ("rule", "asked", "answer"),
    [
        pytest.param(rule, *case, id=f"{claim}: {number}")
        for claim, rule, *cases in RULINGS
        for number, case in enumerate(cases)
    ],
)
def test_a_rule_answers_as_the_paper_says(rule: str, asked: tuple[Any, ...], answer: Any) -> None:
    given = getattr(RULES, rule)(*asked)
    assert (given, type(given)) == (answer, type(answer))


def test_every_rule_is_asked() -> None:
    apart = {"queues", "invalidates", "holds_watermark", "holds_horizon"}
    rules = {name for name in vars(Rules) if not name.startswith("_")}
    assert apart | {rule for _, rule, *_ in RULINGS} == rules


def test_the_rules_that_return_a_constant_say_that_they_are_seams_for_mutants() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Rules)))
    rules = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    constant = [
        rule.name
        for rule in rules
        if isinstance(rule.body[-1], ast.Return) and isinstance(rule.body[-1].value, ast.Constant)
    ]
    assert constant == [
        rule.name for rule in rules if "A seam for mutants." in (ast.get_docstring(rule) or "")
    ]


@pytest.mark.parametrize("recovered", [True, False])
@pytest.mark.parametrize("overdue", [True, False])
def test_every_timer_enters_the_heap(*, overdue: bool, recovered: bool) -> None:
    assert RULES.queues(timer("a", 20, overdue=overdue), recovered)


@pytest.mark.parametrize("change", Change)
def test_whatever_a_mint_does_to_an_interval_it_invalidates_its_sequencer(change: Change) -> None:
    assert RULES.invalidates(change)


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
