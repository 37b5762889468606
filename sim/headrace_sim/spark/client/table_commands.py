"""What PySpark's client sends to write and read tables, as statements, write requests and readers.

That is ``df.mergeInto``, ``df.write``, ``df.writeTo`` and ``spark.read``.
"""

from collections.abc import Callable
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.plan.plan_expressions import Reading, refuse_unread
from headrace_sim.spark.plan.relations import Compiler
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.spark_job import StreamSource
from headrace_sim.spark.tables.connectors import TARGETS
from headrace_sim.spark.tables.statements import Clause, ColumnAssignment, Match, Merge, MergeAction
from headrace_sim.spark.tables.table_files import rows_of_files
from headrace_sim.spark.tables.table_versions import ColumnMatch, Replaces, SaveMode, WriteRequest
from headrace_sim.spark.tables.tables import Tables


def merge_statement(command: Any, read: Reading) -> Merge:
    """Return the merge that ``df.mergeInto`` asks for."""
    parts = (
        (Match.MATCHED, command.match_actions),
        (Match.NOT_MATCHED, command.not_matched_actions),
        (Match.NOT_MATCHED_BY_SOURCE, command.not_matched_by_source_actions),
    )
    pairs = [(match, action.merge_action) for match, actions in parts for action in actions]
    clauses = tuple(_clause(match, action, read) for match, action in pairs)
    condition = read(command.merge_condition)
    evolves = command.with_schema_evolution
    return Merge(command.target_table_name, command.source_table_plan, condition, clauses, evolves=evolves)


def _clause(match: Match, action: Any, read: Reading) -> Clause:
    kind = pb.MergeAction.ActionType.Name(action.action_type).removeprefix("ACTION_TYPE_")
    act = MergeAction(kind.removesuffix("_STAR"))
    condition = read(action.condition) if action.HasField("condition") else None
    pairs = [(read(part.key), read(part.value)) for part in action.assignments]
    assignments = tuple(ColumnAssignment(str(key.args[0]), value) for key, value in pairs)
    return Clause(match, act, condition, None if kind.endswith("_STAR") else assignments)


def reader(
    tables: Tables, read: Any, place: str, known: Callable[[StreamSource], t.StructType | None]
) -> Callable[[], Rows]:
    """Return what reads a table, or what was written to a path.

    ``tables``: those that are there. ``read``: what is asked. ``place``: ``file:line`` of the user's code. ``known``: returns
    the schema of a table that is there although nothing here has made it, or None.
    """
    if read.HasField("named_table"):
        _refuse_history(read.named_table.options, place)
        name = read.named_table.unparsed_identifier
        return lambda: tables.read(name, known(StreamSource("", "table", t.StructType([]), (), name, place)))
    asked = read.data_source
    options = {name.lower(): value for name, value in asked.options.items()}
    _refuse_history(options, place)
    target = next(iter(asked.paths), None) or next((options[key] for key in TARGETS if key in options), "")
    schema = _schema(asked.schema) if asked.schema else None
    source = (asked.format or "parquet").lower()

    def rows() -> Rows:
        rows_read = None if tables.exists(target) else rows_of_files(target, source, options, schema, place)
        if rows_read is None:
            schema_known = known(StreamSource("", source, t.StructType([]), (), target, place))
            rows_read = tables.read(target, schema_known or (schema if tables.are_of_program else None))
        return rows_read if schema is None else _as(rows_read, schema, place)

    return rows


def _schema(text: str) -> t.StructType:
    return t._parse_datatype_json_string(text) if text.startswith("{") else parse_schema(text)


