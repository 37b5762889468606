"""Spark's join of two streams, as tasks run it.

Rows of the left stream meet what is kept of the right one, then rows of the right stream meet what is kept of the left one, those
of this batch included. Then the watermark evicts what no later row can match; an outer join gives it out with nulls if it has
matched nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import EVENT_TIME, hashable
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.joins import joined, side_by_side
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.query.operators import Row, Step, TimeOf, is_past, time_in, time_us
from headrace_sim.spark.spark_job import OutputMode, SparkJobError, StreamJoin
from headrace_sim.spark.state.state_server import BatchTimes
from headrace_sim.spark.state.stores import Held, Key, Store, put_or_drop
from headrace_sim.spark.state.tasks import Rows, TaskResult

_SIDES = ("left", "right")
_OUTER = {"left": {0}, "right": {1}, "full": {0, 1}}
"""The sides whose rows are given out even if they match nothing."""
_WAITING = {**_OUTER, "semi": {0}}
"""The sides whose state the watermark must bound."""
_PUSHED = {"inner": {0, 1}, "left": {1}, "right": {0}, "full": set[int](), "semi": {0, 1}}
"""The sides that Spark filters before the join by what the condition says of them alone."""
_BASE = datetime(2030, 1, 1)
_UPWARDS = {"lt": (False, True), "leq": (False, False), "gt": (True, True), "geq": (True, False)}
"""Of a comparison: whether its left side is the greater one, and whether it is strictly so."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two streams."""

    schema: t.StructType  # of its rows
    key: Callable[[Row], Row]  # returns what must be equal; None in it: equal to nothing
    passes: Callable[[Row], bool]  # returns whether a row could match at all
    time: TimeOf | None  # returns its event time, or None
    # returns the time at which the watermark evicts a row, in microseconds. None: never
    expiry: TimeOf | None


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a condition says of the times of one side."""

    # by how much they at least exceed those of the other side, in microseconds. None: nothing is said
    distance_us: int | None
    until_us: int | None  # the time behind which Spark evicts no row. None: there is none


class Joining:
    """``stream.join(stream)``.

    ``left``: the schema of the left stream, which says what has the event time. ``right``: that of the right one. Raise
    `SparkJobError` if Spark would refuse it.
    """

    def __init__(self, step: StreamJoin, left: t.StructType, right: t.StructType) -> None:
        self.stage = step
        self._width = len(left.fields)
        self._schemas = left, right
        self._names = step.on if isinstance(step.on, tuple) else ()
        self.output = joined((left, []), (right, []), step.how, step.on, step.place)[0]
        pairs, filters, self._both = self._conditions(step, t.StructType([*left.fields, *right.fields]))
        if not pairs:
            problem = "Stream-stream join without equality predicate is not supported (AnalysisException)"
            raise SparkJobError(problem, step.place, "Join on a column that is equal on both sides")
        self._bounds = [self._bound(number) for number in (0, 1)]
        self._sides = tuple(self._side(number, pairs, filters[number]) for number in (0, 1))
        self.is_bounded = all(side.expiry is not None for side in self._sides) and not any(
            self._by_key(number, pairs) is None and bound is not None and bound.until_us is not None
            for number, bound in enumerate(self._bounds)
        )
        self.wakes = any(side.expiry is not None for side in self._sides)
        self._expect_supported()

    def _expect_supported(self) -> None:
        step, place = self.stage, self.stage.place
        modes = {OutputMode.APPEND, OutputMode.UPDATE} if step.how == "inner" else {OutputMode.APPEND}
        if step.output_mode not in modes:
            problem = (
                f"{step.how} join between two streaming DataFrames/Datasets is not supported in {step.output_mode.value} output "
                "mode (AnalysisException)"
            )
            raise SparkJobError(problem, place, "Choose outputMode('append')")
        sides = zip(self._sides, self._bounds, strict=True)
        bounded = [side.expiry is not None or bound is not None for side, bound in sides]
        if step.how == "anti" or any(not bounded[side] for side in _WAITING.get(step.how, ())):
            problem = (
                f"Stream-stream {step.how} join between two streaming DataFrame/Datasets is not supported without a watermark in "
                "the join keys, or a watermark on the nullable side and an appropriate range condition (AnalysisException)"
            )
            remedy = "Call withWatermark() on both, and bound how far their times are apart in the condition"
            raise SparkJobError(problem, place, remedy)

    def lag_ms(self) -> int:
        """Return by how much the watermark of what comes out is behind that of what comes in."""
        lags = [0]
        for side in self._sides:
            if side.expiry is not None and side.time is not None:
                probe = tuple(_probe(field.dataType, _BASE) for field in side.schema.fields)
                time, expiry = side.time(probe), side.expiry(probe)
                if time is not None and expiry is not None:
                    lags.append(-((time - expiry) // 1000))
        return max(lags)

    # The condition.

    def _conditions(self, step: StreamJoin, schema: t.StructType) -> Any:
        """Return the pairs of columns that must be equal, the filters of each side, and what is tested of both."""
        if isinstance(step.on, tuple):
            left, right = self._schemas
            places = [(_place(left, name), self._width + _place(right, name)) for name in step.on]
            return [tuple((lambda row, at=at: row[at], at) for at in pair) for pair in places], ([], []), []
        pairs, both = list[Any](), list[Any]()
        filters: tuple[list[Any], list[Any]] = [], []
        for node in conjuncts(step.on):
            sides = self._sides_of(node, schema)
            test = bind(node, schema).value
            if len(sides) == 1:
                filters[sides.pop()].append(test)
            elif node.name == "equalTo" and (pair := self._pair(node, schema)) is not None:
                pairs.append(pair)
            else:
                both.append(test)
        return pairs, filters, both

    def _sides_of(self, node: Any, schema: t.StructType) -> set[int]:
        return {int(place >= self._width) for place in places_in(node, schema)}

    def _pair(self, node: Recorded, schema: t.StructType) -> Any:
        """Return both columns of an equality, the left stream's first: what reads each, and its place if it is one."""
        sides = [self._sides_of(arg, schema) for arg in node.args]
        if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
            return None
        columns = [(bind(arg, schema).value, _place_of(arg, schema)) for arg in node.args]
        return tuple(columns if sides[0] == {0} else columns[::-1])

    def _side(self, number: int, pairs: Any, filters: list[Any]) -> _Side:
        schema = self._schemas[number]
        whole = self._whole_of(number)
        readers = [pair[number][0] for pair in pairs]
        time = time_in(schema)
        return _Side(
            schema,
            lambda row: tuple(hashable(reader(whole(row))) for reader in readers),
            lambda row: all(test(whole(row)) for test in filters),
            time,
            self._by_key(number, pairs) or (None if time is None else self._by_bound(number, time)),
        )

    def _whole_of(self, number: int) -> Callable[[Row], Row]:
        """Return what puts nulls in the place of the other side."""
        nulls = (None,) * len(self._schemas[1 - number].fields)
        return lambda row: (*row, *nulls) if number == 0 else (*nulls, *row)

    def _by_key(self, number: int, pairs: Any) -> TimeOf | None:
        """Return what reads the event time that is a part of the key, of either side."""
        fields = [*self._schemas[0].fields, *self._schemas[1].fields]
        for pair in pairs:
            places = [place for _, place in pair]
            if any(place is not None and EVENT_TIME in (fields[place].metadata or {}) for place in places):
                own, whole = pair[number], self._whole_of(number)
                kind = next(fields[place].dataType for place in places if place is not None)
                return lambda row: time_us(kind, own[0](whole(row)))
        return None

    def _by_bound(self, number: int, time: TimeOf) -> TimeOf | None:
        """Return the time until which a row may match, by how far the condition lets the times be apart."""
        bound = self._bounds[number]
        if bound is None:
            return None

        def expiry(row: Row) -> int | None:
            at = time(row)
            if at is None or (bound.until_us is not None and at > bound.until_us):
                return None
            return 0 if bound.distance_us is None else at - bound.distance_us

        return expiry

    def _bound(self, number: int) -> "_Bound | None":
        """Return what the condition says of the times of a side, in which Spark takes the most cautious of all parts."""
        if time_in(self._schemas[1 - number]) is None or isinstance(self.stage.on, tuple):
            return None
        nodes = [node for node in conjuncts(self.stage.on) if node.name in _UPWARDS]
        distances = [time_us for node in nodes if (time_us := self._distance_us(node, number)) is not None]
        ends = [time_us for node in nodes if (time_us := self._end_us(node, number)) is not None]
        if not distances and not ends:
            return None
        return _Bound(min(distances, default=None), min(ends, default=None))

    def _distance_us(self, node: Recorded, number: int) -> int | None:
        """Return by how much a side's time must at least exceed the other one's, in microseconds; None: nothing is said."""
        schema = t.StructType([*self._schemas[0].fields, *self._schemas[1].fields])
        left_is_greater, strictly = _UPWARDS[node.name]
        sides = node.args if left_is_greater else node.args[::-1]
        greater, smaller = (bind(arg, schema).value for arg in sides)

        def excess_us(*hours: int) -> float:
            """Return by how much the greater side exceeds the smaller one at times that are so many hours later."""
            row = []
            for place, field in enumerate(schema.fields):
                side = int(place >= self._width)
                is_time = EVENT_TIME in (field.metadata or {}) or (
                    side == number and field.dataType == t.TimestampType()
                )
                row.append(_probe(field.dataType, _BASE + timedelta(hours=hours[side])) if is_time else None)
            one, other = greater(tuple(row)), smaller(tuple(row))
            return float((one - other) / timedelta(microseconds=1))

        try:
            start = excess_us(0, 0)
            own, its = (excess_us(1 - side, side) - start for side in (number, 1 - number))
        except Exception:  # noqa: BLE001  it is no difference of times
            return None
        if (own, its) != (_HOUR_US, -_HOUR_US):
            return None
        return -int(start) - (0 if strictly else 1000)

    def _end_us(self, node: Recorded, number: int) -> int | None:
        """Return the time behind which Spark evicts no row of a side, in microseconds; None: nothing is said.

        Spark takes any column for a time: `n > 2` keeps all rows behind the second second for ever.
        """
        schema = t.StructType([*self._schemas[0].fields, *self._schemas[1].fields])
        left_is_greater, strictly = _UPWARDS[node.name]
        greater, smaller = node.args if left_is_greater else node.args[::-1]
        if number in _PUSHED.get(self.stage.how, ()) or self._sides_of(greater, schema) != {number}:
            return None
        if self._sides_of(smaller, schema) or _place_of(greater, schema) is None:
            return None
        value = bind(smaller, schema).value(())
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        return int(value * 1000) * 1000 - (0 if strictly else 1000)

    def pushed(self, number: int) -> list[Recorded]:
        """Return the filters that Spark applies to a side before the join."""
        if isinstance(self.stage.on, tuple) or number not in _PUSHED.get(self.stage.how, ()):
            return []
        schema = t.StructType([*self._schemas[0].fields, *self._schemas[1].fields])
        return [node for node in conjuncts(self.stage.on) if self._sides_of(node, schema) == {number}]

    # Tasks.

    def key_of(self, row: tuple[int, Row]) -> Key:
        """Return the key of a row. The first part of a row is its side: 0 or 1."""
        side, values = row
        return self._sides[side].key(values)

    def is_late(self, row: tuple[int, Row], watermark_ms: int) -> bool:
        """Return whether a row is behind the watermark."""
        time = self._sides[row[0]].time
        return time is not None and is_past(time(row[1]), watermark_ms)

    def run(self, rows: Rows, store: Store, times: BatchTimes, step: Step) -> TaskResult:
        """Run a task."""
        changed = store.copy()
        tables = [changed.lists.setdefault(name, {}) for name in _SIDES]
        pairs: list[tuple[Any, Any]] = []
        for number in (0, 1):
            for row in (row for side, row in rows if side == number):
                step("row")
                pairs += self._met(number, row, tables, times.watermark_ms)
        for number in (0, 1):
            for row, matched in self._evicted(number, tables[number], times.watermark_ms):
                if not matched and number in _OUTER.get(self.stage.how, ()):
                    pairs.append(_pair(number, row, None))
        for _ in pairs:
            step("output")
        return TaskResult(self._shown(pairs), changed)

    def _shown(self, pairs: list[tuple[Any, Any]]) -> list[Row]:
        if self.stage.how == "semi":
            return [left for left, _ in pairs]
        left, right = self._schemas
        no_left, no_right = (None,) * len(left.fields), (None,) * len(right.fields)
        whole = [(no_left if one is None else one, no_right if two is None else two) for one, two in pairs]
        return list(side_by_side(left, right, self.stage.how, self._names, whole)[1])

    def _met(
        self, number: int, row: Row, tables: list[dict[Key, tuple[Held, ...]]], watermark_ms: int
    ) -> Iterator[tuple[Any, Any]]:
        """Match a row with what is kept of the other side, and keep it."""
        side, how = self._sides[number], self.stage.how
        if not side.passes(row):
            if number in _OUTER.get(how, ()):
                yield _pair(number, row, None)
            return
        key = side.key(row)
        others = tables[1 - number].get(key, ()) if None not in key else ()
        again = how == "semi" and number == 1
        matches = [
            place
            for place, ((other, matched), _) in enumerate(others)
            if not (again and matched) and self._fits(*_pair(number, row, other))
        ]
        if matches:
            cells = enumerate(cell for cell, _ in others)
            tables[1 - number][key] = tuple(
                ((other, matched or place in matches), None) for place, (other, matched) in cells
            )
        for place in matches[:1] if how == "semi" and number == 0 else matches:
            yield _pair(number, row, others[place][0][0])
        is_over = side.expiry is not None and is_past(side.expiry(row), watermark_ms)
        waits = not matches and number in _OUTER.get(how, ())
        if (number == 0 and not (how == "semi" and matches)) or (number == 1 and (not is_over or waits)):
            tables[number][key] = (*tables[number].get(key, ()), ((row, bool(matches)), None))

    def _fits(self, left: Row, right: Row) -> bool:
        return all(test((*left, *right)) for test in self._both)

    def _evicted(
        self, number: int, table: dict[Key, tuple[Held, ...]], watermark_ms: int
    ) -> list[tuple[Row, bool]]:
        expiry = self._sides[number].expiry
        if expiry is None:
            return []
        evicted = []
        for key in sorted(table, key=repr):
            over = [cell for cell in table[key] if is_past(expiry(cell[0][0]), watermark_ms)]
            evicted += [cell[0] for cell in over]
            put_or_drop(table, key, tuple(cell for cell in table[key] if cell not in over))
        return evicted


