"""Spark's own stateful operators on one stream, as tasks run them: aggregates, sessions, dropping duplicates, limits.

Rows are late by the watermark of the batch before, and state is evicted by that of the batch, after its rows. In append mode an
aggregate is given out when it is evicted, in update mode when it changes, in complete mode with all others in each batch.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import EVENT_TIME, Bound, hashable, time_kept
from headrace_sim.spark.columns.ddl import interval_us
from headrace_sim.spark.columns.expressions import bind, time_of
from headrace_sim.spark.columns.frames import relabeled
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.whole_columns import computed_first
from headrace_sim.spark.columns.zones import clock_is_moved
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.spark_job import Aggregate, Deduplicate, Limit, OutputMode, SparkJobError
from headrace_sim.spark.state.state_server import BatchTimes
from headrace_sim.spark.state.stores import Held, Key, Store, put_or_drop
from headrace_sim.spark.state.tasks import Rows, TaskResult

Row = tuple[Any, ...]
Step = Callable[[str], None]
TimeOf = Callable[[Row], int | None]
"""Returns a row's event time, in microseconds; for a window, its end."""

_SESSION = "session_window"
_TIME = t.TimestampType()


def time_us(kind: t.DataType, value: Any) -> int | None:
    """Return the event time of a value, in microseconds. A window's is its end."""
    if value is not None and isinstance(kind, t.StructType):
        kind, value = kind["end"].dataType, value[1]
    return None if value is None else int(kind.toInternal(value))


def time_in(schema: t.StructType) -> TimeOf | None:
    """Return what reads the event time of a row, if a column has it; of several, the first."""
    for place, field in enumerate(schema.fields):
        if EVENT_TIME in (field.metadata or {}):
            return lambda row, place=place, kind=field.dataType: time_us(kind, row[place])  # type: ignore[misc]
    return None


def delay_us(schema: t.StructType) -> int:
    """Return the delay of the watermark, in microseconds."""
    delays = (field.metadata[EVENT_TIME] for field in schema.fields if EVENT_TIME in (field.metadata or {}))
    return next(delays, 0)


def is_past(time: int | None, watermark_ms: int) -> bool:
    """Return whether the watermark has come to a time, in microseconds."""
    return time is not None and time <= watermark_ms * 1000


def evict(table: dict[Key, Any], time: Callable[[Key], int | None], watermark_ms: int) -> list[Key]:
    """Return the keys whose time has come, in order."""
    due = [(at, repr(key), key) for key in table if is_past(at := time(key), watermark_ms)]
    return [key for *_, key in sorted(due, key=lambda entry: entry[:2])]


class GroupColumns:
    """An aggregate's columns, bound once.

    ``schema``: of the rows that come in, which says what has the event time. Raise `CannotFollowError` if a column is not
    simulated.
    """

    def __init__(self, step: Aggregate, schema: t.StructType) -> None:
        self._schema, self._nodes = schema, list(step.groups)
        self._session: Bound | None = None
        groups, extended, _ = computed_first(self._nodes, schema, ())
        self._spreads = len(extended.fields) > len(schema.fields)
        self.keys = [bind(node, extended) for node in groups]
        self.values = [bind(node, extended, [key.name for key in self.keys]) for node in step.values]
        marks = [_mark_of(node, schema) for node in step.groups]
        timed = next((place for place, mark in enumerate(marks) if mark is not None), None)
        self.timed = timed
        self.output = relabeled(step.output, step.output.names, [*marks, *(None for _ in step.values)])

    def spread(self, rows: Rows) -> Rows:
        """Return a row for each window that each row is in."""
        return computed_first(self._nodes, self._schema, [tuple(rows)])[2][0] if self._spreads else rows

    def key(self, row: Row) -> Row:
        """Return the values grouped by."""
        return tuple(key.value(row) for key in self.keys)

    def time(self, row: Row) -> int | None:
        """Return the event time of a row's group, in microseconds."""
        key = None if self.timed is None else self.keys[self.timed]
        return None if key is None else time_us(key.type, key.value(row))

    def result(self, key: Row, rows: list[Row]) -> Row:
        """Return what a group comes to."""
        return (*key, *(value.value(rows) for value in self.values))


