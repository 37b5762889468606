"""Relations of a Connect plan, compiled once into functions of the rows at their leaves.

`Compiler.compiled` reads a tree of relations; calling the result evaluates it. A field of the protocol that is set and not read
here is refused, and so is a relation of another kind.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.columns.bound import hashable
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.draws import frame_of_draws
from headrace_sim.spark.columns.evaluations import note_rows
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Change, Rows, adding, column, keeping, selecting
from headrace_sim.spark.columns.held import held
from headrace_sim.spark.columns.in_force import all_in_force
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.values import InputRows, OutputRows, as_tuple
from headrace_sim.spark.plan.plan_expressions import (
    Reading,
    kind_of,
    literal_of,
    marked,
    placed,
    refuse_unread,
    user_function,
)
from headrace_sim.spark.pyspark_versions import PythonEvalType, rows_of
from headrace_sim.spark.real.answers import by_spark, expect_askable
from headrace_sim.spark.real.questions import inputs_asked
from headrace_sim.spark.refusals import CannotFollowError

Computed = Callable[[], Rows]
"""A relation, ready to be evaluated."""
Leaf = Callable[[pb.Relation, str], Computed]
"""Compiles a relation that has no input: a table, a file, a batch. The second argument is its place."""
_REMEDY = "Write it with other calls of the DataFrame, or do it in Python"


@dataclass(slots=True)
class Compiler:
    """Compiles relations."""

    leaf: Leaf  # compiles those without an input
    places: Mapping[int, str] = field(default_factory=dict)  # ``file:line`` of the user's code, by plan id
    # the user's functions that have a name in the session
    functions: dict[str, UserDefinedFunction] = field(default_factory=dict)
    # relations, by plan id, that are not compiled but given: the rows before a step of a stream
    known: Mapping[int, Computed] = field(default_factory=dict)
    analysis: bool = False  # whether only schemas matter: the user's functions are not called

    def compiled(self, relation: pb.Relation) -> Computed:
        """Return a relation, ready to be evaluated. Raise `CannotFollowError` if it has a part that is not simulated."""
        if (computed_before := self.known.get(relation.common.plan_id)) is not None:
            return computed_before
        kind, place = relation.WhichOneof("rel_type") or "", self.place(relation)
        if kind in LEAVES:
            return self.leaf(relation, place)
        known = _BY_SPARK.get(relation.common.plan_id)
        if known is not None:
            return self._by_spark(relation, known)
        try:
            computed = self._followed(relation, kind, place)
        except CannotFollowError as cannot:
            return self._by_spark(relation, cannot)
        return _Tried(computed, lambda cannot: self._by_spark(relation, cannot), relation.common.plan_id)

    def _by_spark(self, relation: pb.Relation, cannot: CannotFollowError) -> Computed:
        """Return a relation, computed by the real Spark from what is computed here."""
        expect_askable(relation, self.functions, cannot)
        if relation.common.plan_id:
            _BY_SPARK[relation.common.plan_id] = cannot
        inputs = list(map(self.compiled, inputs_asked(relation)))
        return lambda: by_spark(relation, [table() for table in inputs], cannot)

    def _followed(self, relation: pb.Relation, kind: str, place: str) -> Computed:
        if kind == "with_relations":  # a query in text that is not understood wholly
            return self.leaf(relation, place)
        if kind not in _KINDS:
            raise CannotFollowError(f"DataFrame.{_CALLS.get(kind, kind)}()", place, _REMEDY)
        read, fields = _KINDS[kind]
        message = getattr(relation, kind)
        refuse_unread(message, fields, place)
        return read(self, message, place)

    def place(self, relation: pb.Relation) -> str:
        """Return the place of a relation in the user's code."""
        return self.places.get(relation.common.plan_id, "unknown:0")

    def reading(self, place: str) -> Reading:
        """Return what columns are read with."""
        return Reading(place, self.functions)

    def nodes(self, expressions: Any, place: str) -> list[Recorded]:
        """Return columns as trees of calls."""
        return list(map(self.reading(place), expressions))


@dataclass(frozen=True, slots=True)
class _Tried:
    """A relation that is evaluated here if it can be. A pickled copy, which leaves its session, is not asked of Spark."""

    computed: Computed
    by_spark: Callable[[CannotFollowError], Computed]
    number: int

    def __call__(self) -> Rows:
        try:
            with frame_of_draws(self.number):
                return self.computed()
        except CannotFollowError as cannot:
            return self.by_spark(cannot)()

    def __reduce__(self) -> Any:
        return partial, (self.computed,)


