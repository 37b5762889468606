"""What PySpark's client sends for ``df.write`` and ``df.writeTo``, as requests to the model of tables."""

from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.errors import AnalysisException

from headrace_sim.spark.plan.plan_expressions import refuse_unread
from headrace_sim.spark.plan.relations import Compiler
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.tables.connectors import TARGETS
from headrace_sim.spark.tables.table_versions import ColumnMatch, Replaces, SaveMode, WriteRequest
from headrace_sim.spark.tables.tables import Tables

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
