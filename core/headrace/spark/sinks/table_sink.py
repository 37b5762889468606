"""A sink for a table of a database, in which each batch is written exactly once (MillWheel 6.1.1, 6.2).

Rules of this file:

* Rows, and the mark that this query's batch was written, are **one transaction**. So a batch that is repeated after a restart of
  the query is recognized and skipped.
* Each start of a query **claims** the next epoch of its table's writer, as a role of the engine claims its fenced journal
  (`Mediator`). A transaction of an older epoch writes nothing: the older driver may still be alive, and must not interleave. It
  first updates the writer's row: so a claim waits for a batch that is being written, or that one finds the new epoch.
* A database that is given by URL takes the rows from the driver. Of any other, tasks write them to a **staging table**, each in a
  transaction of its own and under a name that no other attempt has; the one transaction moves the rows of the attempts that Spark
  has counted, and empties the staging table. What other attempts have left counts for nothing.
* A skipped batch is computed all the same: Spark refuses to finish a batch whose state was not committed.
* Statements are plain SQL, that all databases understand.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from headrace.api.codecs import writes_json
from headrace.api.errors import OptionsError
from headrace.api.pipeline import Pipeline
from headrace.spark.hosting.parcels import Batches
from headrace.spark.io_errors import FencedWriterError, SinkError, SinkTableError
from headrace.spark.runtime.spark_session import query_of
from headrace.spark.sinks.databases import Ask, database_of, styled

_TASK = "headrace_task"
_NAME = "VARCHAR(190)"
WRITERS = "headrace_writers"
"""The table of epochs, which says how often each query was started."""
_TABLES = {
    WRITERS: f"target {_NAME} NOT NULL, writer {_NAME} NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (target, writer)",
    "headrace_batches": f"target {_NAME} NOT NULL, query {_NAME} NOT NULL, batch BIGINT NOT NULL, PRIMARY KEY (target, query)",
}
_CLAIM = "UPDATE headrace_writers SET epoch = epoch + 1 WHERE target = ? AND writer = ?"
_FIRST_CLAIM = "INSERT INTO headrace_writers (target, writer, epoch) VALUES (?, ?, 0)"
_LOCK = "UPDATE headrace_writers SET epoch = epoch WHERE target = ? AND writer = ?"
_EPOCH = "SELECT epoch FROM headrace_writers WHERE target = ? AND writer = ?"
_LAST = "SELECT batch FROM headrace_batches WHERE target = ? AND query = ?"
_MARK = "UPDATE headrace_batches SET batch = ? WHERE target = ? AND query = ?"
_FIRST_MARK = "INSERT INTO headrace_batches (batch, target, query) VALUES (?, ?, ?)"
_MOST_VALUES = 500
"""Maximum values of one statement."""
_INSERT_ROWS = 10_000
"""Number of rows that are converted from Arrow to Python at a time."""


class TableSink:
    """Writes a streaming DataFrame to a table, each batch once: ``frame.writeStream.foreachBatch(TableSink(url, table))``.

    Create a new sink for each start of a query and for each stream: a new sink fences those created before it. If the table does
    not exist, it is created from the DataFrame's columns; extra columns of an existing table keep their defaults. By URL, each
    batch passes through the driver's memory. With a function it does not; then there is a table ``TABLE_staged`` beside it.

    Args:
        database: ``postgresql://USER@HOST/NAME`` (with psycopg), ``sqlite:///PATH`` or the path of an SQLite file; or a function
            that opens a DB-API connection without autocommit, on the driver and on the executors. It is pickled.
        table: name of the table; a schema may precede it.
        pipeline: the pipeline that produces the outputs: if all their codecs write JSON, ``value`` becomes text. Otherwise it
            stays bytes.
        types: column to type, as the database names it, instead of the default type: ``{"value": "JSONB"}``.
        writer: a name that distinguishes sinks that write to one table at the same time, for several queries or several streams.
        paramstyle: of the function's DB-API module: ``qmark``, ``format``, ``pyformat`` or ``numeric``.
        timeout_s: maximum wait for other processes' locks by URL, seconds.

    Attributes:
        name: its name in messages.
        epoch: the epoch that it claimed.

    Raises:
        OptionsError: the URL is of no supported kind, the function does not pickle, or an option is out of its range.
        SinkError: the database cannot be opened.
    """

    def __init__(
        self,
        database: str | Callable[[], Any],
        table: str,
        *,
        pipeline: Pipeline | None = None,
        types: Mapping[str, str] | None = None,
        writer: str = "",
        paramstyle: str = "qmark",
        timeout_s: float = 30.0,
    ) -> None:
        if not all(table.split(".")):
            raise OptionsError("table", table, "the name of a table")
        self._database = database_of(database, paramstyle, timeout_s)
        self._table, self._quoted = table, self._database.quoted
        self._staged = f"{table}_staged" + (f"_{writer}" if writer else "")
        self._text = pipeline is not None and all(
            writes_json(pipeline.codec(stream)) for stream in pipeline.output_streams
        )
        self._types, self._writer = dict(types or {}), writer
        self.name = f"table {table!r} in {self._database.name}"
        for own, columns in _TABLES.items():
            self._prepare(own, partial(str, columns))
        self.epoch = self._claim()

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
        with self._database.transaction() as ask:
            is_news = self._last(ask, query) < batch
        if not is_news:
            frame.write.format("noop").mode("overwrite").save()
            return False
        self._prepare(self._table, partial(self._columns, frame), frame.columns)
        # Others may use the database while Spark computes, so check again afterwards.
        insert = self._database.insert
        rows: Any = frame.toArrow() if insert else self._stage(frame)
        with self._database.cursor() as cursor:
            ask = partial(self._database.ask, cursor)
            last = self._last(ask, query)
            if last >= batch:
                return False
            if insert is None:
                self._move(ask, frame, rows)
            else:
                insert(cursor, self._table, frame.columns, _rows(rows, self._text_column(frame)))
            ask(_MARK if last >= 0 else _FIRST_MARK, batch, self._table, query)
        return True

    def _stage(self, frame: DataFrame) -> list[str]:
        """Let the tasks write their rows to the staging table; return the names of those that count."""
        self._prepare(self._staged, lambda: f"{self._columns(frame)}, {_TASK} {_NAME}", frame.columns)
        names = [*map(self._quoted, frame.columns), _TASK]
        sql = f"INSERT INTO {self._staged} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        statement = styled(sql, self._database.style)
        attempt, text = os.urandom(6).hex(), self._text_column(frame)
        attempts = frame.mapInArrow(
            partial(_stage, self._database.connect, statement, text, attempt), "task string"
        )
        return [row["task"] for row in attempts.collect()]

    def _move(self, ask: Ask, frame: DataFrame, tasks: list[str]) -> None:
        """Move the staged rows of the tasks that count, and forget the others."""
        columns = ", ".join(map(self._quoted, frame.columns))
        for at in range(0, len(tasks), _MOST_VALUES):
            some = tasks[at : at + _MOST_VALUES]
            counted = f"FROM {self._staged} WHERE {_TASK} IN ({', '.join('?' * len(some))})"
            ask(f"INSERT INTO {self._quoted(self._table)} ({columns}) SELECT {columns} {counted}", *some)
        ask(f"DELETE FROM {self._staged}")  # noqa: S608  the user's name

    # Epochs and batches

    def _claim(self) -> int:
        own = self._table, self._writer
        with suppress(SinkError), self._database.transaction() as ask:  # another sink may be faster
            if not ask(_EPOCH, *own):
                ask(_FIRST_CLAIM, *own)
        with self._database.transaction() as ask:
            ask(_CLAIM, *own)
            ((epoch,),) = ask(_EPOCH, *own)
        return int(epoch)

    def _last(self, ask: Ask, query: str) -> int:
        """Return the number of the last batch that a query has written; -1: none.

        Raises:
            FencedWriterError: another sink has claimed a newer epoch.
        """
        ask(_LOCK, self._table, self._writer)
        ((epoch,),) = ask(_EPOCH, self._table, self._writer)
        if epoch != self.epoch:
            raise FencedWriterError(self.name, self.epoch, epoch)
        last = ask(_LAST, self._table, query)
        return int(last[0][0]) if last else -1

    # Tables

    def _prepare(self, table: str, columns: Callable[[], str], needed: Sequence[str] = ()) -> None:
        """Create a table, unless it is there, and has the columns that are needed."""
        database = self._database
        there = database.columns(table)
        if not there:
            try:
                with database.transaction() as ask:
                    ask(f"CREATE TABLE {database.quoted(table)} ({columns()})")
            except SinkError:
                if not database.columns(table):  # nobody else has created it either
                    raise
            return
        known = {name.lower() for name in there}
        missing = [name for name in needed if name.lower() not in known]
        if missing:
            problem = f"{table!r} lacks the columns {missing}; its columns are {there}"
            remedy = "Choose another table, or select only its columns; an empty staging table can be dropped"
            raise SinkTableError(self.name, problem, remedy)

    def _columns(self, frame: DataFrame) -> str:
        return ", ".join(f"{self._quoted(field.name)} {self._type(field)}" for field in frame.schema)

    def _type(self, field: t.StructField) -> str:
        is_text = self._text and field.name == "value" and isinstance(field.dataType, t.BinaryType)
        kind = t.StringType() if is_text else field.dataType
        name = self._types.get(field.name) or self._database.type_of(kind)
        if name is None:
            problem = f"there is no column type for {field.name!r} ({field.dataType.simpleString()})"
            remedy = "Convert it to text with to_json, or give its type with types="
            raise SinkTableError(self.name, problem, remedy)
        return name

    def _text_column(self, frame: DataFrame) -> int:
        """Return the place of the column whose bytes become text; -1: none."""
        return frame.columns.index("value") if self._text and "value" in frame.columns else -1


def _stage(connect: Callable[[], Any], sql: str, text: int, attempt: str, batches: Batches) -> Batches:
    """Write a task's rows, and tell under which name."""
    name = f"{attempt}/{task_attempt()}"
    connection = connect()
    try:
        cursor = connection.cursor()
        for batch in batches:
            if batch.num_rows:
                cursor.executemany(sql, [(*row, name) for row in _rows_of(batch, text)])
        connection.commit()
    finally:
        connection.close()
    yield pa.RecordBatch.from_arrays([pa.array([name])], names=["task"])


def _rows(table: pa.Table, text: int) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(_INSERT_ROWS):
        yield from _rows_of(batch, text)


def _rows_of(batch: pa.RecordBatch, text: int) -> Iterator[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in batch.columns]
    if text >= 0:
        columns[text] = [value.decode() if isinstance(value, bytes) else value for value in columns[text]]
    return zip(*columns, strict=True)


def task_attempt() -> str:
    """Return the running attempt of a task; no other has the same."""
    task = TaskContext.get()
    assert task is not None, "called outside a Spark task"
    return f"{task.partitionId()}.{task.taskAttemptId()}"