def _mark_of(node: Recorded, schema: t.StructType) -> dict[str, Any] | None:
    """Return the metadata by which a group says that it has the event time, if it has."""
    while node.name in {"as", "window", _SESSION, "window_time"}:
        node = node.args[0]
    return time_kept(bind(node, schema).metadata) if node.name in {"col", "field"} else None


_NOBODY: Row = ("no row", object())
"""Stands for the group of all rows while there are none."""


class Aggregation:
    """``groupBy().agg()``. Its state has the rows of each group."""

    def __init__(self, step: Aggregate, schema: t.StructType) -> None:
        self.stage = step
        expect_not_distinct(step)
        self._groups = GroupColumns(step, schema)
        self.output = self._groups.output
        self.evicts = self._groups.timed is not None and step.output_mode is not OutputMode.COMPLETE
        self.is_bounded = self.evicts or not step.groups
        self.wakes = step.output_mode is not OutputMode.COMPLETE
        if step.output_mode is OutputMode.APPEND and self._groups.timed is None:
            raise no_watermark(step.place)

    def spread(self, rows: Rows) -> Rows:
        """Return the rows as they are grouped."""
        return self._groups.spread(rows) if self.stage.groups else [*rows, _NOBODY]

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(map(hashable, self._groups.key(row)))

    def is_late(self, row: Row, watermark_ms: int) -> bool:
        """Return whether the group of a row has been evicted."""
        return self.evicts and is_past(self._groups.time(row), watermark_ms)

    def run(self, rows: Rows, store: Store, times: BatchTimes, step: Step) -> TaskResult:
        """Run a task."""
        changed = store.copy()
        table = changed.lists.setdefault("rows", {})
        touched = dict[Key, None]()
        for row in rows:
            step("row")
            key = self.key_of(row)
            touched[key] = None
            table[key] = table.get(key, ()) if row is _NOBODY else (*table.get(key, ()), (row, None))
        due = evict(table, lambda key: self._time(table[key]), times.watermark_ms) if self.evicts else []
        mode = self.stage.output_mode
        reported = due if mode is OutputMode.APPEND else list(touched if mode is OutputMode.UPDATE else table)
        out = []
        for key in reported:
            step("output")
            out.append(self._result(table[key]))
        for key in due:
            del table[key]
        return TaskResult(out, changed)

    def _time(self, held: tuple[Held, ...]) -> int | None:
        return self._groups.time(held[0][0])

    def _result(self, held: tuple[Held, ...]) -> Row:
        rows = [row for row, _ in held]
        return self._groups.result(self._groups.key(rows[0]) if rows else (), rows)


