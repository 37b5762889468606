"""What every verification reports about user code: findings, and relations between runs."""

import contextlib
import ctypes
import os
import time
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from headrace import SECOND, Computation, Context, DeadLetter, Pipeline, Record
from headrace.dataflow import AtCount, FixedWindows, Repeat, Trigger, read
from headrace_properties.findings import FindingClass
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search import apart
from headrace_properties.search.limits import CodeLimits
from headrace_properties.user_code import metamorphic
from headrace_properties.user_code import review as reviewing
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.metamorphic import ARRIVAL, REFERENCE, RELATIONS, REPLAY
from headrace_properties.user_code.review import DECLARED, NOT_ASKED, NOTED, PERMITTED, RECORDS, review
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import Feed, FeedBuilder
from tests.planted import hash_buckets, hash_key, set_order
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


def test_state_outside_the_row_is_a_finding_and_a_violated_verdict() -> None:
    found = review(*of(Remembering()))
    (finding,) = found.findings
    assert habit_of(finding) in (Habit.SHARES_STATE, Habit.KEEPS_STATE)
    assert len(finding.trial.kept) <= 2
    assert found.of(FindingClass.VIOLATED) == found.findings


def test_only_the_beginning_of_a_long_input_is_examined() -> None:
    pipeline, feed = of(Remembering(), records=RECORDS + 1)
    assert feed.records > RECORDS
    assert review(pipeline, feed).findings


def test_nothing_is_known_about_stopped_runs() -> None:
    relations = review(*of(Failing())).relations
    assert {type(relation) for relation in relations.values()} == {Unknown}


# Findings and relations are parts of one report


class Lots(Computation):
    """Uses randomness."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = _LOTS.random()


_LOTS = Random(1)


class SecondOfThree(Computation):
    """Tells its second record: which one that is depends on the order, of three and not of two."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["seen"] = context.state.get("seen", 0) + 1
        if context.state["seen"] == 2:
            context.produce("out", record.value)


def test_no_relation_is_known_for_code_that_uses_randomness() -> None:
    found = review(*of(Lots()))
    assert [habit_of(finding) for finding in found.findings] == [Habit.USES_CHANCE]
    assert {type(relation) for relation in found.relations.values()} == {Unknown}


def test_no_relation_holds_for_code_whose_memory_a_crash_would_wipe_out() -> None:
    found = review(*of(Remembering()))
    assert found.findings
    assert not any(isinstance(relation, Holds) for relation in found.relations.values())


def test_a_finding_about_order_agrees_with_the_arrival_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the orders that the cluster tries do not show it."""
    monkeypatch.setattr(metamorphic, "_SEEDS", ())
    found = review(*of(SecondOfThree()))
    assert Habit.DEPENDS_ON_ORDER in [habit_of(finding) for finding in found.findings]
    assert isinstance(found.relations[ARRIVAL], Violated)


def relation_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cluster say that faults change the output of two records, or of more."""

    def check(_pipeline: Pipeline, feed: Feed, **_: object) -> dict[str, Verdict]:
        if feed.records < 2:
            return {"faults": Holds(1), ARRIVAL: Holds(1)}
        message = f"faults change nothing: {feed.records} outputs differ"
        return {"faults": Violated(message, ()), ARRIVAL: Holds(1)}

    monkeypatch.setattr(reviewing, "check_relations", check)


def test_a_relation_that_only_the_cluster_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    relation_broken(monkeypatch)
    (finding,) = review(*of(Memo())).findings
    assert habit_of(finding) is Habit.DEPENDS_ON_FAULTS
    assert len(finding.trial.kept) == 2
    assert "it does not hold that faults change nothing: 2 outputs differ" in str(finding)


