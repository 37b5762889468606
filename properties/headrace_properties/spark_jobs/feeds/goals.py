"""Values with which rows pass and fail what a job asks of them, found by trying those that it compares with."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.hints import Hints, RowGoal, names_in, outermost
from headrace_properties.spark_jobs.feeds.slots import InputSlot, Use
from headrace_sim.spark.columns.bound import literal
from headrace_sim.spark.columns.casts import cast_value, is_number
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.recorded import Recorded

Known = dict[str, Any]
"""Values of slots, by name. A struct that is there is ``()``: its parts say what it holds."""

MOST = 12
"""Choice: the largest number of rows that are drawn for goals, of each source."""
_STARTS = 12
"""Choice: from how many values at random the search for a goal begins."""
MOST_ALIKE = 120
"""Choice: the largest number of rows of one group that are drawn for a threshold of a count or a sum."""
_JOINED = 4
"""Choice: of how many texts that a job looks for two are tried one behind the other: a prefix, and what is contained."""
_TEXTS = ("ann", "ann@example.com", "42", "2030-01-01", "A-1")
"""Choice: what is tried of texts besides those that the job compares with: most patterns take one of them, and refuse another."""


_OF_PARTS = (t.StructType, t.ArrayType, t.MapType)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A condition, bound: the slots that it looks at, and whether it is true for values of theirs."""

    names: tuple[str, ...]
    is_true: Callable[[Known], bool]


class Aims:
    """The goals of one source."""

    def __init__(self, hints: Hints, row: InputSlot, chance: random.Random, at: datetime) -> None:
        """Bind the conditions that look at this source alone.

        ``row``: the row of the source. ``chance``: for what is tried first. ``at``: a time like those that its rows have.
        """
        self._hints, self._row, self._at, self._chance = hints, row, at, chance
        self._bound: dict[int, _Asked | None] = {}
        self._tried: dict[str, list[Any]] = {}
        size = hints.group_sizes.get(row.name)
        self._size = size and size.name

    def rows(self, count: int) -> tuple[list[Known], list[Known]]:
        """Return values for rows that meet the goals that can be met; and those among them that pass all filters.

        ``count``: up to this number of rows, one is also added for a goal that needs none of its own.
        """
        rows: list[Known] = []
        first: list[tuple[_Asked, bool]] = []
        through = [RowGoal(conditions) for conditions in self._hints.through]
        for goal in [*through, *sorted(self._hints.goals, key=_rank)]:
            parts = [
                (asked, wanted)
                for condition, flag in goal.conditions
                for part, wanted in _split(condition, flag)
                if (asked := self._asked(part)) is not None
            ]
            first = first or parts
            room = MOST if goal.needed else count
            if parts and len(rows) < room and not any(self._meets(parts, known) for known in rows):
                asked_of = [asked for asked, _ in parts]
                more = [part for part in first if part[0] not in asked_of and self._size not in part[0].names]
                passing = [*parts, *more]
                base = {
                    name: value for name, value in (rows[0] if rows else {}).items() if name != self._size
                }
                reached = self._reached(passing, base) or self._reached(parts, base)
                rows += [reached] if reached is not None else []
        return rows, [known for known in rows if self._meets(first, known)]

    def _meets(self, parts: Sequence[tuple[_Asked, bool]], known: Known) -> bool:
        return self._score(parts, known) == len(parts)

    def _asked(self, condition: Recorded) -> _Asked | None:
        if id(condition) not in self._bound:
            names = tuple(dict.fromkeys(names_in(condition)))
            own = names and all(outermost(self._hints.slots[name]) is self._row for name in names)
            self._bound[id(condition)] = self._binding(condition, names) if own else None
        return self._bound[id(condition)]

    def _binding(self, condition: Recorded, names: tuple[str, ...]) -> _Asked | None:
        slots = [self._hints.slots[name] for name in names]
        schema = t.StructType([t.StructField(slot.name, slot.kind) for slot in slots])
        try:
            value = bind(condition, schema).value
        except (HeadraceError, PySparkException):
            return None

        def is_true(known: Known) -> bool:
            try:
                return value(tuple(_seen(slot, known) for slot in slots)) is True
            except (PySparkException, ArithmeticError, ValueError):
                return False

        return _Asked(names, is_true)

    @staticmethod
    def _score(parts: Sequence[tuple[_Asked, bool]], known: Known) -> int:
        there = [(asked, wanted) for asked, wanted in parts if set(asked.names) <= known.keys()]
        return sum(asked.is_true(known) is wanted for asked, wanted in there)

    def _reached(self, parts: Sequence[tuple[_Asked, bool]], base: Known) -> Known | None:
        """Return values that meet all parts, found by changing one value after the other for the better."""
        names = list(dict.fromkeys(name for asked, _ in parts for name in asked.names))
        for start in range(_STARTS):
            known = dict(base)
            for name in names:
                if start or name not in known:
                    there = [each for each in self._values(name) if each is not None]
                    known[name] = self._chance.choice(there)
            best, improved = self._score(parts, known), True
            while best < len(parts) and improved:
                improved = False
                for name in self._chance.sample(names, len(names)):
                    for value in self._values(name):
                        score = self._score(parts, trial := {**known, name: value})
                        if score > best:
                            known, best, improved = trial, score, True
            if best == len(parts):
                return self._with_fewest(parts, known)
        return None

    def _with_fewest(self, parts: Sequence[tuple[_Asked, bool]], known: Known) -> Known:
        """Return values with the fewest rows in the group that still meet all parts."""
        if self._size is None or self._size not in known:
            return known
        tried = ({**known, self._size: size} for size in self._values(self._size))
        return next(trial for trial in tried if self._meets(parts, trial))

    def _values(self, name: str) -> list[Any]:
        if name not in self._tried:
            slot = self._hints.slots[name]
            is_size = name == self._size
            self._tried[name] = _sizes(slot) if is_size else list(_candidates(slot, self._at))
        return self._tried[name]


