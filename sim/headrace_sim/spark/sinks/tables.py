"""A sink's writes with Spark: ``df.write`` and ``df.writeTo``, kept in the ledger as tables of rows.

Spark's writers come in two kinds. A table format with a log (Delta, Iceberg, Hudi) makes a write visible at once or not at all.
Others (Parquet, JSON and CSV files, JDBC) make it visible part by part: a driver that dies in between leaves some of the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameWriter, DataFrameWriterV2
from pyspark.sql import types as t

from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import refuse_the_rest
from headrace_sim.spark.sinks.connectors import TARGETS, Guarantee, Repeated, guarantee
from headrace_sim.spark.sinks.effects import Effect, Probe

_WITH_A_LOG = frozenset({"delta", "hudi", "iceberg"})
_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_MODES = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A write of rows to a table or path.

    Attributes:
        mode: ``append``, ``overwrite``, ``ignore`` or ``error``.
        rows: As (column, value) pairs.
        partitions: The columns by whose values the table is partitioned, if only partitions that are written are overwritten.
        transaction: The application and version that Delta remembers, if given: it skips what it has seen.
        guarantee: What the connector does when the write is repeated.
        where: Which rows are overwritten (Delta's ``replaceWhere``), as SQL, with the columns of the rows.

    """

    mode: str
    rows: tuple[tuple[tuple[str, Any], ...], ...]
    partitions: tuple[str, ...] = ()
    transaction: tuple[str, int] | None = None
    guarantee: Guarantee = Guarantee()  # noqa: RUF009  it is frozen
    where: tuple[str, t.StructType] | None = None


def tables(effects: list[Effect]) -> dict[str, list[tuple[tuple[str, Any], ...]]]:
    """Return the rows of each table after these effects, by the table's name."""
    found: dict[str, list[tuple[tuple[str, Any], ...]]] = {}
    seen: dict[tuple[str, str], int] = {}
    for effect in effects:
        write = effect.payload
        if not isinstance(write, TableWrite):
            continue
        if write.transaction is not None:
            key = (effect.target, write.transaction[0])
            if seen.get(key, -1) >= write.transaction[1]:
                continue
            seen[key] = write.transaction[1]
        _apply(write, found.setdefault(effect.target, []))
    return found


def written(effects: list[Effect]) -> tuple[str, ...]:
    """Return the names of the tables that these effects have made."""
    return tuple(dict.fromkeys(effect.target for effect in effects if isinstance(effect.payload, TableWrite)))


_ACTIONS = (
    "collect",
    "count",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "take",
    "toLocalIterator",
    "toPandas",
)