@pytest.mark.parametrize(
    ("code", "asked"), [(SecondOfThree(), Habit.DEPENDS_ON_ORDER), (Memo(), Habit.DEPENDS_ON_SCHEDULE)]
)
def test_a_question_about_order_hides_no_step_that_comes_to_something_else_when_repeated(
    code: Computation, asked: Habit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the code by itself shows that it depends on the order, or only the cluster."""

    def check(_pipeline: Pipeline, feed: Feed, **_: object) -> dict[str, Verdict]:
        broken = Violated(f"{feed.records} outputs differ", ())
        return {ARRIVAL: broken, REPLAY: broken}

    monkeypatch.setattr(reviewing, "check_relations", check)
    found = review(*of(code))
    assert [habit_of(finding) for finding in found.of(FindingClass.VIOLATED)] == [Habit.DEPENDS_ON_FAULTS]
    assert [habit_of(finding) for finding in found.of(FindingClass.UNDECLARED)] == [asked]


@pytest.mark.parametrize(
    "declared",
    [
        {"ordered": True},
        {"nondeterministic": "tells the time"},
        {"exactly_once": False},
        {"watermark_percentile": 90.0},
    ],
    ids=lambda declared: next(iter(declared)),
)
def test_a_broken_relation_is_no_finding_where_it_is_declared(
    declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    relation_broken(monkeypatch)
    pipeline, feed = of(Memo())
    found = review(pipeline.with_computation("code", **declared), feed)
    assert found.findings == ()
    assert isinstance(found.relations["faults"], Unknown)


def test_ids_in_dead_letters_are_no_dependence_on_order() -> None:
    workload = late_refusal()
    found = review(workload.pipeline, workload.feed(1), options=workload.options)
    assert found.findings == ()
    assert isinstance(found.relations[ARRIVAL], Holds)


# In a separate process


class Vanishing(Computation):
    """Ends its process silently, with an error of its code in C."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == 2:
            ctypes.string_at(0)


class Exiting(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value == 2:
            os._exit(0)


class Stubborn(Computation):
    """Never ends, and cannot be interrupted."""

    def process_record(self, context: Context, record: Record) -> None:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(60)


def test_code_that_ends_its_process_is_a_finding_with_the_call() -> None:
    (finding,) = review(*of(Vanishing())).findings
    assert habit_of(finding) is Habit.ENDS_PROCESS
    assert "killed by signal SIGSEGV" in finding.message
    assert finding.story[0].startswith("It was called for record 2 of key 'a'")


def test_code_that_asks_the_system_to_end_its_process_is_a_finding_with_its_line() -> None:
    (finding,) = review(*of(Exiting())).findings
    assert habit_of(finding) is Habit.ENDS_PROCESS
    assert "it calls os._exit(0), which ends a worker" in finding.message
    assert finding.place is not None
    assert finding.place.function == "Exiting.process_record"


def test_code_that_cannot_be_interrupted_is_ended_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_PATIENCE_S", 0.3)
    (finding,) = review(*of(Stubborn()), limits=CodeLimits(call_s=0.1)).findings
    assert habit_of(finding) is Habit.NEVER_ENDS
    assert finding.story[0].startswith("It was called for record 0 of key 'a'")


class Greedy(Computation):
    """Asks for more memory than there is to have."""

    def process_record(self, context: Context, record: Record) -> None:
        bytearray(1 << 31)


def test_code_that_takes_too_much_memory_is_a_finding() -> None:
    (finding,) = review(*of(Greedy(), records=1)).findings
    assert habit_of(finding) is Habit.RAISES
    assert "MemoryError" in finding.message


class Ticking(Computation):
    """Takes its time, but not in one call."""

    def process_record(self, context: Context, record: Record) -> None:
        time.sleep(0.02)


def test_code_that_takes_long_in_many_calls_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor while no call is told on the board, as in the runs that are compared."""
    monkeypatch.setattr(apart, "_PATIENCE_S", 0.1)
    assert review(*of(Ticking(), records=2), limits=CodeLimits(call_s=0.5)).findings == ()


@pytest.mark.parametrize("module", [hash_buckets, hash_key, set_order])
def test_dependence_on_hash_values_is_a_finding(module: ModuleType) -> None:
    feeds = {seed: module.feed(seed) for seed in range(2)}
    (finding,) = review(module.pipeline, feeds).findings
    assert habit_of(finding) is Habit.USES_HASHES
    assert len(finding.trial.kept) == 1
    assert review(module.mended, feeds).findings == ()


def test_why_no_runs_are_compared_is_what_the_code_does() -> None:
    assert set(review(*of(Failing())).relations.values()) == {Unknown("the code raises an exception")}


class FailsOnOddFirst(Computation):
    """Takes its first record only if it is even."""

    def process_record(self, context: Context, record: Record) -> None:
        if not context.state and record.value % 2:
            raise ValueError(record.value)
        context.state["begun"] = True


def test_an_order_that_decides_what_fails_is_told_in_words() -> None:
    pipeline, feed = of(FailsOnOddFirst())
    (finding,) = review(pipeline.with_computation("code", on_failure=DeadLetter("dead")), feed).findings
    assert habit_of(finding) is Habit.DEPENDS_ON_ORDER
    assert any(": ValueError for key '" in told for told in finding.story), finding.story


@pytest.mark.parametrize(
    ("trigger", "told"),
    [
        (Repeat(AtCount(2)), "what they settle to is compared"),
        (
            AtCount(2),
            "they are not compared, since not everything that is made of them settles: promise what must come of them",
        ),
    ],
)
def test_a_grouping_that_goes_by_arrival_is_told_as_the_layers(trigger: Trigger, told: str) -> None:
    windows = read("in").window_into(FixedWindows(SECOND)).trigger(trigger, allow_unsafe_triggers=True)
    pipeline = windows.accumulating().sum(name="totals").to("out").pipeline("counted")
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, key="a", value=1, timestamp=SECOND)
    why = "the trigger or engine of 'totals' goes by arrival, and so do its panes"
    assert review(pipeline, builder.build()).noted(DECLARED) == (f"{why}: {told}",)


def test_an_effect_of_a_key_extractor_is_found(tmp_path: Path) -> None:
    def key(record: Record) -> str:
        (tmp_path / "keys").write_text(record.key)
        return record.key

    pipeline, feed = of(Computation())
    (stream,) = pipeline.computations["code"].inputs
    (finding,) = review(pipeline.with_computation("code", inputs={stream: key}), feed).findings
    assert (habit_of(finding), len(finding.trial.kept)) == (Habit.HAS_EFFECTS, 1)
    assert finding.place is not None
    assert finding.place.function.endswith(".key")


class Careless(Computation):
    """Sends what no codec takes, and carries on."""

    def process_record(self, context: Context, record: Record) -> None:
        with contextlib.suppress(Exception):
            context.produce("out", object())


def test_code_that_swallows_what_its_context_refuses_is_told_but_not_accused() -> None:
    found = review(*of(Careless()))
    assert found.findings == ()
    (line,) = found.noted(NOTED)
    assert line.startswith("'code' goes on although its context refused something, on record 0 of key 'a'")
    assert "JsonCodec() cannot write this value" in line


def test_a_pipeline_outside_any_module_lists_skipped_checks() -> None:
    (why,) = review(*of(Memo())).noted(NOT_ASKED)
    assert "no importable module defines the pipeline" in why


def test_declarations_and_permitted_effects_are_listed() -> None:
    pipeline, feed = of(Remembering())
    declared = pipeline.with_computation(
        "code", nondeterministic="numbers records", ordered=True, exactly_once=False
    )
    found = review(declared, feed)
    assert found.findings == ()
    assert [line.partition(": ")[2] for line in found.noted(DECLARED)] == ["", "numbers records"]
    assert found.noted(PERMITTED) == (
        "'code' has exactly_once=False: a record that is retried takes effect once more",
    )
