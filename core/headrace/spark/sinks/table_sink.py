"""A sink for a table of any database with a DB-API module, in which each batch is written exactly once (MillWheel 6.1.1, 6.2).

Rules of this file:

* Rows do not pass through the driver: tasks write them to a **staging table**, each in a transaction of its own and under a name
  that no other attempt has. Then the driver moves the rows of the attempts that Spark has counted, marks the batch as written and
  empties the staging table, in **one transaction**. What other attempts have left counts for nothing.
* Epochs and repeated batches as in `DatabaseSink`, in the same two tables, but in plain SQL that all databases understand.
* A transaction first updates the writer's row: so a claim waits for a batch that is being moved, or that one finds the new epoch.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from headrace.api.codecs import writes_json
from headrace.api.errors import HeadraceError, OptionsError
from headrace.api.pipeline import Pipeline
from headrace.spark.hosting.parcels import Batches
from headrace.spark.io_errors import FencedWriterError, SinkError, SinkTableError
from headrace.spark.runtime.session import query_of

_TASK = "headrace_task"
_NAME = "VARCHAR(190)"
_TABLES = {
    "headrace_writers": f"target {_NAME} NOT NULL, writer {_NAME} NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (target, writer)",
    "headrace_batches": f"target {_NAME} NOT NULL, query {_NAME} NOT NULL, batch BIGINT NOT NULL, PRIMARY KEY (target, query)",
}
_CLAIM = "UPDATE headrace_writers SET epoch = epoch + 1 WHERE target = ? AND writer = ?"
_FIRST_CLAIM = "INSERT INTO headrace_writers (target, writer, epoch) VALUES (?, ?, 1)"
_LOCK = "UPDATE headrace_writers SET epoch = epoch WHERE target = ? AND writer = ?"
_EPOCH = "SELECT epoch FROM headrace_writers WHERE target = ? AND writer = ?"
_LAST = "SELECT batch FROM headrace_batches WHERE target = ? AND query = ?"
_MARK = "UPDATE headrace_batches SET batch = ? WHERE target = ? AND query = ?"
_FIRST_MARK = "INSERT INTO headrace_batches (batch, target, query) VALUES (?, ?, ?)"
_TOLD = "task string"
_STYLES = ("qmark", "format", "pyformat", "numeric")
_MOST_VALUES = 500
"""Maximum values of one statement."""

_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (t.StringType, "TEXT"),
    (t.BooleanType, "BOOLEAN"),
    (t.IntegralType, "BIGINT"),
    (t.FractionalType, "DOUBLE PRECISION"),
    ((t.TimestampType, t.TimestampNTZType), "TIMESTAMP"),
    (t.DateType, "DATE"),
    (t.BinaryType, "BLOB"),
)


class TableSink:
    """Writes a streaming DataFrame to a table of any database, each batch once and not through the driver's memory.

    Create a new sink for each start of a query and for each stream: a new sink fences those created before it. If the table does
    not exist, it is created from the DataFrame's columns. Beside it there is a table ``TABLE_staged``.

    Args:
        connect: a function that opens a DB-API connection without autocommit, on the driver and on the executors. It is pickled.
        table: name of the table, as SQL has it.
        pipeline: see `DatabaseSink`.
        types: column to type, as the database names it, instead of the default type of the SQL standard: ``{"value": "CLOB"}``.
        writer: see `DatabaseSink`.
        paramstyle: of the DB-API module: ``qmark``, ``format``, ``pyformat`` or ``numeric``.

    Attributes:
        name: its name in messages.
        epoch: the epoch that it claimed.

    Raises:
        OptionsError: an option is out of its range, or ``connect`` is not picklable.
        SinkError: the database cannot be reached.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        *,
        pipeline: Pipeline | None = None,
        types: Mapping[str, str] | None = None,
        writer: str = "",
        paramstyle: str = "qmark",
    ) -> None:
        if not table:
            raise OptionsError("table", table, "the name of a table")
        if paramstyle not in _STYLES:
            raise OptionsError("paramstyle", paramstyle, f"one of {', '.join(_STYLES)}")
        try:
            cloudpickle.dumps(connect)
        except Exception as error:
            expected = f"a function that pickles, to be sent to the executors ({error})"
            raise OptionsError("connect", connect, expected) from error
        self._connect, self._table, self._style = connect, table, paramstyle
        self._staged = f"{table}_staged" + (f"_{writer}" if writer else "")
        self._text = pipeline is not None and all(
            writes_json(pipeline.codec(stream)) for stream in pipeline.output_streams
        )
        self._types, self._writer = dict(types or {}), writer
        self.name = f"table {table!r}"
        for own, columns in _TABLES.items():
            self._create(own, columns)
        with self._transaction() as ask:
            if not ask(_CLAIM, table, writer).rowcount:
                ask(_FIRST_CLAIM, table, writer)
            ((self.epoch,),) = ask(_EPOCH, table, writer).fetchall()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch; called by ``foreachBatch``.

        Raises:
            FencedWriterError: a newer start of the query owns the table.
            SinkTableError: the table lacks a column, or a column has no type.
            SinkError: the batch cannot be written for another reason. None of it was.
        """
        self.write(frame, query_of(frame, self.name), batch)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Write a batch of a query, unless it was written before: see `DatabaseSink.write`.

        Raises:
            HeadraceError: the errors of `__call__`.
        """
        query = f"{query}/{self._writer}" if self._writer else query
        with self._transaction() as ask:
            is_news = self._is_news(ask, query, batch)
        if not is_news:
            frame.write.format("noop").mode("overwrite").save()
            return False
        self._prepare_tables(frame)
        tasks = self._stage(frame)
        columns = ", ".join(frame.columns)
        with self._transaction() as ask:
            if not self._is_news(ask, query, batch):
                return False
            for at in range(0, len(tasks), _MOST_VALUES):
                some = tasks[at : at + _MOST_VALUES]
                counted = f"FROM {self._staged} WHERE {_TASK} IN ({', '.join('?' * len(some))})"
                ask(f"INSERT INTO {self._table} ({columns}) SELECT {columns} {counted}", *some)
            if not ask(_MARK, batch, self._table, query).rowcount:
                ask(_FIRST_MARK, batch, self._table, query)
            ask(f"DELETE FROM {self._staged}")  # noqa: S608  the user's name
        return True

    def _stage(self, frame: DataFrame) -> list[str]:
        """Let the tasks write their rows to the staging table; return the names of those that count."""
        columns = [*frame.columns, _TASK]
        sql = f"INSERT INTO {self._staged} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        text = frame.columns.index("value") if self._text and "value" in frame.columns else -1
        attempt = os.urandom(6).hex()
        told = frame.mapInArrow(
            partial(_stage, self._connect, _styled(sql, self._style), text, attempt), _TOLD
        )
        return [row["task"] for row in told.collect()]

    # Statements

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., Any]]:
        """Open a transaction; yield a function that runs a statement and returns the cursor."""
        try:
            connection = self._connect()
            try:
                cursor = connection.cursor()

                def ask(sql: str, *values: Any) -> Any:
                    cursor.execute(_styled(sql, self._style), values)
                    return cursor

                yield ask
                connection.commit()
            finally:
                connection.close()  # what was not committed is rolled back
        except HeadraceError:
            raise
        except Exception as error:
            remedy = "None of this batch was written, unless the connection was lost during the commit"
            raise SinkError(self.name, f"{type(error).__name__}: {error}", remedy) from error

    def _is_news(self, ask: Callable[..., Any], query: str, batch: int) -> bool:
        ask(_LOCK, self._table, self._writer)
        ((epoch,),) = ask(_EPOCH, self._table, self._writer).fetchall()
        if epoch != self.epoch:
            raise FencedWriterError(self.name, self.epoch, epoch)
        last = ask(_LAST, self._table, query).fetchall()
        return not last or last[0][0] < batch

    # Tables

    def _prepare_tables(self, frame: DataFrame) -> None:
        columns = ", ".join(f"{field.name} {self._type(field)}" for field in frame.schema)
        self._create(self._table, columns)
        self._create(self._staged, f"{columns}, {_TASK} {_NAME}")
        for table in (self._table, self._staged):
            there = self._columns(table) or []
            missing = [name for name in frame.columns if name.lower() not in there]
            if missing:
                problem = f"{table!r} lacks the columns {missing}; its columns are {there}"
                remedy = (
                    "Choose another table, or select only its columns; an empty staging table can be dropped"
                )
                raise SinkTableError(self.name, problem, remedy)

    def _create(self, table: str, columns: str) -> None:
        if self._columns(table) is None:
            try:
                with self._transaction() as ask:
                    ask(f"CREATE TABLE {table} ({columns})")
            except SinkError:
                if self._columns(table) is None:  # nobody else has created it either
                    raise

    def _columns(self, table: str) -> list[str] | None:
        """Return the names of a table's columns in lower case; ``None``: there is no such table."""
        try:
            with self._transaction() as ask:
                found = ask(f"SELECT * FROM {table} WHERE 1 = 0")  # noqa: S608  the table's name is the user's
                return [str(column[0]).lower() for column in found.description]
        except SinkError:
            return None

    def _type(self, field: t.StructField) -> str:
        is_text = self._text and field.name == "value" and isinstance(field.dataType, t.BinaryType)
        kind = t.StringType() if is_text else field.dataType
        name = self._types.get(field.name)
        if name is None and isinstance(kind, t.DecimalType):
            name = f"DECIMAL({kind.precision}, {kind.scale})"
        name = name or next((name for kinds, name in _TYPES if isinstance(kind, kinds)), None)
        if name is None:
            problem = f"there is no column type for {field.name!r} ({field.dataType.simpleString()})"
            raise SinkTableError(
                self.name, problem, "Convert it to text with to_json, or give its type with types="
            )
        return name


