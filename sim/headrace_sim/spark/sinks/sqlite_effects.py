"""A sink's effects on SQLite databases: each statement that changes one, each commit, and each begin, which may take a lock."""

import re
import sqlite3
from collections.abc import Iterable
from itertools import count
from types import TracebackType
from typing import Any, Literal

from headrace_sim.spark.sinks.file_effects import shown
from headrace_sim.spark.sinks.sink_effects import EffectProbe

_CHANGE = re.compile(
    r"""\s*(?:WITH\b.*?\)\s*)?(?P<verb>BEGIN|INSERT|REPLACE|UPDATE|DELETE|CREATE|DROP|ALTER|COMMIT|END|VACUUM)\b
    (?:\s+OR\s+\w+)?(?:\s+(?:INTO|FROM|TABLE|INDEX|UNIQUE\s+INDEX|TRANSACTION|VIEW))?(?:\s+IF\s+(?:NOT\s+)?EXISTS)?
    (?:\s+["`\[]?(?P<table>\w+))?""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

BEGIN = "BEGIN"
"""The action that may take a lock: what was read before it may be out of date behind it."""

_ROLLBACK = re.compile(r"\s*ROLLBACK\s*(?:TRANSACTION\s*)?;?\s*$", re.IGNORECASE)
"""Not ``ROLLBACK TO`` a savepoint, which leaves the transaction open."""

_TEMPORARY = re.compile(r"\s*CREATE\s+TEMP(?:ORARY)?\b", re.IGNORECASE)


def watch_sqlite(probe: EffectProbe) -> None:
    """Report each change that this process makes to an SQLite database to the probe."""
    Cursor.probe = Connection.probe = probe
    real_connect, numbers = sqlite3.connect, count(1)

    def connect(database: Any, timeout: float = 5.0, *args: Any, **options: Any) -> Any:
        options.setdefault("factory", Connection)
        # A lock here is held by a paused process, and waiting for it is futile.
        connection = real_connect(database, min(timeout, 0.0), *args, **options)
        if isinstance(connection, Connection):
            connection.execute("PRAGMA synchronous = OFF")  # a process dies here, not the machine
            connection.shown = shown(database) if database != ":memory:" else ":memory:"
            connection.number = next(numbers)
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = connect


class Cursor(sqlite3.Cursor):
    """A cursor that reports each change to the probe."""

    probe: EffectProbe

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":
        """Execute a statement."""
        changed = _changed(self.connection, sql)
        if changed is None:
            if _ROLLBACK.match(sql):
                self.probe.rolled_back(self._number)
            return super().execute(sql, parameters)
        with self.probe.effect(*changed, pending=self._pending, connection=self._number):
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "Cursor":
        """Execute a statement for each row."""
        rows = list(parameters)
        changed = _changed(self.connection, sql)
        if changed is None:
            return super().executemany(sql, rows)
        half = (
            (lambda: super(Cursor, self).executemany(sql, rows[: len(rows) // 2])) if len(rows) > 1 else None
        )
        with self.probe.effect(*changed, half=half, pending=self._pending, connection=self._number):
            return super().executemany(sql, rows)

    def _pending(self) -> bool:
        return self.connection.in_transaction

    @property
    def _number(self) -> int:
        return getattr(self.connection, "number", 0)

    def executescript(self, sql_script: str, /) -> "Cursor":
        """Commit, and execute statement by statement: a script is not one transaction."""
        self.connection.commit()
        for statement in _statements(sql_script):
            self.execute(statement)
        return self


class Connection(sqlite3.Connection):
    """A connection that reports each change and each commit to the probe."""

    probe: EffectProbe
    shown = ""
    number = 0
    remote = False  # whether a reply can be lost

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor."""
        return super().cursor(factory or Cursor)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Execute a statement."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        """Execute a statement for each row."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> Any:
        """Execute the statements of a script."""
        return self.cursor().executescript(sql_script)

    def commit(self) -> None:
        """Commit, if there is something to commit."""
        if not self.in_transaction:
            return
        with self.probe.effect("commit", self.shown, replied=self.remote, connection=self.number):
            super().commit()

    def rollback(self) -> None:
        """Roll back, and report it: pending changes are then not missed."""
        self.probe.rolled_back(self.number)
        super().rollback()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        """Commit, or roll back: as the original does, which calls no method for it."""
        if kind is not None:
            self.rollback()
            return False
        try:
            self.commit()
        except sqlite3.Error:
            self.rollback()
            raise
        return False


def _changed(connection: sqlite3.Connection, sql: str) -> tuple[str, str] | None:
    """Return a statement's action and target, if it changes something."""
    matched = _CHANGE.match(sql)
    name = getattr(connection, "shown", "")
    if matched is None or name == ":memory:":
        return None
    if matched["verb"].upper() in {"COMMIT", "END"}:
        return "commit", name
    if matched["verb"].upper() == BEGIN:
        return BEGIN, name
    if _is_temporary(connection, sql, matched["table"]):
        return None
    words = " ".join(matched.group(0).split())
    return words, f"{name}: {matched['table']}" if matched["table"] else name


def _is_temporary(connection: sqlite3.Connection, sql: str, table: str | None) -> bool:
    """Return whether a statement is about a temporary table, which ends with its connection."""
    if _TEMPORARY.match(sql):
        return True
    look = sqlite3.Connection.cursor(connection, sqlite3.Cursor)
    return look.execute("SELECT 1 FROM sqlite_temp_master WHERE name = ?", (table,)).fetchone() is not None


def _statements(script: str) -> list[str]:
    statements, rest = [], ""
    for piece in script.split(";"):
        rest += f"{piece};"
        if sqlite3.complete_statement(rest) and rest.strip(" \t\r\n;"):
            statements.append(rest)
            rest = ""
    return [*statements, rest] if rest.strip(" \t\r\n;") else statements
