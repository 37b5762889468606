"""A table as one effect left it, and what a write makes of it.

Spark's writers come in two kinds. A table format with a log (Delta, Iceberg, Hudi) makes a write visible at once or not at all.
Others (Parquet, JSON and CSV files, JDBC) make it visible part by part: a driver that dies in between leaves some of the rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import Bound, as_type
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Rows, relabeled
from headrace_sim.spark.columns.in_force import CASES, DEFAULTS, STORE, ansi_mode, folded, in_force, is_on
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.refusals import CannotFollowError, users_place
from headrace_sim.spark.tables.connectors import Guarantee, Repeated

Row = tuple[Any, ...]
WITH_A_LOG = frozenset({"delta", "hudi", "iceberg", "org.apache.hudi"})
"""The formats whose writes are visible at once."""


class SaveMode(Enum):
    """What a write does with what is there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


class Replaces(Enum):
    """Which rows ``SaveMode.OVERWRITE`` replaces, if no condition says so."""

    TABLE = "all"
    PARTITIONS = "those of the partitions that are written"


class ColumnMatch(Enum):
    """How the columns of the rows find those of the table."""

    BY_NAME = "by name"
    BY_PLACE = "by place"


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write, as ``df.write``, ``df.writeTo`` or ``INSERT`` ask for it."""

    target: str  # a table's name, or a path
    format: str = "parquet"  # as ``format()`` names it, in lower case; "": that of the table
    mode: SaveMode = SaveMode.ERROR  # what is done with what is there
    options: Mapping[str, Any] = field(default_factory=dict)  # with names in lower case
    partitions: tuple[str, ...] = ()  # the columns that the table is partitioned by, in lower case
    replaces: Replaces = Replaces.TABLE  # which rows are overwritten
    where: Recorded | None = None  # which rows are overwritten, as a column of the table, or None
    columns: ColumnMatch = ColumnMatch.BY_NAME  # how the columns are matched
    creates: bool = False  # whether the table becomes what is written, columns and all (``createOrReplace``)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as one effect left it."""

    schema: t.StructType
    rows: tuple[Row, ...] = ()
    format: str = "delta"
    partitions: tuple[str, ...] = ()  # the columns that it is partitioned by, in lower case
    # the last version that each application wrote, which Delta remembers
    transactions: tuple[tuple[str, int], ...] = ()
    # what the connector does when the write is repeated
    guarantee: Guarantee = Guarantee()  # noqa: RUF009  it is frozen
    location: str = ""  # where its files are, if that was said
    is_assumed: bool = False  # whether nothing in the trial made it: it is taken to be there, and empty
    is_dropped: bool = False  # whether it is gone
    # two rows of one key that the last merge has inserted side by side, if it has
    twins: tuple[Row, ...] = ()

    def pairs(self) -> list[tuple[tuple[str, Any], ...]]:
        """Return the rows as (column, value) pairs."""
        return [tuple(zip(self.schema.names, row, strict=True)) for row in self.rows]


def written(
    table: TableVersion | None, frame: Rows, request: WriteRequest, guarantee: Guarantee
) -> TableVersion:
    """Return the table after a write.

    ``table``: as it was; None: it is new. ``request``: how they are written. ``guarantee``: what the connector does with a
    row that it has. Raise `AnalysisException` if Spark would refuse the rows, or `PySparkException` if the store takes a key
    once only, and has it.
    """
    transaction = _transaction(request)
    seen = dict(table.transactions) if table is not None else {}
    if table is not None and transaction is not None and seen.get(transaction[0], -1) >= transaction[1]:
        return replace(table, guarantee=guarantee)
    known = table or TableVersion(frame.schema)
    if request.format in WITH_A_LOG or request.partitions or known.partitions or guarantee.keys:
        refuse_cases(request.target, [*known.schema.names, *frame.columns])
    schema = _schema(table, frame, request)
    old = [] if table is None else aligned(table.schema, table.rows, schema)
    new = _converted(frame, schema, request)
    if guarantee.repeated is not Repeated.ADDS:
        rows = _by_key(old, new, schema, request, guarantee)
    else:
        rows = [*_kept(old, new, schema, table, request), *new]
    known = table or TableVersion(schema)
    return TableVersion(
        schema, tuple(rows), request.format or known.format, request.partitions or known.partitions,
        tuple((seen | dict([transaction] if transaction else [])).items()), guarantee,
        str(request.options.get("path") or known.location), known.is_assumed,
    )  # fmt: skip