@dataclass(slots=True)
class _Once:
    """A relation whose columns are bound again only where its input has another schema, or settings are others."""

    inner: Computed
    bind: Callable[[t.StructType], Change]  # for a schema
    known: tuple[t.StructType, dict[str, str], Change] | None = (
        None  # the last, and what they were bound under
    )

    def __call__(self) -> Rows:
        rows, settings = self.inner(), all_in_force()
        if self.known is None or self.known[0] is not rows.schema or self.known[1] != settings:
            self.known = rows.schema, settings, self.bind(rows.schema)
        return self.known[2](rows)

    def __reduce__(self) -> Any:
        return _Once, (self.inner, self.bind)


_BY_SPARK: dict[int, CannotFollowError] = {}
"""The relations that the real Spark computes, by plan id, and why. They are known once a frame is made, which analyzes it."""
LEAVES = frozenset({
    "cached_local_relation", "cached_remote_relation", "chunked_cached_local_relation", "local_relation", "range", "read",
    "sql",
})  # fmt: skip
"""The kinds of relations that have no input."""


def local_rows(message: Any) -> tuple[t.StructType, list[tuple[Any, ...]]]:
    """Return the schema and the rows that a plan itself holds, as `createDataFrame` does."""
    table = pa.ipc.open_stream(message.data).read_all() if message.data else None
    schema = None
    if message.schema:
        as_json = message.schema.startswith("{")
        schema = t._parse_datatype_json_string(message.schema) if as_json else parse_schema(message.schema)
    if table is None:
        return schema or t.StructType([]), []
    schema = schema or from_arrow_schema(table.schema)
    rows = rows_of(table, schema)
    return schema, [as_tuple(tuple(row), schema) for row in rows]


def _project(compiler: Compiler, message: Any, place: str) -> Computed:
    nodes = compiler.nodes(message.expressions, place)
    if not message.HasField("input"):
        return lambda: Rows(t.StructType([]), [((),)]).select(nodes)
    return _Once(compiler.compiled(message.input), partial(selecting, nodes))


def _filter(compiler: Compiler, message: Any, place: str) -> Computed:
    condition = compiler.reading(place)(message.condition)
    return _Once(compiler.compiled(message.input), partial(keeping, condition))


def _with_columns(compiler: Compiler, message: Any, place: str) -> Computed:
    read = compiler.reading(place)
    columns = {alias.name[0]: read(alias.expr) for alias in message.aliases}
    return _Once(compiler.compiled(message.input), partial(adding, columns))


def _renamed(compiler: Compiler, message: Any, _place: str) -> Computed:
    inner = compiler.compiled(message.input)
    names = {rename.col_name: rename.new_col_name for rename in getattr(message, "renames", ())}
    names = names or dict(message.rename_columns_map)
    return lambda: inner().renamed(names)


def _drop(compiler: Compiler, message: Any, place: str) -> Computed:
    inner, nodes = compiler.compiled(message.input), compiler.nodes(message.columns, place)
    nodes += [column(name, place) for name in message.column_names]
    return lambda: inner().without(nodes)


def _sort(compiler: Compiler, message: Any, place: str) -> Computed:
    inner, read = compiler.compiled(message.input), compiler.reading(place)
    nodes = [read.order(order) for order in message.order]
    return lambda: inner().sort(nodes)


def _of_input(change: Callable[[Rows, Any], Rows]) -> Callable[[Compiler, Any, str], Computed]:
    """Return what compiles a relation whose rows are those of its input, changed as its message says."""

    def read(compiler: Compiler, message: Any, _place: str) -> Computed:
        inner = compiler.compiled(message.input)
        return lambda: change(inner(), message)

    return read


def _repartitioned(rows: Rows, message: Any) -> Rows:
    merges = message.HasField("shuffle") and not message.shuffle
    return (rows.coalesce if merges else rows.repartition)(message.num_partitions)


def _without_nulls(rows: Rows, message: Any) -> Rows:
    least = message.min_non_nulls if message.HasField("min_non_nulls") else None
    return rows.without_nulls(list(message.cols), least)


def _as_it_is(rows: Rows, _message: Any) -> Rows:
    return rows