def _rank(goal: RowGoal) -> tuple[bool, bool, int]:
    """Put what passes all filters first, and what needs no row of its own last."""
    passes = all(wanted for _, wanted in goal.conditions)
    return not goal.needed, not passes, -len(goal.conditions)


def _split(condition: Recorded, wanted: bool) -> Iterator[tuple[Recorded, bool]]:  # noqa: FBT001  its value
    """Yield the parts that all must be as wanted."""
    if (condition.name, wanted) in {("and", True), ("or", False)}:
        for part in condition.args:
            yield from _split(part, wanted) if isinstance(part, Recorded) else ()
    else:
        yield condition, wanted


def _seen(slot: InputSlot, known: Known) -> Any:
    """Return a slot's value as a job sees it: nothing is in what is null."""
    outer = slot.outer
    while outer is not None:
        if outer.name in known and known[outer.name] is None:
            return None
        outer = outer.outer
    return known[slot.name]


def _candidates(slot: InputSlot, at: datetime) -> Iterator[Any]:
    if isinstance(slot.kind, _OF_PARTS):
        yield ()
    elif slot.counted is not None:
        yield from dict.fromkeys(map(slot.counted, range(MOST)))
    elif Use.EVENT_TIME in slot.uses:
        yield _time(slot, at)
    else:
        is_text = isinstance(slot.kind, t.StringType)
        tried = [each for literal in slot.literals for each in _around(literal, slot)]
        texts = [each for each in slot.literals if isinstance(each, str)] if is_text else []
        both = [f"{first.strip('%')}{last.strip('%')}" for first, last in permutations(texts[:_JOINED], 2)]
        yield from dict.fromkeys([*tried, *both, *_usual(slot, at)])
    if Use.NULL in slot.uses and slot.nullable:
        yield None


def _sizes(slot: InputSlot) -> list[int]:
    tried = {1, 2, *(number for value in slot.literals for number in _around(value, slot))}
    return sorted(number for number in tried if 0 < number <= MOST_ALIKE)


def _time(slot: InputSlot, at: datetime) -> date:
    return at if not isinstance(slot.kind, t.DateType) else at.date()


def _usual(slot: InputSlot, at: datetime) -> list[Any]:
    if isinstance(slot.kind, t.StringType):
        return list(_TEXTS)
    if isinstance(slot.kind, t.BooleanType):
        return [True, False]
    if isinstance(slot.kind, t.BinaryType):
        return [text.encode() for text in _TEXTS]
    if slot.is_time:
        return [_time(slot, at)]
    return [as_kind(number, slot.kind) for number in (1, 2, 7, 0, -1, 100, 1000)]


def _around(value: Any, slot: InputSlot) -> list[Any]:
    """Return a literal, and what is just beyond it on both sides, as values of a slot."""
    kind = slot.kind
    if isinstance(kind, t.StringType) and isinstance(value, str):
        text, words = value.strip("%"), re.findall(r"\w+", value)[:3]
        longer = [f"{part} and so on" for part in (text, *words)]
        return [text, f"{text}x", f"x{text}x", text.upper(), text.lower(), *words, *longer]
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100
    if isinstance(kind, t.StringType) and is_count:
        return [str(value), *("a" * max(0, value + more) for more in (0, 1, -1))]
    if slot.is_time:
        known = as_kind(value, t.TimestampType())
        beyond = [known + timedelta(days=days) for days in (0, 1, -1)] if known is not None else []
        return [_time(slot, each) for each in beyond]
    if is_number(kind) and isinstance(value, int | float | Decimal | str):
        number = as_kind(value, kind)
        return [] if number is None else [number, number + 1, number - 1]
    same = as_kind(value, kind)
    return [] if same is None else [same]


def as_kind(value: Any, kind: t.DataType) -> Any:
    """Return a literal as a value of a type; None if it does not fit."""
    try:
        cast = cast_value(literal(value).type, kind)
        return None if cast is None else cast(value)
    except (PySparkException, ArithmeticError, ValueError):
        return None
