"""Draw rows that exercise a job, from what its plan says about its input."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import types as t

from headrace_properties.spark_jobs.feeds.drawn_rows import (
    BATCHES,
    GAPS_S,
    ROWS,
    ROWS_WITH_STATE,
    drawn_times,
    in_batches,
)
from headrace_properties.spark_jobs.feeds.goals import Aims, Known, as_kind
from headrace_properties.spark_jobs.feeds.hints import Hints
from headrace_properties.spark_jobs.feeds.slots import InputSlot, Use
from headrace_sim.spark.columns.drawn_values import KEYS, START, value_of

_KEY_LIKE = re.compile(r"(^|_)(id|key|uuid|no)$|[a-z](Id|ID|Key)$")
_ROWS_EACH = 4
"""Choice: the least number of rows of each of several sources."""
_TURNS = (0, 0, 1, 0, 1, 2)
"""Choice: which key each row has, so that keys repeat within batches and across them."""
_BUSY_TURNS = (0, 0, 1, 0, 0, 2)
"""Choice: the same where code waits for a number of rows of one key."""


def batches_for(
    hints: Hints, seed: int, *, with_state: bool = False, waited_for: int = 0
) -> list[list[tuple[Any, ...]]]:
    """Return rows of a few micro-batches. Each filter is passed by one and failed by another, and each branch is taken.

    Keys repeat with other values, in their batch and in later ones, and a last row has the values of the first one. With several
    sources, a row has a struct for one of them, and nulls for the others. ``seed``: the rows follow from it. ``with_state``:
    whether they are for a job that keeps state. ``waited_for``: one key has more rows than this. Raise `UndrawableError` if a
    schema has a type that cannot be drawn.
    """
    sources = list(hints.rows.values())
    least = BATCHES * (ROWS_WITH_STATE if with_state else ROWS)
    wanted = max(_ROWS_EACH, -(-least // len(sources))) + waited_for
    chances = [random.Random(f"{seed}/goals/{place}") for place in range(len(sources))]
    met = [Aims(hints, *each, START).rows(wanted - 1) for each in zip(sources, chances, strict=True)]
    rows = -(-len(sources) * max(wanted, *(len(known) + 2 for known, _ in met)) // BATCHES)
    times = _times(hints, seed, rows, with_state=with_state)
    first_key = random.Random(f"{seed}/keys").randrange(len(KEYS))
    turns = _BUSY_TURNS if waited_for else _TURNS
    drawn = []
    for place, source in enumerate(sources):
        chance, count = random.Random(f"{seed}/values/{place}"), len(times[place :: len(sources)])
        drawn.append(_values(hints, source, met[place], chance, count, first_key, turns))
    groups, counts = [], [0] * len(sources)
    for number, at in enumerate(times):
        place, turn = number % len(sources), number // len(sources)
        chance = random.Random(f"{seed}/row/{number}")
        group = []
        for known in _alike(hints, sources[place], drawn[place][turn]):
            row = RowValues(known, drawn[place][turn - 1], counts[place], at, chance)
            group.append(one_of(row.value(sources[place]), place, len(sources)))
            counts[place] += 1
        groups.append(group)
    batches = in_batches(groups, rows, with_state=with_state)
    return [[row for group in batch for row in group] for batch in batches]


def _alike(hints: Hints, row: InputSlot, known: Known) -> Iterator[Known]:
    """Yield the values of each row of a group, which differ where the job counts or keeps different ones."""
    size = hints.group_sizes.get(row.name)
    leaves = [leaf for leaf in row.leaves if Use.DISTINCT in leaf.uses]
    for number in range(known.get(size.name, 1) if size else 1):
        yield known | {leaf.name: _another(known[leaf.name], number) for leaf in leaves if leaf.name in known}


def _another(value: Any, number: int) -> Any:
    if isinstance(value, bool) or not number:
        return value
    return (
        f"{value}{number}" if isinstance(value, str) else value + number if isinstance(value, int) else value
    )


def one_of(row: tuple[Any, ...], place: int, sources: int) -> tuple[Any, ...]:
    """Return a row of one of several sources as a row of the job's input: beside nulls for the others."""
    return row if sources == 1 else tuple(row if other == place else None for other in range(sources))


