"""The databases that a `TableSink` writes to: SQLite and PostgreSQL, by URL, and any other through its DB-API module.

Rules of this file: it contains only what differs between them. What a transaction has read must still hold when it commits, so
SQLite's write lock is taken at the start. Every exception of a database driver becomes a `SinkError` that says what to do.
"""

import datetime as dt
import importlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pyspark import cloudpickle
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError, OptionsError
from headrace.spark.io_errors import SinkBusyError, SinkError, SinkTableError
from headrace.spark.runtime.job_files import scheme_of

Ask = Callable[..., list[tuple[Any, ...]]]
"""Runs a statement with its values, for each of which it has a ``?``, and returns its rows."""
Values = Iterable[Sequence[Any]]
_STYLES = ("qmark", "format", "pyformat", "numeric")
_LOST = "None of this batch was written, unless the connection was lost during the commit"


@dataclass(frozen=True, slots=True)
class Database:
    """A database.

    Attributes:
        connect: opens a connection of DB-API, in a transaction.
        error_of: returns the error to raise for an exception; ``None``: it is not the database's.
        types: column types by those of Spark.
        style: marks of values, as DB-API's ``paramstyle``.
        name: in messages.
        quoted: quotes a name, with its schema if it has one.
        insert: inserts rows through a cursor: table, columns and rows; ``None``: the tasks insert them.
    """

    connect: Callable[[], Any]
    error_of: Callable[[str, Exception], HeadraceError | None]
    types: tuple[tuple[type | tuple[type, ...], str], ...]
    style: str = "qmark"
    name: str = "the given database"
    quoted: Callable[[str], str] = str
    insert: Callable[[Any, str, Sequence[str], Values], None] | None = None

    def type_of(self, kind: t.DataType) -> str | None:
        """Return the nearest column type for a type of Spark's; ``None`` if there is none."""
        return next((name.format(kind) for kinds, name in self.types if isinstance(kind, kinds)), None)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """Open a transaction; commit it at the end, or roll it back on an exception.

        Raises:
            SinkError: what the database has raised.
        """
        try:
            connection = self.connect()
            try:
                yield connection.cursor()
                connection.commit()
            except BaseException:
                with suppress(Exception):  # the connection may be lost
                    connection.rollback()  # SQLite would keep its lock while the traceback keeps the cursor
                raise
            finally:
                connection.close()
        except HeadraceError:
            raise
        except Exception as error:
            sink_error = self.error_of(self.name, error)
            if sink_error is None:
                raise
            raise sink_error from error

    @contextmanager
    def transaction(self) -> Iterator[Ask]:
        """Open a transaction, as `cursor` does, for statements."""
        with self.cursor() as cursor:
            yield partial(self.ask, cursor)

    def ask(self, cursor: Any, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement: see `Ask`."""
        cursor.execute(styled(sql, self.style), values)
        return list(cursor.fetchall()) if cursor.description else []

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; none: there is no such table."""
        try:
            with self.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {self.quoted(table)} WHERE 1 = 0")  # noqa: S608  quoted, or the user's
                return [str(column[0]) for column in cursor.description]
        except SinkError:
            return []


def database_of(where: str | Callable[[], Any], style: str, timeout_s: float) -> Database:
    """Return the database for a URL, or for a function that opens connections.

    Args:
        where: ``postgresql://...``, ``sqlite:///PATH``, the path of an SQLite file, or the function.
        style: marks of values that the connections take.
        timeout_s: maximum wait for other processes' locks, seconds; only for a URL.

    Raises:
        OptionsError: the URL is of no supported kind, or the function does not pickle.
        SinkError: the database driver is not installed.
    """
    if timeout_s <= 0:
        raise OptionsError("timeout_s", timeout_s, "more than 0")
    if style not in _STYLES:
        raise OptionsError("paramstyle", style, f"one of {', '.join(_STYLES)}")
    if not isinstance(where, str):
        try:
            cloudpickle.dumps(where)
        except Exception as error:
            expected = f"a function that pickles, to be sent to the executors ({error})"
            raise OptionsError("database", where, expected) from error
        return Database(where, _any_error, _TYPES, style)
    scheme, _, rest = where.partition("://")
    if scheme_of(where) is None or (scheme == "sqlite" and rest.startswith("/")):
        path = where if scheme_of(where) is None else rest[1:]
        open_, error_of = partial(_sqlite, path, timeout_s), partial(_sqlite_error, timeout_s)
        return Database(open_, error_of, _SQLITE_TYPES, "qmark", path, quoted, _sqlite_insert)
    if scheme in ("postgresql", "postgres"):
        name = without_password(where)
        driver = _psycopg(name)
        open_, error_of = (
            partial(_postgres, driver, where, timeout_s),
            partial(_postgres_error, driver, timeout_s),
        )
        return Database(open_, error_of, _POSTGRES_TYPES, "format", name, quoted, _postgres_insert)
    expected = "postgresql://..., sqlite:///PATH or the path of a file"
    raise OptionsError("database", without_password(where), expected)


def without_password(url: str) -> str:
    """Return a URL for messages, without user and password.

    >>> without_password("postgresql://ann:secret@db.example:5432/mail?sslmode=require")
    'postgresql://db.example:5432/mail'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def quoted(table: str) -> str:
    """Quote a name for SQL, with its schema if it has one."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def styled(sql: str, style: str) -> str:
    """Return a statement with the marks for values that a module takes.

    >>> [styled("a = ? AND b = ?", style) for style in ("qmark", "format", "numeric")]
    ['a = ? AND b = ?', 'a = %s AND b = %s', 'a = :1 AND b = :2']
    """
    if style == "qmark":
        return sql
    first, *others = sql.split("?")
    marks = ["%s" if style != "numeric" else f":{number}" for number in range(1, len(others) + 1)]
    return first + "".join(mark + part for mark, part in zip(marks, others, strict=True))


_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (t.StringType, "TEXT"),
    (t.BooleanType, "BOOLEAN"),
    (t.IntegralType, "BIGINT"),
    (t.DecimalType, "DECIMAL({0.precision}, {0.scale})"),
    (t.FractionalType, "DOUBLE PRECISION"),
    ((t.TimestampType, t.TimestampNTZType), "TIMESTAMP"),
    (t.DateType, "DATE"),
    (t.BinaryType, "BLOB"),
)


