"""Outcomes are compared by what they hold: fields, objects, and lists by whether anybody reads them in their order."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from headrace import (
    SECOND,
    Computation,
    Context,
    Pipeline,
    Record,
    Timer,
    TypedCodec,
)
from headrace_properties.user_code.examiner import examine
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_sim import Feed, FeedBuilder
from tests.properties.user_code.numbers import numbers


@dataclass
class Sums:
    """A state in which the order of arrival decides the last digits, the list's order and, perhaps, the set's."""

    total: float = 0.0
    came: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


class SumsStruct(msgspec.Struct):
    """The same as a struct."""

    total: float = 0.0
    came: list[int] = []
    seen: set[str] = set()


class Adding(Computation):
    """Sound: adds up fractions.

    Args:
        kind: of its state.
    """

    def __init__(self, kind: type[Sums] | type[SumsStruct]) -> None:
        self.kind = kind

    def initial_state(self) -> Any:
        return self.kind()

    def process_record(self, context: Context, record: Record) -> None:
        state = context.state
        state.total += record.value / 10 + 0.07
        state.came.append(record.value)
        state.seen.add(f"number {record.value}")


@pytest.mark.parametrize("kind", [Sums, SumsStruct])
def test_the_fields_of_a_state_are_compared_as_values_are(kind: type[Sums] | type[SumsStruct]) -> None:
    assert examine(*numbers(Adding(kind), state_codec=TypedCodec(kind))) == []


class Box:
    """An object whose text is its address."""

    def __init__(self, value: int) -> None:
        self.value = value


class PickleCodec:
    """Writes any object."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)  # noqa: S301  its own


class Boxing(Computation):
    """Sound: adds up in an object, and produces others."""

    def initial_state(self) -> Any:
        return Box(0)

    def process_record(self, context: Context, record: Record) -> None:
        context.state.value += record.value
        context.produce("out", Box(record.value))


def test_objects_without_a_text_are_compared_by_what_they_hold() -> None:
    pipeline, feed = numbers(Boxing(), state_codec=PickleCodec())
    pipeline.stream("out", PickleCodec())
    assert examine(pipeline, feed) == []


class Listing(Computation):
    """Lists the numbers as they come, and sends the list at the end."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = [*(context.state or []), record.value]
        context.set_timer("end", at=SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("listed", context.state)
        context.clear_state()


class Reading(Computation):
    """Sends on what a function reads from each list."""

    def __init__(self, read: Callable[[list[int]], int]) -> None:
        self.read = read

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("out", self.read(record.value))


@pytest.mark.parametrize("read", [sum, max, len])
def test_a_list_that_nobody_reads_in_its_order_may_be_in_any(read: Callable[[list[int]], int]) -> None:
    assert examine(*read_lists(read)) == []


@pytest.mark.parametrize(
    "read", [lambda values: values[0], lambda values: sum(values[:2])], ids=["first", "two"]
)
def test_a_list_that_is_read_in_its_order_is_a_finding(read: Callable[[list[int]], int]) -> None:
    (finding,) = examine(*read_lists(read))
    assert (habit_of(finding), finding.subject) == (Habit.DEPENDS_ON_ORDER, "lists")


def read_lists(read: Callable[[list[int]], int]) -> tuple[Pipeline, Feed]:
    pipeline = Pipeline("lists")
    pipeline.injector("in")
    pipeline.add(Listing(), name="lists", inputs=["in"], outputs=["listed"])
    pipeline.add(Reading(read), name="reads", inputs=["listed"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    for number in range(12):
        builder.record(at_us=number, value=(number * 7) % 12, timestamp=number, key="ab"[number % 2])
    builder.watermark(at_us=20, low_watermark=2 * SECOND)
    return pipeline, builder.build()


def test_fields_that_differ_are_a_finding() -> None:
    class Latest(Adding):
        def process_record(self, context: Context, record: Record) -> None:
            context.state.total = record.value

    (finding,) = examine(*numbers(Latest(Sums), state_codec=TypedCodec(Sums)))
    assert habit_of(finding) is Habit.DEPENDS_ON_ORDER
    assert "state Sums(total=" in " ".join(finding.sentences)
