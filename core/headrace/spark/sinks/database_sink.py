"""A database sink that writes each batch exactly once (MillWheel 6.1.1, 6.2).

Rules of this file:

* Rows, and the mark that this query's batch was written, are **one transaction**. So a batch that is repeated after a restart of
  the query is recognized and skipped.
* Each start of a query **claims** the next epoch of its table's writer, as a role of the engine claims its fenced journal
  (`Mediator`). A transaction of an older epoch writes nothing: the older driver may still be alive, and must not interleave.
* A skipped batch is computed all the same: Spark refuses to finish a batch whose state was not committed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField

from headrace.api.codecs import writes_json
from headrace.api.errors import OptionsError
from headrace.api.pipeline import Pipeline
from headrace.spark.io_errors import FencedWriterError, SinkTableError
from headrace.spark.runtime.session import query_of
from headrace.spark.sinks.databases import Transaction, database_of, quoted

_INSERT_ROWS = 10_000
"""Number of rows that are converted from Arrow to Python at a time."""

WRITERS = "headrace_writers"
"""The table of epochs, which says how often each query was started."""
_BATCHES = "headrace_batches"
_TABLES = (
    f"CREATE TABLE IF NOT EXISTS {WRITERS} (target TEXT, writer TEXT, epoch BIGINT NOT NULL, PRIMARY KEY (target, writer))",
    f"CREATE TABLE IF NOT EXISTS {_BATCHES} (target TEXT, query TEXT, batch BIGINT NOT NULL, PRIMARY KEY (target, query))",
)
_CLAIM = (
    f"INSERT INTO {WRITERS} (target, writer, epoch) VALUES (?, ?, 1) "  # noqa: S608  our own names
    f"ON CONFLICT (target, writer) DO UPDATE SET epoch = {WRITERS}.epoch + 1 RETURNING epoch"
)
# The update changes nothing, but locks the row: a claim waits for this transaction, or this transaction for the claim.
_LOOK = f"UPDATE {WRITERS} SET epoch = epoch WHERE target = ? AND writer = ? RETURNING epoch"  # noqa: S608
_LAST = f"SELECT batch FROM {_BATCHES} WHERE target = ? AND query = ?"  # noqa: S608
_MARK = (
    f"INSERT INTO {_BATCHES} (target, query, batch) VALUES (?, ?, ?) "  # noqa: S608
    "ON CONFLICT (target, query) DO UPDATE SET batch = excluded.batch"
)


class DatabaseSink:
    """Writes a streaming DataFrame to a table, each batch once: ``frame.writeStream.foreachBatch(DatabaseSink(url, table))``.

    Create a new sink for each start of a query and for each stream: a new sink fences those created before it. If the table does
    not exist, it is created from the DataFrame's columns; extra columns of an existing table keep their defaults. Each batch
    passes through the driver's memory.

    Args:
        url: ``postgresql://USER@HOST/NAME`` (with psycopg), ``sqlite:///PATH`` or the path of an SQLite file.
        table: name of the table; in PostgreSQL a schema may precede it.
        pipeline: the pipeline that produces the outputs: if all their codecs write JSON, ``value`` becomes text. Otherwise it
            stays bytes.
        types: column to type, as the database names it, instead of the default type: ``{"value": "JSONB"}``.
        writer: a name that distinguishes sinks that write to one table at the same time, for several queries or several streams.
        timeout_s: maximum wait for other processes' locks, seconds.

    Attributes:
        name: its name in messages.
        epoch: the epoch that it claimed.

    Raises:
        OptionsError: the URL is of no supported kind, the table has no name, or the timeout is not positive.
        SinkError: the database cannot be opened.
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        pipeline: Pipeline | None = None,
        types: Mapping[str, str] | None = None,
        writer: str = "",
        timeout_s: float = 30.0,
    ) -> None:
        if not all(table.split(".")):
            raise OptionsError("table", table, "the name of a table")
        if timeout_s <= 0:
            raise OptionsError("timeout_s", timeout_s, "more than 0")
        self._database = database_of(url, timeout_s)
        self._table = table
        self._text = pipeline is not None and all(
            writes_json(pipeline.codec(stream)) for stream in pipeline.output_streams
        )
        self._types = dict(types or {})
        self._writer = writer
        self.name = f"table {table!r} in {self._database.name}"
        with self._database.transaction() as transaction:
            for sql in _TABLES:
                transaction.ask(sql)
            ((self.epoch,),) = transaction.ask(_CLAIM, table, writer)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; called by ``foreachBatch``.

        Raises:
            FencedWriterError: a newer start of the query owns the table.
            SinkTableError: the table lacks a column, or a column has no type.
            SinkBusyError: another process kept the database locked.
            SinkError: the batch cannot be written for another reason. None of it was.
        """
        self.write(frame, query_of(frame, self.name), batch)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Write a batch of a query, unless it was written before; return whether it was written now.

        Args:
            frame: its rows.
            query: id of the query, which stays the same across restarts.
            batch: number of the batch; later batches have greater numbers.

        Raises:
            HeadraceError: the errors of `__call__`.
        """
        query = f"{query}/{self._writer}" if self._writer else query  # batches are numbered for each writer
        with self._database.transaction() as transaction:
            is_news = self._is_news(transaction, query, batch)
            if is_news:
                self._prepare_table(transaction, frame)
        if not is_news:
            frame.write.format("noop").mode("overwrite").save()
            return False
        # Others may use the database while Spark computes, so check again afterwards.
        rows = frame.toArrow()
        with self._database.transaction() as transaction:
            if not self._is_news(transaction, query, batch):
                return False
            transaction.insert(self._table, frame.columns, self._values(rows))
            transaction.ask(_MARK, self._table, query, batch)
        return True

    def _is_news(self, transaction: Transaction, query: str, batch: int) -> bool:
        ((epoch,),) = transaction.ask(_LOOK, self._table, self._writer)
        if epoch != self.epoch:
            raise FencedWriterError(self.name, self.epoch, epoch)
        last = transaction.ask(_LAST, self._table, query)
        return not last or last[0][0] < batch

    def _prepare_table(self, transaction: Transaction, frame: DataFrame) -> None:
        there = transaction.columns(self._table)
        if not there:
            columns = ", ".join(f"{quoted(field.name)} {self._type(field)}" for field in frame.schema)
            transaction.ask(f"CREATE TABLE {quoted(self._table)} ({columns})")
            return
        missing = [name for name in frame.columns if name not in there]
        if missing:
            problem = f"it lacks the columns {missing}; its columns are {there}"
            raise SinkTableError(self.name, problem, "Choose another table, or select only its columns")

    def _type(self, field: StructField) -> str:
        kind = StringType() if self._is_text(field.name, field.dataType) else field.dataType
        name = self._types.get(field.name) or self._database.type_of(kind)
        if name is None:
            problem = f"there is no column type for {field.name!r} ({field.dataType.simpleString()})"
            raise SinkTableError(
                self.name, problem, "Convert it to text with to_json, or give its type with types="
            )
        return name

    def _is_text(self, column: str, kind: object) -> bool:
        return self._text and column == "value" and isinstance(kind, BinaryType)

    def _values(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        if self._text and "value" in table.column_names:
            place = table.column_names.index("value")
            if pa.types.is_binary(table.column(place).type):
                table = table.set_column(place, "value", table.column(place).cast(pa.string()))
        for batch in table.to_batches(_INSERT_ROWS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
