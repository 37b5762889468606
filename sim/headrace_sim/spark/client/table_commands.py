"""What PySpark's client sends for ``df.mergeInto`` and ``spark.read``, as a statement and as what reads tables and files."""

from collections.abc import Callable
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.plan.plan_expressions import Reading
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.spark_job import StreamSource
from headrace_sim.spark.tables.connectors import TARGETS
from headrace_sim.spark.tables.statements import Clause, ColumnAssignment, Match, Merge, MergeAction
from headrace_sim.spark.tables.table_files import rows_of_files
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
