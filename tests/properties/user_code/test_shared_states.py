"""Code that leaves something in a shared state that its codec does not read back as it was is found, and no other."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import (
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Record,
    Timer,
    TypedCodec,
)
from headrace_properties.user_code.examiner import examine
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.review import NOTED, review
from headrace_sim import Feed, FeedBuilder
from tests.properties.user_code.numbers import Note, numbers


@dataclass
class Total:
    """A state that a codec reads as it says here, whatever was written."""

    value: float = 0.0
    by_name: dict[str, int] = field(default_factory=dict)
    twice: list[list[int]] = field(default_factory=list)


class Totals(Computation):
    """Computes on a `Total`.

    Args:
        note: what it does for each record.
        first: value of the initial state.
    """

    def __init__(self, note: Note, first: float = 0.0) -> None:
        self.note, self.first = note, first

    def initial_state(self) -> Total:
        return Total(self.first)

    def process_record(self, context: Context, record: Record) -> None:
        self.note(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", type(context.state.value).__name__)


def add_ints(context: Context, record: Record) -> None:
    context.state.value += record.value
    context.produce("out", context.state.value)


def count(context: Context, record: Record) -> None:
    state = context.state
    if not state.by_name:
        state.by_name = Counter()
    state.by_name[f"{record.value}"] += 1


def alias(context: Context, record: Record) -> None:
    state = context.state
    if not state.twice:
        state.twice = [[]] * 2
    state.twice[0].append(record.value)
    context.produce("out", len(state.twice[1]))


def add_and_tell_much(context: Context, record: Record) -> None:
    context.state.value += record.value
    context.produce("out", context.state.value > 100)


def count_in_a_copy(context: Context, record: Record) -> None:
    context.state.by_name = Counter(context.state.by_name)
    count(context, record)


def set_a_timer(context: Context, record: Record) -> None:
    context.state.value = record.value
    context.set_timer("tell", at=record.timestamp)


def totals(note: Note, first: float = 0.0, **switches: Any) -> tuple[Pipeline, Feed]:
    """A computation whose runs share the state."""
    return numbers(
        Totals(note, first), state_codec=TypedCodec(Total), share_state=True, ordered=True, **switches
    )


@pytest.mark.parametrize(
    ("note", "first", "outcomes"),
    [
        (add_ints, 0, ("5.0 on 'out', state Total(value=5.0", "5 on 'out', state Total(value=5.0")),
        (count, 0.0, ("KeyError: '3'", "state Total(")),
        (alias, 0.0, ("1 on 'out'", "2 on 'out'")),
    ],
    ids=["int for float", "Counter for dict", "alias"],
)
def test_what_a_shared_state_hides_is_a_finding(note: Note, first: float, outcomes: tuple[str, str]) -> None:
    (finding,) = examine(*totals(note, first, on_failure=DeadLetter("dead")))
    assert habit_of(finding) is Habit.NOT_READ_BACK
    assert len(finding.trial.kept) == 2
    for told, begins in zip(finding.story[1:3], outcomes, strict=True):
        assert f": {begins}" in told


@pytest.mark.parametrize(
    ("note", "first"),
    [(add_and_tell_much, 0), (count_in_a_copy, 0.0), (set_a_timer, 0.0)],
    ids=["shows in nothing", "read back first", "a step ends before the timer that it sets"],
)
def test_what_makes_no_difference_to_a_shared_state_is_no_finding(note: Note, first: float) -> None:
    assert examine(*totals(note, first)) == []


def test_a_step_runs_for_timers_first() -> None:
    """The state that a record leaves is read before the next timer runs, and a timer leaves it to the records."""

    def tell_and_set(context: Context, record: Record) -> None:
        context.produce("out", type(context.state.value).__name__)
        context.set_timer("tell", at=record.timestamp + 1)

    class Leaves(Totals):
        def process_timer(self, context: Context, timer: Timer) -> None:
            context.state.value = int(context.state.value)

    pipeline, feed = totals(tell_and_set)
    pipeline = pipeline.with_computation("planted", computation=Leaves(tell_and_set))
    (finding,) = examine(pipeline, feed)
    assert habit_of(finding) is Habit.NOT_READ_BACK
    assert finding.story[0].startswith("It was called for record ")


def test_the_next_timer_reads_what_a_record_or_a_timer_has_left() -> None:
    """The second timer that a record sets fires after the record behind the first; what a timer sets fires in a later step."""

    def set_two(context: Context, record: Record) -> None:
        context.state.value = record.value
        for wait in (0, 100) if record.value == 0 else ():
            context.set_timer(f"after {wait}", at=record.timestamp + wait * MILLISECOND)

    class Telling(Totals):
        def process_timer(self, context: Context, timer: Timer) -> None:
            super().process_timer(context, timer)
            if timer.tag.endswith("100"):
                context.state.value = int(context.state.value)
                context.set_timer(f"{timer.tag} more", at=timer.timestamp)

    pipeline, _ = totals(set_two)
    pipeline = pipeline.with_computation("planted", computation=Telling(set_two))
    builder = FeedBuilder(pipeline)
    for number in range(2):
        at_us = (1 + number) * 200 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us + 1, low_watermark=at_us + 50 * MILLISECOND)
        builder.record(at_us=at_us + 2, value=number + 10, timestamp=at_us + 60 * MILLISECOND, key="a")
    builder.watermark(at_us=SECOND, low_watermark=SECOND)
    assert examine(pipeline, builder.build()) == []


def test_a_call_that_fails_on_a_shared_state_is_run_again_with_a_copy() -> None:
    def refuse_int(context: Context, record: Record) -> None:
        if context.state.value and type(context.state.value) is int:
            raise ValueError("int")
        context.state.value += record.value

    assert examine(*totals(refuse_int, 0)) == []

    def add_and_fail(context: Context, record: Record) -> None:
        context.state.value += record.value
        context.produce("out", context.state.value)
        if record.value % 4 == 1:
            raise ValueError("nothing of this counts")

    assert examine(*totals(add_and_fail, on_failure=DeadLetter("dead"))) == []


class Pairs(Computation):
    """Keeps pairs in a state that JSON encodes. ``note``: what it does for each record."""

    def __init__(self, note: Note) -> None:
        self.note = note

    def process_record(self, context: Context, record: Record) -> None:
        self.note(context, record)


def look_for_a_tuple(context: Context, record: Record) -> None:
    seen = context.state.setdefault("seen", [])
    if (context.key, record.value % 2) not in seen:
        seen.append((context.key, record.value % 2))
        context.produce("out", record.value)


def unpack_tuples(context: Context, record: Record) -> None:
    seen = context.state.setdefault("seen", [])
    seen.append((context.key, record.value))
    context.produce("out", sum(value for _, value in seen))


def read_back_as_text(context: Context, record: Record) -> None:
    if "at" in context.state:
        datetime.fromisoformat(context.state["at"])
    context.state["at"] = datetime(2026, 1, 1, tzinfo=UTC)


def number_as_a_key(context: Context, record: Record) -> None:
    counts = context.state.setdefault("counts", {})
    counts[record.value % 2] = counts.get(record.value % 2, 0) + 1
    context.produce("out", counts[record.value % 2])


def first_that_came(context: Context, record: Record) -> None:
    seen = context.state.setdefault("seen", {})
    seen[str(9 - record.value % 10)] = True
    context.produce("out", next(iter(seen)))


def all_in_a_list(context: Context, record: Record) -> None:
    seen = context.state.setdefault("seen", {})
    seen[str(9 - record.value % 10)] = True
    context.produce("out", [*seen])


@pytest.mark.parametrize("note", [look_for_a_tuple, number_as_a_key, first_that_came])
def test_code_that_goes_by_what_a_codec_makes_of_its_state_is_a_finding(note: Note) -> None:
    (finding,) = examine(*numbers(Pairs(note), ordered=True), only=Habit.NOT_READ_BACK)
    assert "does not read back as it was" in finding.sentences[0]
    assert finding.sentences[-1].startswith("Leave only what the codec reads back unchanged")
    assert len(finding.trial.kept) <= 3


@pytest.mark.parametrize("note", [unpack_tuples, read_back_as_text, all_in_a_list])
def test_code_whose_outcome_does_not_depend_on_what_a_codec_makes_of_its_state_is_not_accused(
    note: Note,
) -> None:
    found = review(*numbers(Pairs(note), ordered=True))
    assert found.findings == ()
    assert found.noted(NOTED) == ()