class SessionWindows:
    """``groupBy(session_window(...), ...)``. Its state has the sessions of each key, each with its rows."""

    def __init__(self, step: Aggregate, schema: t.StructType) -> None:
        expect_not_distinct(step)
        self.stage = step
        place = next(place for place, node in enumerate(step.groups) if is_session(node))
        call = step.groups[place]
        while call.name == "as":
            call = call.args[0]
        self._at = time_of(bind(call.args[0], schema))
        self._gap = _gap(call, schema)
        self._place, self._width = place, len(schema.fields)
        window = t.StructType([t.StructField("start", _TIME), t.StructField("end", _TIME)])
        extended = t.StructType([*schema.fields, t.StructField(_SESSION, window)])
        groups = [*step.groups]
        groups[place] = Recorded("field", (self._width, step.output.names[place]), call.place)
        keys = [bind(node, extended) for node in groups]
        self._keys = [key for number, key in enumerate(keys) if number != place]
        self._values = [bind(node, extended, [key.name for key in keys]) for node in step.values]
        mark = _mark_of(call, schema)
        marks = [mark if number == place else None for number in range(len(step.output))]
        self.output = relabeled(step.output, step.output.names, marks)
        self.evicts = mark is not None and step.output_mode is not OutputMode.COMPLETE
        self.is_bounded = self.evicts
        self.wakes = step.output_mode is not OutputMode.COMPLETE
        if step.output_mode is OutputMode.APPEND and mark is None:
            raise no_watermark(step.place)
        if step.output_mode is OutputMode.UPDATE:
            problem = "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: update, for session windows"
            raise SparkJobError(problem, step.place, "Choose outputMode('append')")
        if not self._keys:
            problem = (
                "Global aggregation with session window in streaming query is not supported (STREAM_FAILED)"
            )
            raise SparkJobError(problem, step.place, "Group by a column as well")

    def spread(self, rows: Rows) -> Rows:
        """Return the rows, each with the session that it is alone."""
        return [(*row, session) for row in rows for session in self._alone(row)]

    def _alone(self, row: Row) -> Iterator[tuple[Any, Any]]:
        at, gap_us = self._at.value(row), self._gap(row)
        if at is not None and gap_us is not None and gap_us > 0:
            yield at, _TIME.fromInternal(_TIME.toInternal(at) + gap_us)

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(hashable(key.value(row)) for key in self._keys)

    def is_late(self, row: Row, watermark_ms: int) -> bool:
        """Return whether the session that a row is alone has ended."""
        return self.evicts and is_past(_TIME.toInternal(row[self._width][1]), watermark_ms)

    def run(self, rows: Rows, store: Store, times: BatchTimes, step: Step) -> TaskResult:
        """Run a task."""
        changed = store.copy()
        table = changed.lists.setdefault("sessions", {})
        for row in rows:
            step("row")
            key = self.key_of(row)
            sessions = [held for held, _ in table.get(key, ())]
            table[key] = self._merged([*sessions, (*row[self._width], (row,))])
        out: list[Row] = []
        for key in sorted(table, key=repr):
            ended = [held for held, _ in table[key] if is_past(_TIME.toInternal(held[1]), times.watermark_ms)]
            reported = (
                ended if self.stage.output_mode is OutputMode.APPEND else [held for held, _ in table[key]]
            )
            for session in reported:
                step("output")
                out.append(self._result(session))
            left = tuple(cell for cell in table[key] if not self.evicts or cell[0] not in ended)
            put_or_drop(table, key, left)
        return TaskResult(out, changed)

    @staticmethod
    def _merged(sessions: list[Row]) -> tuple[Held, ...]:
        """Merge sessions that touch."""
        merged: list[Row] = []
        for start, end, rows in sorted(sessions, key=lambda session: session[:2]):
            if merged and start <= merged[-1][1]:
                first, last, before = merged[-1]
                merged[-1] = (first, max(last, end), (*before, *rows))
            else:
                merged.append((start, end, rows))
        return tuple((session, None) for session in merged)

    def _result(self, session: Row) -> Row:
        start, end, held = session
        rows = [(*row[: self._width], t._create_row(["start", "end"], (start, end))) for row in held]
        key = [each.value(rows[0]) for each in self._keys]
        key.insert(self._place, rows[0][self._width])
        return (*key, *(value.value(rows) for value in self._values))


def is_session(node: Recorded) -> bool:
    """Return whether a group is a session window."""
    return node.name == _SESSION or (node.name == "as" and is_session(node.args[0]))


def _gap(call: Recorded, schema: t.StructType) -> Callable[[Row], int | None]:
    """Return what reads the gap that ends a session, in microseconds, which may depend on the row."""
    gap = call.args[1]
    if not isinstance(gap, Recorded):
        length = _length_us(str(gap), call)
        return lambda _row: length
    text = bind(gap, schema)
    if not isinstance(text.type, t.StringType):
        what = "session_window() with a gap that is no text"
        raise CannotFollowError(what, call.place, "Write it as '5 minutes'")
    return lambda row: None if (gap_text := text.value(row)) is None else _length_us(gap_text, call)