def _fill_null(compiler: Compiler, message: Any, _place: str) -> Computed:
    inner, names = compiler.compiled(message.input), list(message.cols)
    values = [literal_of(value) for value in message.values]
    if len(values) > 1:
        return lambda: inner().filled(dict(zip(names, values, strict=True)))

    def filled() -> Rows:
        rows = inner()
        return rows.filled(dict.fromkeys(rows.of_sort(values[0], names), values[0]))

    return filled


def _set_operation(compiler: Compiler, message: Any, place: str) -> Computed:
    left, right = compiler.compiled(message.left_input), compiler.compiled(message.right_input)
    if message.set_op_type != message.SET_OP_TYPE_UNION:
        name = pb.SetOperation.SetOpType.Name(message.set_op_type).removeprefix("SET_OP_TYPE_").lower()
        raise CannotFollowError(f"DataFrame.{name}()", place, _REMEDY)

    def united() -> Rows:
        one, two = left(), right()
        if message.allow_missing_columns:
            one, two = one.with_columns_of(two), two.with_columns_of(one)
        rows = one.union(two.in_columns_of(one) if message.by_name else two, place)
        return rows if message.is_all else rows.distinct()

    return united


_JOINS = {
    "JOIN_TYPE_CROSS": "cross", "JOIN_TYPE_FULL_OUTER": "outer", "JOIN_TYPE_INNER": "inner", "JOIN_TYPE_LEFT_ANTI": "left_anti",
    "JOIN_TYPE_LEFT_OUTER": "left", "JOIN_TYPE_LEFT_SEMI": "left_semi", "JOIN_TYPE_RIGHT_OUTER": "right",
}  # fmt: skip


def join_of(message: Any) -> str:
    """Return the kind of a join: ``left``."""
    return _JOINS[pb.Join.JoinType.Name(message.join_type)]


def _join(compiler: Compiler, message: Any, place: str) -> Computed:
    left, right, kind = compiler.compiled(message.left), compiler.compiled(message.right), join_of(message)
    on: Any = list(message.using_columns) or None
    if message.HasField("join_condition"):
        on = compiler.reading(place)(marked(message.join_condition, (message.left, message.right)))

    def both() -> Rows:
        mine, its = left(), right()
        keys = placed(on, (mine.schema, its.schema))
        return mine.join(its, keys, "inner" if kind == "cross" else kind, place)

    return both


def _aggregate(compiler: Compiler, message: Any, place: str) -> Computed:
    if message.group_type != message.GROUP_TYPE_GROUPBY:
        name = pb.Aggregate.GroupType.Name(message.group_type).removeprefix("GROUP_TYPE_").lower()
        raise CannotFollowError(f"DataFrame.{name}()", place, _REMEDY)
    inner = compiler.compiled(message.input)
    keys = compiler.nodes(message.grouping_expressions, place)
    columns = compiler.nodes(message.aggregate_expressions, place)
    return lambda: inner().aggregate(keys, columns, only_schema=compiler.analysis)


def _map_partitions(compiler: Compiler, message: Any, place: str) -> Computed:
    inner, function = compiler.compiled(message.input), user_function(message.func)
    if function.evalType != PythonEvalType.SQL_MAP_PANDAS_ITER_UDF:
        raise CannotFollowError("DataFrame.mapInArrow()", place, "Use mapInPandas()")
    if compiler.analysis:
        return lambda: Rows(function.returnType, [])
    out = OutputRows(function.returnType)

    def mapped() -> Rows:
        rows_in = inner()
        read = InputRows(rows_in.schema)
        parts = [
            tuple(out.from_frames(function.func(read.frames(list(rows), None))))
            for rows in rows_in.partitions
        ]
        for rows, part in zip(rows_in.partitions, parts, strict=True):
            note_rows(function.func, place, rows, part)
        return Rows(function.returnType, parts)

    return mapped


def _group_map(compiler: Compiler, message: Any, place: str) -> Computed:
    """``groupBy(...).applyInPandas(...)``: the user's function is called with each group as a pandas frame."""
    inner, function = compiler.compiled(message.input), user_function(message.func)
    keys = compiler.nodes(message.grouping_expressions, place)
    if function.evalType != PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF:
        what = "a function of groups as Arrow tables or iterators"
        raise CannotFollowError(what, place, "Use applyInPandas()")
    takes_key, out = len(signature(function.func).parameters) > 1, OutputRows(function.returnType)
    if compiler.analysis:
        return lambda: Rows(function.returnType, [])

    def mapped() -> Rows:
        rows = inner()
        by, read = [bind(key, rows.schema).value for key in keys], InputRows(rows.schema)
        groups: dict[Any, list[tuple[Any, ...]]] = {}
        for row in rows.all():
            groups.setdefault(tuple(hashable(key(row)) for key in by), []).append(row)
        results: list[tuple[Any, ...]] = []
        for group in groups.values():
            key = (tuple(value(group[0]) for value in by),) if takes_key else ()
            result = out.from_frames(function.func(*key, frame) for frame in read.slices(group))
            note_rows(function.func, place, group, result)
            results += result
        return Rows(function.returnType, [tuple(results)])

    return mapped


