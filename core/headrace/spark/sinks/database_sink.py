"""Sinks that take each batch exactly once: a database (MillWheel 6.1.1, 6.2), and Spark's files.

Rules of this file:

* Rows, and the mark that this query's batch was written, are **one transaction**: a batch that comes again, after the query
  was started again, is known and skipped.
* Each start of a query **claims** the next epoch of its table's writer, as a role of the engine claims its fenced journal
  (`Mediator`). A transaction of an older epoch writes nothing: the older driver may still be alive, and must not interleave.
* A batch that is skipped is computed all the same: Spark refuses to finish one whose state was not committed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField

from headrace.api.codecs import JsonCodec, TypedCodec
from headrace.api.errors import OptionsError
from headrace.api.pipeline import Pipeline
from headrace.spark.io_errors import FencedWriterError, SinkTableError
from headrace.spark.runtime.session import query_of
from headrace.spark.sinks.databases import Database, Transaction, database_of, quoted

_INSERT_ROWS = 10_000
"""Arrow becomes Python's values so many rows at a time."""

_WRITERS = "headrace_writers"
_BATCHES = "headrace_batches"
_TABLES = (
    f"CREATE TABLE IF NOT EXISTS {_WRITERS} (target TEXT, writer TEXT, epoch BIGINT NOT NULL, PRIMARY KEY (target, writer))",
    f"CREATE TABLE IF NOT EXISTS {_BATCHES} (target TEXT, query TEXT, batch BIGINT NOT NULL, PRIMARY KEY (target, query))",
)
_CLAIM = (
    f"INSERT INTO {_WRITERS} (target, writer, epoch) VALUES (?, ?, 1) "  # noqa: S608  names of ours
    f"ON CONFLICT (target, writer) DO UPDATE SET epoch = {_WRITERS}.epoch + 1 RETURNING epoch"
)
# The update changes nothing but takes the row's lock: a claim waits for this transaction, or this one for the claim.
_LOOK = f"UPDATE {_WRITERS} SET epoch = epoch WHERE target = ? AND writer = ? RETURNING epoch"  # noqa: S608
_LAST = f"SELECT batch FROM {_BATCHES} WHERE target = ? AND query = ?"  # noqa: S608
_MARK = (
    f"INSERT INTO {_BATCHES} (target, query, batch) VALUES (?, ?, ?) "  # noqa: S608
    "ON CONFLICT (target, query) DO UPDATE SET batch = excluded.batch"
)


class DatabaseSink:
    """Writes a streaming DataFrame to a table, each batch once: ``frame.writeStream.foreachBatch(DatabaseSink(url, table))``.

    Make a new one for each start of a query, and one for each stream: making it fences those that were made before. The table is
    made from the DataFrame's columns if it is not there; its other columns, if it has any, keep their defaults. A batch passes
    through the driver's memory.

    Args:
        url: ``postgresql://USER@HOST/NAME`` (with psycopg), ``sqlite:///PATH`` or the path of a file.
        table: its name; in PostgreSQL a schema may precede it.
        pipeline: whose outputs are written: ``value`` becomes text if the codecs of all of them write JSON. Otherwise bytes stay.
        types: column to type, in the database's words, in the place of what is chosen by itself: ``{"value": "JSONB"}``.
        writer: several sinks that write to one table at a time have a name each, be it of several queries or streams of one.
        timeout_s: how long to wait for the locks of others.

    Attributes:
        name: what messages call it.
        epoch: that it has claimed.

    Raises:
        OptionsError: a URL of no known kind, or no table.
        SinkError: the database can not be opened.
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
        self._database: Database = database_of(url, timeout_s)
        self._table = table
        self._text = pipeline is not None and all(
            isinstance(pipeline.codec(stream), JsonCodec | TypedCodec) for stream in pipeline.output_streams
        )
        self._types = dict(types or {})
        self._writer = writer
        self.name = f"table {table!r} in {self._database.name}"
        with self._database.transaction() as transaction:
            for sql in _TABLES:
                transaction.ask(sql)
            ((self.epoch,),) = transaction.ask(_CLAIM, table, writer)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch, as ``foreachBatch`` asks for it.

        Raises:
            FencedWriterError: a newer start of the query owns the table.
            SinkTableError: the table lacks columns, or there is no type for one.
            SinkBusyError: others kept the database locked.
            SinkError: it can not be written for another reason. Nothing of the batch was.
        """
        self.write(frame, query_of(frame, self.name), batch)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Write a batch of a query, unless it was written before; tell whether it was written now.

        Args:
            frame: its rows.
            query: the query's name, which it keeps when it is started again.
            batch: its number; they count up.

        Raises:
            As `__call__`.
        """
        query = f"{query}/{self._writer}" if self._writer else query  # each writer has batches of its own
        with self._database.transaction() as transaction:
            is_news = self._is_news(transaction, query, batch)
            if is_news:
                self._prepare_table(transaction, frame)
        if not is_news:
            frame.write.format("noop").mode("overwrite").save()
            return False
        # Others may use the database while Spark computes; all is looked at again when that is done.
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
            problem = f"it has no columns {missing}; it has {there}"
            raise SinkTableError(
                self.name, problem, "Choose another table, or select only columns that it has"
            )

    def _type(self, field: StructField) -> str:
        kind = StringType() if self._is_text(field.name, field.dataType) else field.dataType
        name = self._types.get(field.name) or self._database.type_of(kind)
        if name is None:
            problem = f"there is no column type for {field.name!r}, a {field.dataType.simpleString()}"
            raise SinkTableError(
                self.name, problem, "Turn it into text with to_json, or give its type with types="
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