def watch_actions(probe: Probe) -> None:
    """Report each action on a DataFrame of this process to the probe, before it begins."""

    def watched(action: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(action)
        def act(*args: Any, **options: Any) -> Any:
            with probe.action():
                return action(*args, **options)

        return act

    for name in _ACTIONS:
        setattr(Rows, name, watched(getattr(Rows, name)))


def _apply(write: TableWrite, rows: list[tuple[tuple[str, Any], ...]]) -> None:
    if write.guarantee.repeated is not Repeated.ADDS:
        _apply_by_key(write, rows)
        return
    if write.mode == "overwrite":
        written = {_values(row, write.partitions) for row in write.rows}
        replaced = write.where and bind(parse_expression(write.where[0], ""), write.where[1]).value
        rows[:] = [
            row
            for row in rows
            if (write.partitions and _values(row, write.partitions) not in written)
            or (replaced and not replaced(tuple(value for _, value in row)))
        ]
    rows.extend(write.rows)


def _apply_by_key(write: TableWrite, rows: list[tuple[tuple[str, Any], ...]]) -> None:
    keys, newest = write.guarantee.keys, write.guarantee.newest
    names = keys or tuple(name.lower() for row in write.rows for name, _ in row)
    kept = {_values(row, names): row for row in rows}
    for row in write.rows:
        known = kept.get(key := _values(row, names))
        older = known is not None and newest and _version(row, newest) < _version(known, newest)
        if known is None or (write.guarantee.repeated is Repeated.REPLACES and not older):
            kept[key] = row
    rows[:] = kept.values()


def _version(row: tuple[tuple[str, Any], ...], columns: str) -> list[Any]:
    values = {name.lower(): value for name, value in row}
    return [
        (False,) if (value := values.get(column.strip())) is None else (True, value)
        for column in columns.split(",")
    ]


def _values(row: tuple[tuple[str, Any], ...], columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(repr(value) for name, value in row if name.lower() in columns)


class Writer(DataFrameWriter):
    """Replaces ``df.write`` in an attempt."""

    def __init__(self, frame: Rows, probe: Probe, keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._frame = frame
        self._probe = probe
        self._keys = keys or {}
        self._mode = "error"
        self._format = "parquet"
        self._options: dict[str, Any] = {}
        self._partitioned_by: tuple[str, ...] = ()

    def mode(self, saveMode: str | None) -> "Writer":
        """Choose what happens to existing data."""
        if saveMode is not None:
            if saveMode.lower() not in _MODES:
                raise AnalysisException(
                    message=f"[INVALID_SAVE_MODE] The save mode {saveMode!r} is none of: {', '.join(_MODES)}"
                )
            self._mode = _MODES[saveMode.lower()]
        return self

    def format(self, source: str) -> "Writer":
        """Choose the format."""
        self._format = source.lower()
        return self

    def option(self, key: str, value: Any) -> "Writer":
        """Set an option."""
        self._options[key.lower()] = value
        return self

    def options(self, **options: Any) -> "Writer":
        """Set options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> "Writer":
        """Partition by columns."""
        self._partitioned_by = (
            tuple(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        )
        return self

    def bucketBy(self, numBuckets: int, *cols: Any) -> "Writer":
        """Do nothing: buckets do not affect which rows exist."""
        return self

    def sortBy(self, *cols: Any) -> "Writer":
        """Change nothing."""
        return self

    def clusterBy(self, *cols: Any) -> "Writer":
        """Change nothing."""
        return self

    def save(
        self,
        path: str | None = None,
        format: Any = None,
        mode: Any = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        """Write to a path, or where the options say."""
        self._given(format, mode, partitionBy, options)
        place = (
            path
            if path is not None
            else next(
                (str(self._options[key]) for key in TARGETS if key in self._options),
                None,
            )
        )
        if place is None:
            place = self._format
        self._write(place)

    def saveAsTable(
        self, name: str, format: Any = None, mode: Any = None, partitionBy: Any = None, **options: Any
    ) -> None:
        """Write to a table."""
        self._given(format, mode, partitionBy, options)
        self._write(name.lower())

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        """Add rows to a table, or overwrite it."""
        self._mode = (
            "overwrite" if overwrite or (overwrite is None and self._mode == "overwrite") else "append"
        )
        self._write(tableName.lower())

    def jdbc(self, url: str, table: str, mode: Any = None, properties: Any = None) -> None:
        """Write to a table of a database."""
        self._format = "jdbc"
        self._given(None, mode, None, {})
        self._write(table.lower())

    def to_table(self, name: str) -> "WriterV2":
        """Return the value of ``df.writeTo(name)``."""
        return WriterV2(self, name)

    def _given(self, format: Any, mode: Any, partitioned_by: Any, options: dict[str, Any]) -> None:
        if format is not None:
            self.format(format)
        if partitioned_by is not None:
            self.partitionBy(*([partitioned_by] if isinstance(partitioned_by, str) else partitioned_by))
        self.mode(mode).options(**options)

    def _write(self, target: str) -> None:
        if self._format == "kafka":
            if self._mode in {"overwrite", "ignore"}:
                allowed = "Allowed save modes are Append and ErrorIfExists (default)"
                raise AnalysisException(
                    message=f"Save mode {self._mode.title()} not allowed for Kafka. {allowed}"
                )
            self._mode = "append"
        target = target.rstrip("/")
        there = any(
            isinstance(effect.payload, TableWrite) and effect.target == target
            for effect in self._probe.ledger.effects()
        )
        if there and self._mode == "error":
            kind = "PATH_ALREADY_EXISTS" if "/" in target else "TABLE_OR_VIEW_ALREADY_EXISTS"
            raise AnalysisException(
                message=f"[{kind}] {target} already exists. Set mode as 'overwrite' to overwrite it"
            )
        if there and self._mode == "ignore":
            return
        names = self._frame.columns
        rows = tuple(tuple(zip(names, row, strict=True)) for row in self._frame._all())
        known = self._guarantee(target)
        if known.repeated is Repeated.FAILS:
            self._refuse_known_keys(target, known.keys, rows)
        write = TableWrite(
            self._mode, rows, self._overwritten_partitions(), self._transaction(), known, self._where()
        )
        action = f"{'overwrite' if self._mode == 'overwrite' else 'append'} ({self._format})"
        half = None
        if self._format not in _WITH_A_LOG and len(rows) > 1:
            part = replace(write, rows=rows[: len(rows) // 2])
            half = lambda: self._probe.note(f"part of {action}", target, part)  # noqa: E731  as short as its name
        with self._probe.action(), self._probe.effect(action, target, half=half, payload=write):
            pass

    def _guarantee(self, target: str) -> Guarantee:
        columns = {name.lower() for name in self._frame.columns}
        mode = "append" if self._mode == "error" else self._mode
        return guarantee(self._format, mode, self._options, columns, self._keys.get(target))

    def _refuse_known_keys(
        self, target: str, keys: tuple[str, ...], rows: tuple[tuple[tuple[str, Any], ...], ...]
    ) -> None:
        """Raise the error of a store that takes a key once only."""
        there = {_values(row, keys) for row in tables(self._probe.ledger.effects()).get(target, ())}
        for row in rows:
            if (key := _values(row, keys)) in there:
                raise PySparkException(
                    f"{self._format}: {target} has a row of the key {', '.join(key)} already"
                )

    def _where(self) -> tuple[str, t.StructType] | None:
        where = self._options.get("replacewhere")
        return None if where is None else (str(where), self._frame.schema)

    def _overwritten_partitions(self) -> tuple[str, ...]:
        settings = self._frame.sparkSession.conf
        default = settings.get("spark.sql.sources.partitionOverwriteMode", "static")
        chosen = str(self._options.get("partitionoverwritemode", default)).lower()
        return tuple(name.lower() for name in self._partitioned_by) if chosen == "dynamic" else ()

    def _transaction(self) -> tuple[str, int] | None:
        if self._format != "delta" or "txnappid" not in self._options or "txnversion" not in self._options:
            return None
        return str(self._options["txnappid"]), int(self._options["txnversion"])


def _saved_as(name: str) -> Any:
    def save(self: Writer, path: str, mode: Any = None, partitionBy: Any = None, **options: Any) -> None:
        self.save(
            path,
            name,
            mode,
            partitionBy,
            **{key: value for key, value in options.items() if value is not None},
        )

    save.__doc__ = f"Write {name} files to a path."
    return save


for _name in _FILES:
    setattr(Writer, _name, _saved_as(_name))


class WriterV2(DataFrameWriterV2):
    """Replaces ``df.writeTo(table)`` in an attempt."""

    def __init__(self, writer: Writer, table: str) -> None:
        self._writer = writer.format("iceberg")
        self._table = table

    def using(self, provider: str) -> "WriterV2":
        """Choose the format."""
        self._writer.format(provider)
        return self

    def option(self, key: str, value: Any) -> "WriterV2":
        """Set an option."""
        self._writer.option(key, value)
        return self

    def options(self, **options: Any) -> "WriterV2":
        """Set options."""
        self._writer.options(**options)
        return self

    def tableProperty(self, property: str, value: str) -> "WriterV2":
        """Change nothing."""
        return self

    def append(self) -> None:
        """Add rows."""
        self._writer.saveAsTable(self._table, mode="append")

    def create(self) -> None:
        """Create the table."""
        self._writer.saveAsTable(self._table, mode="error")

    def createOrReplace(self) -> None:
        """Replace the table."""
        self._writer.saveAsTable(self._table, mode="overwrite")

    replace = createOrReplace


_REMEDY = "Write with mode(), format(), option() and save(), saveAsTable(), insertInto() or jdbc()"
refuse_the_rest(Writer, DataFrameWriter, _REMEDY)
refuse_the_rest(WriterV2, DataFrameWriterV2, _REMEDY)
