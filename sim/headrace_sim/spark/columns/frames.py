"""Rows of a frame in memory, and what a plan does to them.

Rows are tuples with a schema; columns are recorded calls, evaluated in Python (`expressions`). Nothing is lazy. A call that is
not simulated raises `CannotFollowError`, which names the call and its place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import ALIAS, Bound, hashable, time_kept
from headrace_sim.spark.columns.expressions import bind, expand
from headrace_sim.spark.columns.in_force import folded
from headrace_sim.spark.columns.joins import joined, kind_of_join
from headrace_sim.spark.columns.recorded import OF_A_FRAME, Recorded
from headrace_sim.spark.columns.whole_columns import Partition, computed_first, needs_rows, windows_in
from headrace_sim.spark.columns.window_functions import places_in_order
from headrace_sim.spark.refusals import CannotFollowError


def column(name: str, place: str = "") -> Recorded:
    """Return the column of a name."""
    return Recorded("col", (name,), place)


def relabeled(
    schema: t.StructType, names: Sequence[str], metadata: Sequence[dict[str, Any] | None]
) -> t.StructType:
    """Return a schema with other names and metadata."""
    parts = zip(names, schema.fields, metadata, strict=True)
    return t.StructType([t.StructField(name, old.dataType, old.nullable, new) for name, old, new in parts])


class Rows:
    """Rows in memory.

    ``partitions``: the rows, as tuples, in their partitions. ``streaming``: whether they stand for a stream, in which some
    calls are not allowed.
    """

    def __init__(
        self, schema: t.StructType, partitions: Sequence[Partition], *, streaming: bool = False
    ) -> None:
        self.schema = schema
        self.partitions = tuple(partitions)
        self.streaming = streaming

    def with_rows(self, schema: t.StructType, partitions: Sequence[Partition]) -> "Rows":
        """Return other rows of the same frame or stream."""
        return Rows(schema, partitions, streaming=self.streaming)

    def all(self) -> list[tuple[Any, ...]]:
        """Return the rows of all partitions."""
        return [row for partition in self.partitions for row in partition]

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    def select(self, nodes: Sequence[Recorded]) -> "Rows":
        """Compute columns."""
        return selecting(nodes, self.schema)(self)

    def computed_first(
        self, nodes: list[Recorded]
    ) -> tuple[list[Recorded], t.StructType, Sequence[Partition]]:
        """Compute the calls in columns that need more than one row, as `whole_columns.computed_first` does."""
        if self.streaming and any(windows_in(nodes)):
            message = "[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING] Window functions are for batches: use them in foreachBatch()"
            raise AnalysisException(message=message)
        return computed_first(nodes, self.schema, self.partitions)

    def with_columns(self, columns: Mapping[str, Recorded]) -> "Rows":
        """Add columns, or replace those with these names."""
        return adding(columns, self.schema)(self)

    def renamed(self, names: Mapping[str, str]) -> "Rows":
        """Rename columns, by their old names, ignoring missing ones."""
        new_names = {folded(old): new for old, new in names.items()}
        return self.named([new_names.get(folded(name), name) for name in self.schema.names])

    def named(self, names: Sequence[str]) -> "Rows":
        """Rename all columns."""
        if len(names) != len(self.schema.fields):
            counts = f"{len(names)} names for {len(self.schema.fields)} columns"
            raise AnalysisException(message=f"[NUM_COLUMNS_MISMATCH] toDF() got {counts}")
        kept = [time_kept(field.metadata) for field in self.schema.fields]
        return self.with_rows(relabeled(self.schema, names, kept), self.partitions)

    def without(self, nodes: Sequence[Recorded]) -> "Rows":
        """Drop columns, ignoring missing ones."""
        names = [folded(name) for name in self.schema.names]
        dropped = {folded(str(node.args[0]).strip("`")) for node in nodes}
        for node in nodes:
            if node.name != "col":
                raise CannotFollowError("drop() with a computed column", node.place, "Name the column")
            if OF_A_FRAME in node.args and names.count(folded(str(node.args[0]))) > 1:
                bind(node, self.schema)
        fields = expand(column("*"), self.schema)
        return self.select([field for field, name in zip(fields, names, strict=True) if name not in dropped])

    def filter(self, condition: Recorded) -> "Rows":
        """Keep the rows for which a column is true."""
        return keeping(condition, self.schema)(self)

    def first(self, count: int) -> "Rows":
        """Keep the first rows."""
        return self.with_rows(self.schema, [tuple(self.all()[:count])])

    def distinct(self, names: Sequence[str] = ()) -> "Rows":
        """Keep one row for each value of some columns, or of all."""
        nodes = [column(f"`{name}`") for name in names] or expand(column("*"), self.schema)
        keys = [bind(node, self.schema).value for node in nodes]
        kept = {tuple(hashable(key(row)) for key in keys): row for row in reversed(self.all())}
        return self.with_rows(self.schema, [tuple(reversed(kept.values()))])

    def without_nulls(self, names: Sequence[str], least: int | None) -> "Rows":
        """Drop rows with fewer values than ``least`` in some columns, or in all; None: with any null."""
        chosen = names or self.schema.names
        needed = len(chosen) if least is None else least
        values = [bind(column(f"`{name}`"), self.schema).value for name in chosen]

        def kept(row: tuple[Any, ...]) -> bool:
            return sum(value(row) is not None for value in values) >= needed

        return self.with_rows(self.schema, [tuple(filter(kept, part)) for part in self.partitions])

    def filled(self, values: Mapping[str, Any]) -> "Rows":
        """Replace nulls, and NaN, by the values of columns."""
        return self.with_columns({name: self._filled(name, value) for name, value in values.items()})

    def of_sort(self, value: Any, names: Sequence[str]) -> list[str]:
        """Return those of some columns, or of all, that may have a value of the same sort."""
        sort: Any = t.NumericType
        if isinstance(value, (bool, str)):
            sort = t.BooleanType if isinstance(value, bool) else t.StringType
        chosen = {folded(bind(column(f"`{name}`"), self.schema).name) for name in names or self.schema.names}
        alike = [part.name for part in self.schema.fields if isinstance(part.dataType, sort)]
        return [name for name in alike if folded(name) in chosen]

    def _filled(self, name: str, value: Any) -> Recorded:
        node = column(f"`{name}`")
        kind = bind(node, self.schema).type
        instead = Recorded("cast", (Recorded("lit", (value,), ""), kind), "")
        if isinstance(kind, (t.DoubleType, t.FloatType)):
            nothing = Recorded("lit", (None,), "")
            when = Recorded("when", (Recorded("isnan", (node,), ""), nothing), "")
            node = Recorded("otherwise", (when, node), "")
        return Recorded("coalesce", ([node, instead],), "")

    def union(self, other: "Rows", place: str) -> "Rows":
        """Append the rows of another frame, matching columns by position."""
        if len(other.schema.fields) != len(self.schema.fields):
            message = "[NUM_COLUMNS_MISMATCH] UNION needs frames with the same number of columns"
            raise AnalysisException(message=message)
        for one, two in zip(self.schema.fields, other.schema.fields, strict=True):
            if one.dataType != two.dataType and one.dataType.simpleString() != two.dataType.simpleString():
                types = f"{one.dataType.simpleString()} and {two.dataType.simpleString()}"
                remedy = f"Cast the column {one.name!r} of both frames to one type before"
                raise CannotFollowError(f"union() of columns of types {types}", place, remedy)
        return self.with_rows(self.schema, (*self.partitions, *other.partitions))

    def in_columns_of(self, other: "Rows") -> "Rows":
        """Return it with its columns in the order of another frame."""
        if len(other.schema.fields) != len(self.schema.fields):
            return self
        return self.select([column(f"`{name}`") for name in other.schema.names])

    def with_columns_of(self, other: "Rows") -> "Rows":
        """Add the columns that it lacks and another frame has, as nulls."""
        known = {folded(name) for name in self.schema.names}
        nothing = Recorded("lit", (None,), "")
        lacking = [part for part in other.schema.fields if folded(part.name) not in known]
        nulls = {part.name: Recorded("cast", (nothing, part.dataType), "") for part in lacking}
        return self.with_columns(nulls)

    def join(self, other: "Rows", on: Any, kind: str, place: str) -> "Rows":
        """Join another frame, by names of columns, or a condition, or neither."""
        sides = (self.schema, self.all()), (other.schema, other.all())
        schema, rows = joined(*sides, kind_of_join(kind), on, place)
        return self.with_rows(schema, [tuple(rows)])

    def sort(self, nodes: Sequence[Recorded]) -> "Rows":
        """Sort the rows: nulls first, or last if descending."""
        rows = self.all()
        order = places_in_order(rows, list(nodes), self.schema)
        return self.with_rows(self.schema, [tuple(rows[place] for place in order)])

    def coalesce(self, count: int) -> "Rows":
        """Merge the rows into fewer partitions."""
        return self.repartition(min(count, len(self.partitions)))

    def repartition(self, count: int) -> "Rows":
        """Distribute the rows over this many partitions."""
        rows = self.all()
        return self.with_rows(self.schema, [tuple(rows[start::count]) for start in range(count)])

    def alias(self, alias: str) -> "Rows":
        """Name the frame, for columns such as ``F.col("alias.name")``."""
        known = [{**(time_kept(field.metadata) or {}), ALIAS: alias} for field in self.schema.fields]
        return self.with_rows(relabeled(self.schema, self.schema.names, known), self.partitions)

    def aggregate(
        self, keys: Sequence[Recorded], nodes: Sequence[Recorded], *, only_schema: bool = False
    ) -> "Rows":
        """Group the rows by columns, and aggregate each group; or return only the columns of that."""
        by_columns, schema, partitions = self.computed_first([*keys])
        by = [bind(node, schema) for node in by_columns]
        columns = [bind(node, schema, [key.name for key in by]) for node in nodes]
        groups: dict[Any, list[tuple[Any, ...]]] = {} if by or only_schema else {(): []}
        for row in chain.from_iterable(partitions):
            groups.setdefault(tuple(hashable(key.value(row)) for key in by), []).append(row)
        fields = [t.StructField(bound.name, bound.type, bound.nullable) for bound in (*by, *columns)]
        rows = [
            (*(key.value(group[0]) for key in by), *(bound.value(group) for bound in columns))
            for group in groups.values()
        ]
        return self.with_rows(t.StructType(fields), [tuple(rows)])


# What is done to all rows of a schema, bound to it once

Change = Callable[[Rows], Rows]
"""What is done to rows of a schema."""
_Finish = Callable[[Rows, Sequence[Partition]], Rows]


def selecting(nodes: Sequence[Recorded], schema: t.StructType) -> Change:
    """Return what computes columns."""
    expanded = [part for node in nodes for part in expand(node, schema)]
    return _bound(
        expanded, schema, lambda computed, full: _computing([bind(node, full) for node in computed])
    )


def adding(columns: Mapping[str, Recorded], schema: t.StructType) -> Change:
    """Return what adds columns, or replaces those with these names."""

    def bound(computed: list[Recorded], full: t.StructType) -> _Finish:
        named = {
            folded(name): replace(value, name=name, metadata=time_kept(value.metadata))
            for name, value in zip(columns, (bind(node, full) for node in computed), strict=True)
        }
        fields = zip(schema.names, expand(column("*"), schema), strict=True)
        kept = [
            named.pop(folded(name)) if folded(name) in named else bind(field, full) for name, field in fields
        ]
        return _computing([*kept, *named.values()])

    return _bound([*columns.values()], schema, bound)


def keeping(condition: Recorded, schema: t.StructType) -> Change:
    """Return what keeps the rows for which a column is true."""
    if any(windows_in(condition)):
        message = "[WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE] A window function is in a condition"
        raise AnalysisException(message=message)

    def bound(computed: list[Recorded], full: t.StructType) -> _Finish:
        test, width = bind(computed[0], full), len(schema.fields)
        if not isinstance(test.type, (t.BooleanType, t.NullType)):
            problem = f"{test.name} is {test.type.simpleString()}, not BOOLEAN"
            raise AnalysisException(message=f"[DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN] {problem}")
        return lambda rows, partitions: rows.with_rows(
            schema, [tuple(row[:width] for row in part if test.value(row)) for part in partitions]
        )

    return _bound([condition], schema, bound)


def _bound(
    nodes: list[Recorded], schema: t.StructType, bound: Callable[[list[Recorded], t.StructType], _Finish]
) -> Change:
    """Return what computes columns. ``bound``: binds them; anew each time if other rows, chance or the clock count."""
    if not needs_rows(nodes):
        finish = bound(nodes, schema)
        return lambda rows: finish(rows, rows.partitions)

    def change(rows: Rows) -> Rows:
        computed, full, partitions = rows.computed_first(nodes)
        return bound(computed, full)(rows, partitions)

    return change


def _computing(columns: list[Bound]) -> _Finish:
    schema = t.StructType([column.field for column in columns])
    values = [column.value for column in columns]
    return lambda rows, partitions: rows.with_rows(
        schema, [tuple(tuple(value(row) for value in values) for row in part) for part in partitions]
    )
