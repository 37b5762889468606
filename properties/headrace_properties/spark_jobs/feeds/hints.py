"""What a query's plan says about its input: how values are written, and what they are compared with."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import types as t

from headrace_properties.spark_jobs.feeds.slots import InputSlot, SlotForm, Use
from headrace_sim.spark.columns.ddl import interval_us
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.spark_job import StreamSource

Term = Any
"""A column in terms of slots: a `Recorded` tree, a plain value; None: unknown."""


Conditions = tuple[tuple[Recorded, bool], ...]
"""Columns of slots, each with whether it is to be true."""


@dataclass(frozen=True, slots=True)
class RowGoal:
    """What some row should meet."""

    conditions: Conditions  # all of them at once
    # whether a row is added for it; otherwise a row that is drawn anyway meets it if it can
    needed: bool = True


@dataclass(frozen=True, slots=True)
class ColumnScope:
    """The columns of a relation, and the filters that its rows have passed."""

    columns: tuple[tuple[str, str, Term], ...] | None  # qualifier, name and term of each; None: unknown
    passed: Conditions = ()  # the filters
    group_size: InputSlot | None = None  # while the rows of a group are aggregated: how many there are

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for _, name, _ in self.columns or ()]

    def named(self, names: Iterable[str], qualifier: str = "") -> "ColumnScope":
        """Return it with other names, by place."""
        pairs = zip(names, self.columns or (), strict=False)
        return replace(self, columns=tuple((qualifier, name, term) for name, (_, _, term) in pairs))

    def find(self, name: str) -> tuple[Term, list[str]]:
        """Return the term of a column, and the names of the fields within it that are meant."""
        first, *inner = [quoted or plain for quoted, plain in re.findall(r"`([^`]+)`|([^.`]+)", name.lower())]
        for qualifier, column, term in self.columns or ():
            if inner and qualifier == first and column.lower() == inner[0]:
                return term, inner[1:]
        terms = [term for _, column, term in self.columns or () if column.lower() == first]
        return (terms[0] if terms else None), inner


@dataclass(slots=True)
class Hints:
    """What a plan says about its sources."""

    rows: dict[str, InputSlot] = field(default_factory=dict)  # the row of each source
    slots: dict[str, InputSlot] = field(default_factory=dict)  # all slots, by name
    goals: list[RowGoal] = field(default_factory=list)  # what some rows should meet
    # all filters, for each stream that reaches the end
    through: list[Conditions] = field(default_factory=list)
    windows_us: set[int] = field(default_factory=set)  # the lengths of windows, in microseconds
    delays_us: set[int] = field(default_factory=set)  # the delays of watermarks
    # how many rows of a group have the same values, by the slot of the source's row: what thresholds of counts ask for
    group_sizes: dict[str, InputSlot] = field(default_factory=dict)

    @property
    def tell(self) -> bool:
        """Whether they tell more than the schemas."""
        return bool(self.goals) or any(slot.written or slot.counted for slot in self.slots.values())

    def of(self, term: Term) -> InputSlot | None:
        """Return the slot that a term is, if it is one."""
        is_name = isinstance(term, Recorded) and term.name == "col"
        return self.slots.get(term.args[0]) if is_name else None

    def want(self, conditions: Conditions, *, needed: bool = True) -> None:
        """Add a goal."""
        self.goals.append(RowGoal(conditions, needed))

    def timed(self, slot: InputSlot | None, texts: Iterable[Any], spans_us: set[int]) -> None:
        """Note that a slot is an event time, and the intervals among some texts."""
        if slot is not None:
            slot.uses.add(Use.EVENT_TIME)
        spans_us.update(span for text in texts if isinstance(text, str) and (span := interval_us(text)))

    def keyed(self, terms: Iterable[Term]) -> None:
        """Note that rows are grouped or matched by some columns."""
        for term in terms:
            slot = self.of(term)
            if slot is not None and not slot.is_time:
                slot.uses.add(Use.KEY)

    def distinct(self, terms: Iterable[Term]) -> None:
        """Note that values of some columns count once."""
        for slot in map(self.of, terms):
            if slot is not None and not slot.is_time:
                slot.uses.add(Use.DISTINCT)

    def group_size(self, scope: ColumnScope) -> InputSlot | None:
        """Return the slot that counts the rows of a group; None where the rows are unknown, or are groups already."""
        slots = [self.slots[name] for _, _, term in scope.columns or () for name in names_in(term)]
        rows = [row for slot in slots if (row := outermost(slot)) in self.rows.values()]
        if not rows or any(slot in self.group_sizes.values() for slot in slots):
            return None
        if rows[0].name not in self.group_sizes:
            self.group_sizes[rows[0].name] = self.slot(t.LongType(), "rows", rows[0])
        return self.group_sizes[rows[0].name]

    def slot(self, kind: t.DataType, label: str = "", outer: InputSlot | None = None) -> InputSlot:
        """Return a new slot, with those of its parts."""
        slot = self.slots[f"s{len(self.slots)}"] = InputSlot(f"s{len(self.slots)}", kind, label, outer)
        match kind:
            case t.StructType(fields=fields):
                slot.parts = {part.name.lower(): self.slot(part.dataType, part.name, slot) for part in fields}
                for part in fields:
                    slot.parts[part.name.lower()].nullable = part.nullable
            case t.ArrayType(elementType=item):
                slot.parts = {0: self.slot(item, label, slot)}
            case _:
                pass
        return slot

    def content(self, slot: InputSlot, written: SlotForm | None, kind: t.DataType) -> InputSlot | None:
        """Return what is written in a slot; None if it is written in another way, too."""
        if slot.content is None and not slot.parts and written is not None:
            slot.written, slot.content = written, self.slot(kind, slot.label, slot)
            slot.content.nullable = slot.nullable
        return slot.content if written is not None and slot.written == written else None


def hints_of(sources: Iterable[StreamSource]) -> Hints:
    """Return what sources tell by themselves: Kafka counts offsets, ``rate`` its rows."""
    hints = Hints()
    for source in sources:
        hints.rows[source.name] = _row_of(hints, source)
    return hints


def _row_of(hints: Hints, source: StreamSource) -> InputSlot:
    row = hints.slot(source.schema)
    count = _COUNTED.get(source.format)
    for name, counted in count(dict(source.options)).items() if count else ():
        if name in row.parts:
            row.parts[name].counted = counted
    return row


def _of_kafka(options: dict[str, str]) -> dict[str, Callable[[int], Any]]:
    subscribed = next((value for name, value in options.items() if name.lower() == "subscribe"), "events")
    topics = [name.strip() for name in subscribed.split(",")]
    return {
        "topic": lambda number: topics[number % len(topics)],
        "partition": lambda number: number % 2,
        "offset": lambda number: number // 2,
        "timestamptype": lambda _: 0,
    }


_COUNTED: dict[str, Callable[[dict[str, str]], dict[str, Callable[[int], Any]]]] = {
    "kafka": _of_kafka,
    **dict.fromkeys(("rate", "rate-micro-batch"), lambda _: {"value": lambda number: number}),
}
"""The columns that a source counts itself, by format."""


def column(slot: InputSlot) -> Recorded:
    """Return the column that stands for a slot."""
    return Recorded("col", (slot.name,), "")


def outermost(slot: InputSlot) -> InputSlot:
    """Return the row that a slot is in."""
    return slot if slot.outer is None else outermost(slot.outer)


def names_in(term: Any) -> Iterator[str]:
    """Yield the names of the slots in a term."""
    if isinstance(term, Recorded):
        if term.name == "col":
            yield term.args[0]
        for argument in flat(term.args):
            yield from names_in(argument)


def flat(arguments: Iterable[Any]) -> Iterator[Any]:
    """Yield arguments, also those of lists among them."""
    for argument in arguments:
        if isinstance(argument, list | tuple):
            yield from flat(argument)
        else:
            yield argument