_HOUR_US = 3_600_000_000


def _pair(number: int, row: Any, other: Any) -> tuple[Any, Any]:
    """Return a row of a side and one of the other, the left stream's first."""
    return (row, other) if number == 0 else (other, row)


def _probe(kind: t.DataType, time: datetime) -> Any:
    return (time, time) if isinstance(kind, t.StructType) else time


def conjuncts(node: Any) -> Iterator[Recorded]:
    """Yield the parts of a condition that must all be true."""
    if node.name == "as":
        yield from conjuncts(node.args[0])
    elif node.name == "and":
        for part in node.args:
            yield from conjuncts(part)
    else:
        yield node


def _place(schema: t.StructType, name: str) -> int:
    return next(place for place, field in enumerate(schema.fields) if field.name.lower() == name.lower())


def _place_of(node: Any, schema: t.StructType) -> int | None:
    """Return the place of a column of the schema; None: it is computed."""
    if not isinstance(node, Recorded) or node.name not in {"col", "field"}:
        return None
    place = bind(node, schema).value(range(len(schema.fields)))
    return place if isinstance(place, int) else None


def places_in(node: Any, schema: t.StructType) -> Iterator[int]:
    """Yield the places of the columns that a column is computed from."""
    if isinstance(node, list | tuple):
        for part in node:
            yield from places_in(part, schema)
    elif isinstance(node, Recorded) and node.name in {"col", "field"}:
        read = _Reads(len(schema.fields))
        bind(node, schema).value(read)
        yield from read.places
    elif isinstance(node, Recorded):
        yield from places_in(node.args, schema)


class _Reads:
    """A row that notes which of its values are read."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.places: list[int] = []

    def __getitem__(self, place: int) -> None:
        self.places.append(place)