def _to_schema(compiler: Compiler, message: Any, place: str) -> Computed:
    inner, wanted = compiler.compiled(message.input), kind_of(message.schema)
    casts = [Recorded("cast", (column(f"`{part.name}`", place), part.dataType), place) for part in wanted]
    nodes = [Recorded("as", named, place) for named in zip(casts, wanted.names, strict=True)]
    return lambda: inner().select(nodes)


def _observed(compiler: Compiler, message: Any, place: str) -> Computed:
    inner, nodes = compiler.compiled(message.input), compiler.nodes(message.metrics, place)

    def rows() -> Rows:
        result, metrics = inner(), _METRICS.get()
        if compiler.analysis:
            result.aggregate([], nodes, only_schema=True)
        elif metrics is not None:
            metrics[message.name] = result.aggregate([], nodes)
        return result

    return rows


_METRICS: ContextVar[dict[str, Rows] | None] = ContextVar("observed metrics", default=None)


def observing() -> AbstractContextManager[dict[str, Rows]]:
    """Collect what is observed in this block: the metrics of each `observe` as a row, by its name."""
    return held(_METRICS, {})


Kind = tuple[Callable[[Compiler, Any, str], Computed], frozenset[str]]


def _kind(read: Callable[[Compiler, Any, str], Computed], *fields: str) -> Kind:
    return read, frozenset({"input", *fields})


_KINDS: dict[str, Kind] = {
    "aggregate": _kind(_aggregate, "group_type", "grouping_expressions", "aggregate_expressions"),
    "collect_metrics": _kind(_observed, "name", "metrics"),
    "deduplicate": _kind(
        _of_input(lambda rows, message: rows.distinct(list(message.column_names))), "column_names", "all_columns_as_keys",
    ),
    "drop": _kind(_drop, "columns", "column_names"),
    "drop_na": _kind(_of_input(_without_nulls), "cols", "min_non_nulls"),
    "fill_na": _kind(_fill_null, "cols", "values"),
    "filter": _kind(_filter, "condition"),
    "group_map": _kind(_group_map, "grouping_expressions", "func"),
    "hint": _kind(_of_input(_as_it_is), "name", "parameters"),
    "join": _kind(_join, "left", "right", "join_condition", "join_type", "using_columns"),
    "limit": _kind(_of_input(lambda rows, message: rows.first(message.limit)), "limit"),
    "map_partitions": _kind(_map_partitions, "func", "is_barrier"),
    "project": _kind(_project, "expressions"),
    "repartition": _kind(_of_input(_repartitioned), "num_partitions", "shuffle"),
    "repartition_by_expression": _kind(_of_input(_as_it_is), "partition_exprs", "num_partitions"),
    "set_op": _kind(_set_operation, "left_input", "right_input", "set_op_type", "is_all", "by_name", "allow_missing_columns"),
    "sort": _kind(_sort, "order", "is_global"),
    "subquery_alias": _kind(_of_input(lambda rows, message: rows.alias(message.alias)), "alias"),
    "to_df": _kind(_of_input(lambda rows, message: rows.named(list(message.column_names))), "column_names"),
    "to_schema": _kind(_to_schema, "schema"),
    "with_columns": _kind(_with_columns, "aliases"),
    "with_columns_renamed": _kind(_renamed, "rename_columns_map", "renames"),
    "with_watermark": _kind(_of_input(_as_it_is), "event_time", "delay_threshold"),  # it means nothing to a batch
}  # fmt: skip
"""The relations that are evaluated: how they are read, and the fields that are."""
_CALLS = {
    "as_of_join": "joinAsOf", "approx_quantile": "approxQuantile", "co_group_map": "cogroup", "freq_items": "freqItems",
    "group_map": "applyInPandas", "sample_by": "sampleBy", "collect_metrics": "observe",
}  # fmt: skip
"""What the user calls relations that are not evaluated, where the protocol has another name."""