def _length_us(text: str, call: Recorded) -> int | None:
    if clock_is_moved() and re.search("day|week", text, re.IGNORECASE):
        what = f"session_window() with a gap of {text} in a time zone whose clocks are moved"
        raise CannotFollowError(what, call.place, "Write it in hours, or use a zone such as UTC")
    return interval_us(text)


class Deduplication:
    """``dropDuplicates`` and ``dropDuplicatesWithinWatermark``. Its state has the keys, and when each counts as new again."""

    wakes = True

    def __init__(self, step: Deduplicate, schema: t.StructType) -> None:
        self.stage, self.output = step, schema
        self._time = time_in(schema)
        keys = t.StructType([field for field in schema.fields if field.name in step.keys])
        self._places = [schema.fields.index(field) for field in keys]
        self._key_time = time_in(keys)
        self._delay_us = delay_us(schema)
        self.is_bounded = self._key_time is not None or step.within_watermark
        if step.within_watermark and self._time is None:
            problem = "dropDuplicatesWithinWatermark() without a watermark (AnalysisException)"
            raise SparkJobError(problem, step.place, "Call withWatermark() before")

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(hashable(row[place]) for place in self._places)

    def is_late(self, row: Row, watermark_ms: int) -> bool:
        """Return whether a row is behind the watermark."""
        return self._time is not None and is_past(self._time(row), watermark_ms)

    def run(self, rows: Rows, store: Store, times: BatchTimes, step: Step) -> TaskResult:
        """Run a task."""
        changed = store.copy()
        table = changed.values.setdefault("seen", {})
        out = []
        for row in rows:
            step("row")
            key = self.key_of(row)
            if key not in table:
                table[key] = ((self._expiry_us(row),), None)
                step("output")
                out.append(row)
        for key in evict(table, lambda key: table[key][0][0], times.watermark_ms):
            del table[key]
        return TaskResult(out, changed)

    def _expiry_us(self, row: Row) -> int | None:
        if self.stage.within_watermark:
            assert self._time is not None
            return (self._time(row) or 0) + self._delay_us
        return None if self._key_time is None else self._key_time(tuple(row[place] for place in self._places))


class Limitation:
    """``limit`` of a stream. Its state counts the rows that went through."""

    wakes, is_bounded = False, True

    def __init__(self, step: Limit, schema: t.StructType) -> None:
        self.stage, self.output = step, schema

    def key_of(self, _row: Row) -> Key:
        """Return the one key of all rows."""
        return ()

    def is_late(self, _row: Row, _watermark_ms: int) -> bool:
        """Return that no row is late."""
        return False

    def run(self, rows: Rows, store: Store, _times: BatchTimes, step: Step) -> TaskResult:
        """Run a task."""
        changed = store.copy()
        table = changed.values.setdefault("count", {})
        ((count,), _) = table.get((), ((0,), None))
        first = rows[: max(0, self.stage.count - count)]
        for _ in first:
            step("row")
        if first:
            table[()] = ((count + len(first),), None)
        return TaskResult(list(first), changed)


def expect_not_distinct(step: Aggregate) -> None:
    """Expect aggregates that Spark computes of a stream. Raise `SparkJobError` if one is of distinct values."""
    if {part.name for part in parts_of(step.values)} & {"count_distinct", "sum_distinct"}:
        problem = (
            "Distinct aggregations are not supported on streaming DataFrames/Datasets (AnalysisException)"
        )
        raise SparkJobError(problem, step.place, "Use approx_count_distinct(), or collect_set() and size()")


def parts_of(node: Any) -> Iterator[Recorded]:
    """Yield a column and what it is computed from."""
    if isinstance(node, list | tuple):
        for part in node:
            yield from parts_of(part)
    elif isinstance(node, Recorded):
        yield node
        yield from parts_of(node.args)


def no_watermark(place: str) -> SparkJobError:
    """Return Spark's refusal of an aggregate that append mode could never give out."""
    problem = (
        "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] append mode without a watermark on what is grouped by"
    )
    remedy = "Group by a window of a column that has withWatermark(), or choose outputMode('update')"
    return SparkJobError(problem, place, remedy)
