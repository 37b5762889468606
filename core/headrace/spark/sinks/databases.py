"""The databases that a `DatabaseSink` writes to: SQLite, in a file, and PostgreSQL, by URL.

Rules of this file: it contains only what differs between the two. What a transaction has read must still hold when it commits, so
SQLite's write lock is taken at the start. Every exception of a database driver becomes a `SinkError` that says what to do.
"""

import datetime as dt
import importlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import types as t

from headrace.api.errors import HeadraceError, OptionsError
from headrace.spark.io_errors import SinkBusyError, SinkError, SinkTableError
from headrace.spark.runtime.files import scheme_of

Values = Sequence[Any]


def database_of(url: str, timeout_s: float) -> "Sqlite | Postgres":
    """Return the database for a URL.

    Args:
        url: ``postgresql://...``, ``sqlite:///PATH``, or the path of an SQLite file.
        timeout_s: maximum wait for other processes' locks, seconds.

    Raises:
        OptionsError: the URL is of no supported kind.
        SinkError: the database driver is not installed.
    """
    scheme, _, rest = url.partition("://")
    if scheme_of(url) is None:
        return Sqlite(url, timeout_s)
    if scheme == "sqlite" and rest.startswith("/"):
        return Sqlite(rest[1:], timeout_s)
    if scheme in ("postgresql", "postgres"):
        return Postgres(url, timeout_s)
    raise OptionsError("url", without_password(url), "postgresql://..., sqlite:///PATH or the path of a file")


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


# SQLite


@dataclass(frozen=True, slots=True)
class Sqlite:
    """An SQLite file.

    Attributes:
        path: its path.
        timeout_s: maximum wait for other processes' locks, seconds.
    """

    path: str
    timeout_s: float

    @property
    def name(self) -> str:
        """Its name in messages: the path."""
        return self.path

    def type_of(self, kind: t.DataType) -> str | None:
        """Return the column type for a Spark type; ``None`` if there is none. SQLite stores times as text."""
        return next((name for kinds, name in _SQLITE_TYPES if isinstance(kind, kinds)), None)

    @contextmanager
    def transaction(self) -> "Iterator[_SqliteTransaction]":
        """Open a transaction; commit it at the end, or roll it back on an exception. Takes the file's only write lock at once."""
        try:
            connection = sqlite3.connect(self.path, timeout=self.timeout_s, isolation_level=None)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield _SqliteTransaction(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()  # rolls back what was not committed
        except sqlite3.Error as error:
            raise self._told(error) from error

    def _told(self, error: sqlite3.Error) -> HeadraceError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind, problem, remedy = _SQLITE_ERRORS.get(
            code, (SinkError, str(error), "None of this batch was written")
        )
        return kind(self.name, problem.format(timeout_s=self.timeout_s, error=error), remedy)


@dataclass(frozen=True, slots=True)
class _SqliteTransaction:
    connection: sqlite3.Connection

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def columns(self, table: str) -> list[str]:
        return [row[1] for row in self.ask(f"PRAGMA table_info({quoted(table)})")]

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Values]) -> None:
        names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
        sql = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"  # noqa: S608  quoted
        self.connection.executemany(sql, ([_sqlite_value(value) for value in row] for row in rows))


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


@dataclass(frozen=True, slots=True)
class Postgres:
    """A PostgreSQL server."""

    url: str
    timeout_s: float

    def __post_init__(self) -> None:
        """Check for the driver when the sink is created, not in its first batch."""
        self._driver()

    @property
    def name(self) -> str:
        """Its name in messages: the URL without its password."""
        return without_password(self.url)

    def type_of(self, kind: t.DataType) -> str | None:
        """See `Sqlite`. Returns the nearest type."""
        if isinstance(kind, t.DecimalType):
            return f"NUMERIC({kind.precision}, {kind.scale})"
        return next((name for kinds, name in _POSTGRES_TYPES if isinstance(kind, kinds)), None)

    def _driver(self) -> Any:
        try:
            return importlib.import_module("psycopg")
        except ImportError as error:
            raise SinkError(
                self.name,
                f"the PostgreSQL driver is not installed ({error})",
                "Install psycopg: pip install 'psycopg[binary]'",
            ) from error

    @contextmanager
    def transaction(self) -> "Iterator[_PostgresTransaction]":
        """See `Sqlite`. Limits the wait for locks to ``timeout_s``."""
        driver = self._driver()
        try:
            with driver.connect(self.url, connect_timeout=max(2, int(self.timeout_s))) as connection:
                connection.execute(f"SET LOCAL lock_timeout = {int(self.timeout_s * 1_000)}")
                yield _PostgresTransaction(connection)
        except driver.Error as error:
            raise self._told(driver, error) from error

    def _told(self, driver: Any, error: Exception) -> HeadraceError:
        errors, text = driver.errors, str(error).strip().replace("\n", "; ")
        if isinstance(error, errors.LockNotAvailable):
            remedy = "Find the holder in pg_stat_activity, or give the sink a longer timeout_s"
            return SinkBusyError(
                self.name, f"another process has kept a lock for {self.timeout_s:g} s", remedy
            )
        if isinstance(error, errors.DiskFull):
            return SinkError(
                self.name, f"its disk is full ({text})", "Free some space, then start the query again"
            )
        if isinstance(error, driver.DataError | driver.IntegrityError | driver.ProgrammingError):
            remedy = "Fix the table or the types, or choose another table"
            return SinkTableError(self.name, f"the database rejected the batch ({text})", remedy)
        return SinkError(
            self.name,
            text,
            "None of this batch was written, unless the connection was lost during the commit",
        )


@dataclass(frozen=True, slots=True)
class _PostgresTransaction:
    connection: Any

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.replace("?", "%s"), values)
        return list(cursor.fetchall()) if cursor.description else []

    def columns(self, table: str) -> list[str]:
        of_the_table = "attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"
        sql = f"SELECT attname FROM pg_attribute WHERE {of_the_table} ORDER BY attnum"  # noqa: S608  ours
        rows = self.ask(sql, quoted(table))
        return [row[0] for row in rows]

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Values]) -> None:
        names = ", ".join(map(quoted, columns))
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {quoted(table)} ({names}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)


_POSTGRES_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((t.StringType,), "TEXT"),
    ((t.BooleanType,), "BOOLEAN"),
    ((t.IntegralType,), "BIGINT"),
    ((t.FractionalType,), "DOUBLE PRECISION"),
    ((t.TimestampType,), "TIMESTAMPTZ"),
    ((t.TimestampNTZType,), "TIMESTAMP"),
    ((t.DateType,), "DATE"),
    ((t.BinaryType,), "BYTEA"),
)

Transaction = _SqliteTransaction | _PostgresTransaction
"""An open transaction of either. Its method ``ask`` runs a statement, in which ``?`` stands for a value, and returns its rows;
``columns`` returns the names of a table's columns, none if there is no such table; ``insert`` inserts many rows."""