def _stage(connect: Callable[[], Any], sql: str, text: int, attempt: str, batches: Batches) -> Batches:
    """Write a task's rows, and tell under which name."""
    name = f"{attempt}/{task_attempt()}"
    connection = connect()
    try:
        cursor = connection.cursor()
        for batch in batches:
            if batch.num_rows:
                cursor.executemany(sql, [(*row, name) for row in _rows(batch, text)])
        connection.commit()
    finally:
        connection.close()
    yield pa.RecordBatch.from_arrays([pa.array([name])], names=["task"])


def _rows(batch: pa.RecordBatch, text: int) -> Iterator[Sequence[Any]]:
    columns = [column.to_pylist() for column in batch.columns]
    if text >= 0:
        columns[text] = [value.decode() if isinstance(value, bytes) else value for value in columns[text]]
    return zip(*columns, strict=True)


def task_attempt() -> str:
    """Return the running attempt of a task; no other has the same."""
    task = TaskContext.get()
    assert task is not None, "called outside a Spark task"
    return f"{task.partitionId()}.{task.taskAttemptId()}"


def _styled(sql: str, style: str) -> str:
    """Return a statement with the marks for values that a module takes.

    >>> [_styled("a = ? AND b = ?", style) for style in ("qmark", "format", "numeric")]
    ['a = ? AND b = ?', 'a = %s AND b = %s', 'a = :1 AND b = :2']
    """
    if style == "qmark":
        return sql
    first, *others = sql.split("?")
    marks = ["%s" if style != "numeric" else f":{number}" for number in range(1, len(others) + 1)]
    return first + "".join(mark + part for mark, part in zip(marks, others, strict=True))