def _times(hints: Hints, seed: int, rows: int, *, with_state: bool) -> list[datetime]:
    """Return the rows' times. With a watermark some come behind later ones, but not behind its delay."""
    spans_s = [span / 1_000_000 for span in sorted({*hints.windows_us, *hints.delays_us}) if span]
    gaps = [max(1, round(span * part)) for span in spans_s for part in (0.05, 0.3, 0.5, 1.5)] or GAPS_S
    times = drawn_times(seed, rows, with_state=with_state, gaps_s=gaps)
    delay = timedelta(microseconds=min(hints.delays_us, default=0))
    for place in range(1, len(times) - 1, 3):
        if times[place + 1] - times[place] < delay:
            times[place : place + 2] = times[place + 1], times[place]
    return times


def _values(
    hints: Hints,
    row: InputSlot,
    met: tuple[list[Known], list[Known]],
    chance: random.Random,
    count: int,
    first_key: int,
    turns: tuple[int, ...],
) -> list[Known]:
    """Return the values of the rows of a source: those that meet its goals, and more of those that pass its filters."""
    needed, passing = met
    leaves = [leaf for leaf in row.leaves if leaf.counted is None and not leaf.is_time]
    size = hints.group_sizes.get(row.name)
    more = [_alone(chance.choice(passing or needed or [{}]), size) for _ in range(count)]
    values: list[Known] = []
    for number, known in enumerate(map(dict, [*needed[:1], more[0], *needed[1:], *more[1:]][:count])):
        for name in [name for name, value in known.items() if _is_free(hints.slots[name], value)]:
            del known[name]
        for leaf in leaves:
            if _is_key(leaf):
                known.setdefault(leaf.name, _key(leaf, first_key + turns[number % len(turns)]))
            elif leaf.name not in known:
                known[leaf.name] = _usual(leaf, chance)
        values.append(known)
    values[-1] = _alone(values[0], size)
    return values


def _alone(known: Known, size: InputSlot | None) -> Known:
    """Return the values of one row of a group."""
    return {name: value for name, value in known.items() if size is None or name != size.name}


def _is_free(slot: InputSlot, value: Any) -> bool:
    """Return whether something else says what a value is: the number or the time of its row, or nothing but that it is there."""
    if slot.counted is not None and not isinstance(slot.kind, t.StringType):
        return True
    if isinstance(slot.kind, t.BooleanType):
        return False
    return Use.EVENT_TIME in slot.uses or (value is not None and Use.COMPARED not in slot.uses)


def _is_key(leaf: InputSlot) -> bool:
    meant = Use.KEY in leaf.uses or _KEY_LIKE.search(leaf.label) is not None
    return meant and isinstance(leaf.kind, t.StringType | t.IntegerType | t.LongType)


def _key(leaf: InputSlot, turn: int) -> Any:
    keys = [*_compared(leaf), *(KEYS if isinstance(leaf.kind, t.StringType) else range(1, len(KEYS) + 1))]
    return keys[turn % len(keys)]


def _usual(leaf: InputSlot, chance: random.Random) -> Any:
    """Return a value that no goal asks for: one that the job knows, if it compares with any."""
    known = _compared(leaf)
    return chance.choice(known) if known and chance.random() < 0.5 else value_of(leaf.kind, chance, START)


def _compared(leaf: InputSlot) -> list[Any]:
    return [each for literal in leaf.literals if (each := as_kind(literal, leaf.kind)) is not None]


@dataclass(frozen=True, slots=True)
class RowValues:
    """One row, as it is written."""

    known: Known  # the values of its slots
    before: Known  # those of the row before it, for the second item of an array
    number: int  # of the row in its source, from 0
    at: datetime  # its time
    chance: random.Random  # for what has no slot

    def value(self, slot: InputSlot) -> Any:
        """Return the value of a slot, made of what is in it."""
        if slot.name in self.known:
            value = self.known[slot.name]
            if value is None or value != ():
                return value
        if slot.content is not None and slot.written is not None:
            inner = self.value(slot.content)
            return None if inner is None else slot.written.write(inner)
        match slot.kind:
            case t.StructType():
                return tuple(map(self.value, slot.parts.values()))
            case t.ArrayType():
                return list(self._items(slot))
            case t.MapType() if slot.parts:
                return {key: self.value(part) for key, part in slot.parts.items()}
        if slot.counted is not None:
            return slot.counted(self.number)
        if slot.is_time:
            return self.at.date() if isinstance(slot.kind, t.DateType) else self.at
        return value_of(slot.kind, self.chance, self.at)

    def _items(self, slot: InputSlot) -> Iterator[Any]:
        if len(slot.parts) > 1:
            yield from (self.value(slot.parts[place]) for place in sorted(slot.parts))
        else:
            yield self.value(slot.parts[0])
            yield RowValues(self.before, self.known, self.number, self.at, self.chance).value(slot.parts[0])