def _any_error(name: str, error: Exception) -> SinkError:
    return SinkError(name, f"{type(error).__name__}: {error}", _LOST)


# SQLite


def _sqlite(path: str, timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _sqlite_insert(cursor: Any, table: str, columns: Sequence[str], rows: Values) -> None:
    names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
    sql = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"  # noqa: S608  quoted
    cursor.executemany(sql, ([_sqlite_value(value) for value in row] for row in rows))


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


_SQLITE_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((t.StringType, t.TimestampType, t.TimestampNTZType, t.DateType, t.DecimalType), "TEXT"),
    ((t.IntegralType, t.BooleanType), "INTEGER"),
    ((t.FractionalType,), "REAL"),
    ((t.BinaryType,), "BLOB"),
)
"""SQLite stores times as text."""


def _sqlite_error(timeout_s: float, name: str, error: Exception) -> HeadraceError | None:
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    other = SinkError, str(error), "None of this batch was written"
    kind, problem, remedy = _SQLITE_ERRORS.get(code, other)
    return kind(name, problem.format(timeout_s=timeout_s, error=error), remedy)


_SQLITE_ERRORS: dict[int, tuple[type[SinkError], str, str]] = {
    sqlite3.SQLITE_BUSY: (
        SinkBusyError, "another process has kept it locked for {timeout_s:g} s",
        "Let the other writer finish, or give the sink a longer timeout_s; when restarted, the query resumes from here",
    ),
    sqlite3.SQLITE_FULL: (
        SinkError, "its disk is full",
        "Free some space; when restarted, the query resumes from here",
    ),
    sqlite3.SQLITE_CANTOPEN: (SinkError, "it cannot be opened ({error})", "Create its folder, or fix the path"),
    sqlite3.SQLITE_NOTADB: (SinkError, "it is not an SQLite database", "Choose another file"),
    sqlite3.SQLITE_READONLY: (SinkError, "it cannot be written ({error})", "Give the query write permission"),
    sqlite3.SQLITE_CONSTRAINT: (
        SinkTableError, "the table rejected a row ({error})",
        "Fix the table's constraints, or choose another table",
    ),
}  # fmt: skip


# PostgreSQL


def _psycopg(name: str) -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        problem = f"the PostgreSQL driver is not installed ({error})"
        raise SinkError(name, problem, "Install psycopg: pip install 'psycopg[binary]'") from error


def _postgres(driver: Any, url: str, timeout_s: float) -> Any:
    connection = driver.connect(url, connect_timeout=max(2, int(timeout_s)))
    connection.execute(f"SET LOCAL lock_timeout = {int(timeout_s * 1_000)}")
    return connection


def _postgres_insert(cursor: Any, table: str, columns: Sequence[str], rows: Values) -> None:
    names = ", ".join(map(quoted, columns))
    with cursor.copy(f"COPY {quoted(table)} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _postgres_error(driver: Any, timeout_s: float, name: str, error: Exception) -> HeadraceError | None:
    if not isinstance(error, driver.Error):
        return None
    errors, text = driver.errors, str(error).strip().replace("\n", "; ")
    if isinstance(error, errors.LockNotAvailable):
        remedy = "Find the holder in pg_stat_activity, or give the sink a longer timeout_s"
        return SinkBusyError(name, f"another process has kept a lock for {timeout_s:g} s", remedy)
    if isinstance(error, errors.DiskFull):
        return SinkError(name, f"its disk is full ({text})", "Free some space, then start the query again")
    if isinstance(error, driver.DataError | driver.IntegrityError | driver.ProgrammingError):
        remedy = "Fix the table or the types, or choose another table"
        return SinkTableError(name, f"the database rejected the batch ({text})", remedy)
    return SinkError(name, text, _LOST)


_POSTGRES_TYPES = (
    (t.TimestampType, "TIMESTAMPTZ"),
    (t.BinaryType, "BYTEA"),
    *_TYPES,
)
