"""Planted bugs in user code are found, told apart, and shown by a few records."""

import random
from typing import Any

import pytest

from headrace import MILLISECOND, Computation, Context, Pipeline, Record
from headrace.wire.effects import SourceRecord
from headrace_properties.user_code.findings import Habit, UserFinding, examine
from headrace_scenarios import zeitgeist
from headrace_sim import Feed, FeedBuilder
from tests.sim.rig import letters, mail

SENT: list[int] = []


class Sum(Computation):
    """Sound: adds up in its state."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + record.value
        self.note(context, record)

    def note(self, context: Context, record: Record) -> None:
        """What the planted bugs do besides."""


class SumOnSelf(Computation):
    """Adds up on ``self``, for all keys together."""

    def __init__(self) -> None:
        self.total = 0

    def process_record(self, context: Context, record: Record) -> None:
        self.total += record.value
        context.produce("out", self.total)


class CountOnSelf(Computation):
    """Keeps each key's count on ``self``: no two keys meet, but a crash loses it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def process_record(self, context: Context, record: Record) -> None:
        self.counts[context.key] = self.counts.get(context.key, 0) + 1
        context.produce("out", self.counts[context.key])


class Guess(Sum):
    """Lets chance into its output."""

    def note(self, context: Context, record: Record) -> None:
        context.produce("out", random.random())


class Newest(Computation):
    """Keeps the record that came last, and not the one with the greatest timestamp."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = record.value


class Mailer(Sum):
    """Tells the world outside of each record by itself."""

    def note(self, context: Context, record: Record) -> None:
        SENT.append(record.value)


class Backdater(Sum):
    """Stamps what it makes of large numbers with an earlier time."""

    def note(self, context: Context, record: Record) -> None:
        context.produce("out", 1, timestamp=record.timestamp - (record.value > 12))


def numbers(computation: Computation) -> tuple[Pipeline, Feed]:
    """Twenty numbers for three keys."""
    pipeline = Pipeline("numbers")
    pipeline.injector("in")
    pipeline.add(computation, name="planted", inputs=["in"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    for number in range(20):
        at_us = (number + 1) * 10 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="abc"[number % 3])
        if number % 5 == 4:
            builder.watermark(at_us=at_us, low_watermark=at_us)
    return pipeline, builder.build()


def found(computation: Computation) -> UserFinding:
    """The only finding."""
    findings = examine(*numbers(computation))
    assert len(findings) == 1, findings
    return findings[0]


def values(finding: UserFinding) -> list[Any]:
    return [int(entry.event.value) for entry in finding.feed.entries if isinstance(entry.event, SourceRecord)]


def test_nothing_is_found_in_sound_code() -> None:
    assert examine(*numbers(Sum())) == []
    assert examine(mail(), letters(mail(), 30)) == []
    assert examine(zeitgeist.pipeline, zeitgeist.feed(1)) == []


@pytest.mark.parametrize(
    ("planted", "habit", "records"),
    [
        (SumOnSelf(), Habit.SHARES_STATE, 2),
        (CountOnSelf(), Habit.KEEPS_STATE, 2),
        (Guess(), Habit.NOT_DETERMINISTIC, 1),
        (Newest(), Habit.DEPENDS_ON_ORDER, 2),
        (Mailer(), Habit.HAS_EFFECTS, 1),
        (Backdater(), Habit.GOES_BACK, 1),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Computation) else "",
)
def test_a_planted_bug_is_found_and_shown_by_the_fewest_records(
    planted: Computation, habit: Habit, records: int
) -> None:
    finding = next(one for one in examine(*numbers(planted)) if one.habit is habit)
    assert finding.feed.records == records
    assert habit.value in str(finding)
    assert f"shown by {'one record' if records == 1 else f'{records} records'}" in str(finding)


def test_an_effect_outside_is_named() -> None:
    assert found(Mailer()).detail == "a call changed SENT"


def test_a_production_that_goes_back_is_shown_by_the_record_that_causes_it() -> None:
    finding = found(Backdater())
    assert "planted" in finding.detail
    assert values(finding) > [12]


def test_examining_code_leaves_its_objects_alone() -> None:
    planted = CountOnSelf()
    examine(*numbers(planted))
    assert planted.counts == {}
