"""Window functions on rows in memory: ``row_number``, ``lag`` and aggregates over the rows of a key, in an order."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import as_type, hashable, ordered
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.recorded import Recorded, shown
from headrace_sim.spark.refusals import CannotFollowError, shown_place

Row = tuple[Any, ...]

_RANKS = frozenset({"row_number", "rank", "dense_rank"})
_SHIFTS = {"lag": -1, "lead": 1}


def windowed(call: Recorded, schema: t.StructType, rows: Sequence[Row]) -> tuple[t.DataType, bool, list[Any]]:
    """Return the type of a recorded call, whether it may be null, and its value for each row.

    Raise `CannotFollowError` if it is not simulated, or `AnalysisException` if Spark would refuse it.
    """
    return _Window(call, schema).over(rows)


def places_in_order(rows: Sequence[Row], nodes: Sequence[Recorded], schema: t.StructType) -> list[int]:
    """Return the places of rows, sorted by columns; nulls are first if a column ascends and last if not, or as it says."""
    places = list(range(len(rows)))
    for node in reversed(nodes):
        inner, upwards, nulls_last = _direction(node)
        value, nulls_are_high = bind(inner, schema).value, upwards is nulls_last
        keys = [((item is None) is nulls_are_high, ordered(item)) for item in map(value, rows)]
        places.sort(key=keys.__getitem__, reverse=not upwards)
    return places


def _direction(node: Recorded) -> tuple[Recorded, bool, bool]:
    """Return a column without its order, whether it ascends, and whether nulls come last."""
    way, _, nulls = node.name.partition("_nulls_")
    return node.args[0], way == "asc", (nulls or ("first" if way == "asc" else "last")) == "last"


class _Window:
    """One call of a window function, bound to a schema."""

    def __init__(self, call: Recorded, schema: t.StructType) -> None:
        self.function, self.spec = call.args
        self.call = call
        self.schema = schema
        self.keys = [bind(node, schema).value for node in self.spec.partition]
        self.order = [bind(_direction(node)[0], schema).value for node in self.spec.order]

    def over(self, rows: Sequence[Row]) -> tuple[t.DataType, bool, list[Any]]:
        """Return its type, whether it may be null, and its value for each row."""
        kind, nullable, values_of = self._meaning()
        groups: dict[Any, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(tuple(hashable(key(row)) for key in self.keys), []).append(place)
        values: list[Any] = [None] * len(rows)
        for places in groups.values():
            group = [rows[place] for place in places]
            order = places_in_order(group, self.spec.order, self.schema)
            for place, value in zip(order, values_of([group[place] for place in order]), strict=True):
                values[places[place]] = value
        return kind, nullable, values

    def _meaning(self) -> tuple[t.DataType, bool, Callable[[list[Row]], Sequence[Any]]]:
        name = self.function.name
        if name in _RANKS or name in _SHIFTS:
            if not self.order:
                problem = f"Window function {shown(self.function)} requires window to be ordered, please add ORDER BY clause"
                message = f"[WINDOW_FUNCTION_FRAME_NOT_ORDERED] {problem} (at {shown_place(self.call.place)})"
                raise AnalysisException(message=message)
            return (t.IntegerType(), False, self._ranks) if name in _RANKS else self._shifted()
        bound = bind(self.function, self.schema, [])

        def values(rows: list[Row]) -> list[Any]:
            return [bound.value(rows[begin:end]) for begin, end in self._frames(rows)]

        return bound.type, bound.nullable, values

    def _peers(self, rows: list[Row]) -> list[int]:
        """Return for each row how many come before the first that is equal to it in the order."""
        keys = [[hashable(value(row)) for value in self.order] for row in rows]
        starts: list[int] = []
        for _, same in groupby(keys):
            starts += [len(starts)] * len(list(same))
        return starts

    def _ranks(self, rows: list[Row]) -> Sequence[int]:
        if self.function.name == "row_number":
            return range(1, len(rows) + 1)
        starts = self._peers(rows)
        if self.function.name == "rank":
            return [start + 1 for start in starts]
        number = {start: number for number, start in enumerate(dict.fromkeys(starts), 1)}
        return [number[start] for start in starts]

    def _shifted(self) -> tuple[t.DataType, bool, Callable[[list[Row]], Sequence[Any]]]:
        shifted, *more = self.function.args  # the offset and the default, or neither
        value = bind(shifted, self.schema)
        otherwise = as_type(bind(more[1] if len(more) > 1 else None, self.schema), value.type, self.call)
        by = _SHIFTS[self.function.name] * (int(more[0]) if more else 1)

        def values(rows: list[Row]) -> list[Any]:
            there = range(len(rows))
            return [
                value.value(rows[place + by]) if place + by in there else otherwise.value(rows[place])
                for place in there
            ]

        return value.type, value.nullable or otherwise.nullable, values

    def _frames(self, rows: list[Row]) -> Iterator[tuple[int, int]]:
        """Yield the first row of each row's frame, and the one behind its last."""
        unit, start, end = self.spec.frame or ("range", None, 0 if self.order else None)
        if unit == "range" and not {start, end} <= {None, 0}:
            remedy = "Count rows, or compute it in Python"
            raise CannotFollowError("rangeBetween() with a number", self.call.place, remedy)
        count = len(rows)
        if unit == "rows":
            for place in range(count):
                begin = 0 if start is None else max(place + start, 0)
                yield begin, max(count if end is None else min(place + end + 1, count), begin)
            return
        starts = self._peers(rows)
        ends = [count - start for start in reversed(self._peers(rows[::-1]))]
        for first, behind in zip(starts, ends, strict=True):
            yield 0 if start is None else first, count if end is None else behind