def _as(rows: Rows, schema: t.StructType, place: str) -> Rows:
    """Return rows as a reader with a schema gives them."""
    known = {column.name.lower(): column.dataType for column in rows.schema.fields}
    for column in schema.fields:
        if column.name.lower() not in known:
            message = f"{column.name} is not in what was written: {', '.join(rows.columns)}"
            raise AnalysisException(message=f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {message}")
        if known[column.name.lower()].simpleString() != column.dataType.simpleString():
            what = f"reading {column.name} as {column.dataType.simpleString()}, which was written as another type,"
            raise CannotFollowError(what, place, "Read it with the type that it was written with")
    names = {column.name.lower(): place for place, column in enumerate(rows.schema.fields)}
    places = [names[column.name.lower()] for column in schema.fields]
    parts = [tuple(tuple(row[place] for place in places) for row in part) for part in rows.partitions]
    return Rows(schema, parts)


def _refuse_history(options: Any, place: str) -> None:
    for name in options:
        if name.lower() in {"timestampasof", "versionasof", "readchangefeed", "readchangedata"}:
            what = f"spark.read with the option {name}"
            raise CannotFollowError(what, place, "Read the table as it is now")


_MODES = {
    "SAVE_MODE_APPEND": SaveMode.APPEND, "SAVE_MODE_ERROR_IF_EXISTS": SaveMode.ERROR, "SAVE_MODE_IGNORE": SaveMode.IGNORE,
    "SAVE_MODE_OVERWRITE": SaveMode.OVERWRITE, "SAVE_MODE_UNSPECIFIED": SaveMode.ERROR,
}  # fmt: skip
_V2_MODES = {
    "MODE_APPEND": SaveMode.APPEND, "MODE_CREATE": SaveMode.ERROR, "MODE_CREATE_OR_REPLACE": SaveMode.OVERWRITE,
    "MODE_OVERWRITE": SaveMode.OVERWRITE, "MODE_OVERWRITE_PARTITIONS": SaveMode.OVERWRITE, "MODE_REPLACE": SaveMode.OVERWRITE,
}  # fmt: skip
_READ = frozenset({
    "bucket_by", "clustering_columns", "input", "mode", "options", "partitioning_columns", "path", "sort_column_names",
    "source", "table",
})  # fmt: skip
_HIDDEN_PARTITIONS = frozenset({"bucket", "days", "hours", "months", "years"})
_READ_V2 = frozenset({
    "clustering_columns", "input", "mode", "options", "overwrite_condition", "partitioning_columns", "provider",
    "table_name", "table_properties",
})  # fmt: skip
"""Buckets, order and clusters do not change which rows exist."""


def request_of(command: pb.WriteOperation, tables: Tables, place: str) -> WriteRequest:
    """Return what ``df.write`` asks for. ``tables``: they know what the session overwrites."""
    refuse_unread(command, _READ, place)
    options = {key.lower(): value for key, value in command.options.items()}
    mode, columns = _MODES[pb.WriteOperation.SaveMode.Name(command.mode)], ColumnMatch.BY_NAME
    if command.HasField("table"):
        target = command.table.table_name.lower()
        if command.table.save_method == command.table.TABLE_SAVE_METHOD_INSERT_INTO:
            mode = SaveMode.OVERWRITE if mode is SaveMode.OVERWRITE else SaveMode.APPEND
            columns = ColumnMatch.BY_PLACE
    else:
        named = next((options[key] for key in TARGETS if key in options), "")
        target = command.path or named or command.source or "parquet"
        target = target.lower() if command.source == "jdbc" else target
    partitions = tuple(name.lower() for name in command.partitioning_columns)
    replaces = tables.replaces(options.get("partitionoverwritemode"))
    return WriteRequest(target, command.source.lower(), mode, options, partitions, replaces, columns=columns)


def request_of_v2(
    command: pb.WriteOperationV2, tables: Tables, compiler: Compiler, place: str
) -> WriteRequest:
    """Return what ``df.writeTo`` asks for.

    ``tables``: they know the format of the table. ``compiler``: reads the columns that it partitions by and goes by. Raise
    `CannotFollowError` if it partitions by a computed column that is no transform of Iceberg's.
    """
    refuse_unread(command, _READ_V2, place)
    name = pb.WriteOperationV2.Mode.Name(command.mode)
    if name not in _V2_MODES:
        raise AnalysisException(message=f"[INVALID_SAVE_MODE] {name}")
    read: Any = compiler.reading(place)
    partitions = []
    for node in map(read, command.partitioning_columns):
        if node.name == "col":
            partitions.append(str(node.args[0]).lower())
        elif node.name not in _HIDDEN_PARTITIONS:
            raise CannotFollowError("partitionedBy() of a computed column", place, "Partition by a column")
    where = read(command.overwrite_condition) if command.HasField("overwrite_condition") else None
    target = command.table_name.lower()
    creates = name in {"MODE_CREATE", "MODE_CREATE_OR_REPLACE", "MODE_REPLACE"}
    partial = name == "MODE_OVERWRITE_PARTITIONS"
    return WriteRequest(
        target, command.provider.lower() or ("" if tables.exists(target) else "iceberg"), _V2_MODES[name],
        {key.lower(): value for key, value in command.options.items()}, tuple(partitions),
        Replaces.PARTITIONS if partial else Replaces.TABLE, where, creates=creates,
    )  # fmt: skip