def refuse_cases(target: str, names: Iterable[str]) -> None:
    """Raise `CannotFollowError` if columns of a table differ by case only, and the session tells cases apart."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name and is_on(CASES):
            what = f"columns of {target} that differ by case only ({other}, {name}), with {CASES}=true,"
            raise CannotFollowError(what, users_place(), "Spell a name in one way")


def aligned(own: t.StructType, rows: tuple[Row, ...], schema: t.StructType) -> list[Row]:
    """Return rows of one schema as rows of another, by the names of their columns: null where there is none."""
    if own.names == schema.names:
        return list(rows)
    places = {folded(name): place for place, name in enumerate(own.names)}
    columns = [places.get(folded(name)) for name in schema.names]
    return [tuple(None if place is None else row[place] for place in columns) for row in rows]


def assigned(bound: Bound, column: t.StructField, node: Recorded) -> Callable[[Row], Any]:
    """Return the value of a column of a table, converted to its type in ANSI mode, whatever the session's is.

    Raise `CannotFollowError` if the session's ``storeAssignmentPolicy`` is another one.
    """
    if bound.type.simpleString() == column.dataType.simpleString():
        return bound.value
    if in_force(STORE).upper() != DEFAULTS[STORE]:
        what = f"{STORE}={in_force(STORE)} for a column of another type than the table's ({column.name})"
        raise CannotFollowError(what, node.place or users_place(), "Cast it before it is written")
    with ansi_mode():
        value = as_type(bound, column.dataType, node).value

    def converted(row: Row) -> Any:
        with ansi_mode():
            return value(row)

    return converted


def _schema(table: TableVersion | None, frame: Rows, request: WriteRequest) -> t.StructType:
    """Return the columns of the table after the write."""
    if table is None or request.creates or not table.schema.fields:
        return _with_partitions_last(frame.schema, request)
    if request.columns is ColumnMatch.BY_PLACE:
        if len(table.schema.fields) != len(frame.schema.fields):
            message = f"{request.target} has {len(table.schema.fields)} columns, the rows {len(frame.schema.fields)}"
            message = f"Cannot write to {message}: use the table's"
            raise AnalysisException(message=f"[INSERT_COLUMN_ARITY_MISMATCH] {message}")
        return table.schema
    is_all = request.where is None and request.replaces is Replaces.TABLE
    is_whole = is_all and request.mode is SaveMode.OVERWRITE
    if is_whole and (request.format != "delta" or _is_set(request, "overwriteschema")):
        return _with_partitions_last(frame.schema, request)
    known = {folded(name) for name in table.schema.names}
    added = [column for column in _plain(frame.schema).fields if folded(column.name) not in known]
    if added and request.format == "delta" and not (table.is_assumed or _is_set(request, "mergeschema")):
        names = ", ".join(column.name for column in added)
        message = (
            f"A schema mismatch detected when writing to the Delta table {request.target}: it lacks {names}"
        )
        message += ". Set the option mergeSchema to add them"
        raise AnalysisException(message=f"[DELTA_METADATA_MISMATCH] {message}")
    return t.StructType([*table.schema.fields, *added])


def _plain(schema: t.StructType) -> t.StructType:
    """Return a schema without what is known of the frame that it is of. ColumnMatch of tables can be null."""
    return t.StructType([t.StructField(column.name, column.dataType) for column in schema.fields])


def _with_partitions_last(schema: t.StructType, request: WriteRequest) -> t.StructType:
    """Return the columns of a new table: those that files are partitioned by come last."""
    plain = _plain(schema)
    if request.format in WITH_A_LOG:
        return plain
    return t.StructType(sorted(plain.fields, key=lambda column: column.name.lower() in request.partitions))


def _is_set(request: WriteRequest, option: str) -> bool:
    return str(request.options.get(option, "false")).lower() == "true"


def _converted(frame: Rows, schema: t.StructType, request: WriteRequest) -> list[Row]:
    """Return the rows with the columns of the table."""
    own = _plain(frame.schema)
    if request.columns is ColumnMatch.BY_PLACE:
        own = relabeled(own, schema.names, [None] * len(schema.names))
    columns = {folded(column.name): (place, column) for place, column in enumerate(own.fields)}
    values: list[Callable[[Row], Any]] = []
    for target in schema.fields:
        place, column = columns.get(folded(target.name), (-1, target))
        values.append(_at(place, column, target))
    return [tuple(value(row) for value in values) for row in frame.all()]


def _at(place: int, column: t.StructField, target: t.StructField) -> Callable[[Row], Any]:
    if place < 0:
        return lambda _row: None
    bound = Bound(column.name, column.dataType, True, lambda row: row[place])
    return assigned(bound, target, Recorded("col", (column.name,), ""))


def _kept(
    old: list[Row], new: list[Row], schema: t.StructType, table: TableVersion | None, request: WriteRequest
) -> list[Row]:
    """Return the rows that a write leaves in the table."""
    if request.mode is not SaveMode.OVERWRITE:
        return old
    if request.where is not None:
        replaced = bind(request.where, schema).value
        if request.format == "delta" and not all(map(replaced, new)):
            message = "[DELTA_REPLACE_WHERE_MISMATCH] Written data does not conform to replaceWhere"
            raise AnalysisException(message=f"{message}: {request.target}")
        return [row for row in old if replaced(row) is not True]
    partitions = request.partitions or (table.partitions if table is not None else ())
    if request.replaces is Replaces.PARTITIONS and partitions:
        places = [place for place, name in enumerate(schema.names) if name.lower() in partitions]
        parts = {tuple(repr(row[place]) for place in places) for row in new}
        return [row for row in old if tuple(repr(row[place]) for place in places) not in parts]
    return []


def _by_key(
    old: list[Row], new: list[Row], schema: t.StructType, request: WriteRequest, guarantee: Guarantee
) -> list[Row]:
    """Return the rows of a store that writes by a key."""
    names = guarantee.keys or tuple(name.lower() for name in schema.names)
    places = [place for place, name in enumerate(schema.names) if name.lower() in names]
    newest = [name.strip() for name in guarantee.newest.split(",") if name.strip()]
    versions = [place for name in newest for place, own in enumerate(schema.names) if own.lower() == name]

    def key_of(row: Row) -> tuple[str, ...]:
        return tuple(repr(row[place]) for place in places)

    def version(row: Row) -> list[Any]:
        return [(False,) if row[place] is None else (True, row[place]) for place in versions]

    kept = {key_of(row): row for row in old}
    for row in new:
        key = key_of(row)
        known = kept.get(key)
        if known is not None and guarantee.repeated is Repeated.FAILS and known in old:
            there = f"{request.target} has a row of the key {', '.join(key)} already"
            raise PySparkException(f"{request.format}: {there}")
        is_older = known is not None and version(row) < version(known)
        if known is None or (guarantee.repeated is Repeated.REPLACES and not is_older):
            kept[key] = row
    return list(kept.values())


def _transaction(request: WriteRequest) -> tuple[str, int] | None:
    """Return the application and version of an idempotent write of Delta's, if it is one."""
    ids = request.options.get("txnappid"), request.options.get("txnversion")
    if request.format != "delta" or None in ids:
        return None
    return str(ids[0]), int(str(ids[1]))
