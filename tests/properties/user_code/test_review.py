"""What every verification says of the user's code: findings, bugs among them, and relations between runs."""

from random import Random

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_properties.search.workloads import WORKLOADS
from headrace_properties.user_code import metamorphic
from headrace_properties.user_code.findings import Habit
from headrace_properties.user_code.metamorphic import ARRIVAL, REFERENCE, RELATIONS, REPLAY
from headrace_properties.user_code.review import RECORDS, review
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import Feed, FeedBuilder
from tests.properties.user_code.test_metamorphic import late_refusal


class Memo(Computation):
    """Keeps what it has computed before: harmless."""

    def __init__(self) -> None:
        self.squares: dict[int, int] = {}

    def process_record(self, context: Context, record: Record) -> None:
        if record.value not in self.squares:
            self.squares[record.value] = record.value**2
        context.produce("out", self.squares[record.value])


class Remembering(Computation):
    """Numbers records in its own memory."""

    def __init__(self) -> None:
        self.seen = 0

    def process_record(self, context: Context, record: Record) -> None:
        self.seen += 1
        context.produce("out", self.seen)


class Failing(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        raise ValueError(record.value)


def of(computation: Computation, records: int = 6) -> tuple[Pipeline, Feed]:
    pipeline = Pipeline("reviewed")
    pipeline.injector("records")
    pipeline.add(computation, name="code", inputs=["records"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    for number in range(records):
        at_us = SECOND + number * SECOND // 10
        builder.record(at_us=at_us, value=number % 3, timestamp=at_us, key="ab"[number % 2])
    return pipeline, builder.build()


def test_code_that_keeps_to_its_context_has_no_finding_and_every_relation_holds() -> None:
    workload = WORKLOADS["tallies"]
    found = review(workload.pipeline, workload.feed(0), options=workload.options)
    assert found.findings == ()
    assert {type(relation) for relation in found.relations.values()} == {Holds}
    assert found.relations.keys() == {*(relation.name for relation in RELATIONS), REFERENCE, REPLAY}


def test_a_cache_whose_contents_do_not_show_is_no_finding() -> None:
    assert review(*of(Memo())).findings == ()


def test_memory_of_its_own_is_a_finding_and_a_violated_verdict() -> None:
    found = review(*of(Remembering()))
    (finding,) = found.findings
    assert finding.habit in (Habit.SHARES_STATE, Habit.KEEPS_STATE)
    assert finding.feed.records <= 2
    assert found.verdicts == {finding.habit.verdict_name: finding.verdict}


def test_of_a_long_input_only_the_beginning_is_looked_at() -> None:
    pipeline, feed = of(Remembering(), records=RECORDS + 1)
    assert feed.records > RECORDS
    assert review(pipeline, feed).findings


def test_nothing_is_known_of_runs_that_stop() -> None:
    relations = review(*of(Failing())).relations
    assert {type(relation) for relation in relations.values()} == {Unknown}


# Findings and relations are parts of one report


class Lots(Computation):
    """Draws lots."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = _LOTS.random()


_LOTS = Random(1)


class SecondOfThree(Computation):
    """Tells its second record: which one that is depends on the order, of three and not of two."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["seen"] = context.state.get("seen", 0) + 1
        if context.state["seen"] == 2:
            context.produce("out", record.value)


def test_no_relation_is_known_of_code_that_draws_lots() -> None:
    found = review(*of(Lots()))
    assert [finding.habit for finding in found.findings] == [Habit.USES_CHANCE]
    assert {type(relation) for relation in found.relations.values()} == {Unknown}


def test_no_relation_holds_for_code_whose_memory_a_crash_would_wipe_out() -> None:
    found = review(*of(Remembering()))
    assert found.findings
    assert not any(isinstance(relation, Holds) for relation in found.relations.values())


def test_a_finding_about_order_is_what_the_relation_of_arrival_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the orders that the cluster tries do not show it."""
    monkeypatch.setattr(metamorphic, "_SEEDS", ())
    found = review(*of(SecondOfThree()))
    assert Habit.DEPENDS_ON_ORDER in [finding.habit for finding in found.findings]
    assert isinstance(found.relations[ARRIVAL], Violated)


def test_ids_in_dead_letters_are_no_dependence_on_order() -> None:
    workload = late_refusal()
    found = review(workload.pipeline, workload.feed(1), options=workload.options)
    assert found.findings == ()
    assert isinstance(found.relations[ARRIVAL], Holds)
