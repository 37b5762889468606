"""Modules of DB-API that are missing: what PEP 249 asks of one. Its `connect` is replaced as that of one that is there."""

import importlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

_ERRORS = (
    "Warning", "Error", "InterfaceError", "DatabaseError", "DataError", "OperationalError", "IntegrityError", "InternalError",
    "ProgrammingError", "NotSupportedError",
)  # fmt: skip


def fill_server(module: ModuleType, client: str, style: str) -> None:
    """Give a module what PEP 249 asks for, and what goes beyond it as far as people use it.

    ``module``: the client's, or one of its submodules. ``client``: the client's name. ``style``: how its statements mark
    parameters.
    """
    names = _SUBMODULES.get(module.__name__)
    errors = {name: _error(client, name) for name in _ERRORS}
    if names is not None:
        vars(module).update(names | errors)
        return
    vars(module).update(
        errors, apilevel="2.0", paramstyle=style, threadsafety=1, connect=_connect, Binary=bytes
    )


_MADE: dict[tuple[str, str], type[Exception]] = {}


def _error(client: str, name: str) -> type[Exception]:
    known = _MADE.get((client, name))
    if known is None:
        base = (
            Exception if name in {"Warning", "Error"} else _error(client, _BASES.get(name, "DatabaseError"))
        )
        known = _MADE[client, name] = type(name, (base,), {"pgcode": None, "errno": 0})
    return known


_BASES = {"InterfaceError": "Error", "DatabaseError": "Error"}


def _connect(*_: Any, **__: Any) -> Any:
    raise sqlite3.OperationalError(
        "there is no server here: connect in the function that writes a batch, or in the program"
    )


class _Pool:
    """Connections that are lent: each is made when it is wanted."""

    def __init__(self, _least: int, _most: int, *args: Any, **options: Any) -> None:
        self._args, self._options = args, options

    def getconn(self, key: Any = None) -> Any:
        del key
        return importlib.import_module("psycopg2").connect(*self._args, **self._options)

    def putconn(self, conn: Any, key: Any = None, close: bool = False) -> None:
        del key, close
        conn.rollback()

    def closeall(self) -> None: ...


def _execute_values(
    cur: Any, sql: str, argslist: Iterable[Any], template: str | None = None, **_: Any
) -> None:
    rows = list(argslist)
    if rows:
        marks = template or f"({', '.join(['%s'] * len(rows[0]))})"
        cur.executemany(sql.replace("%s", marks, 1), rows)


def _execute_batch(cur: Any, sql: str, argslist: Iterable[Any], **_: Any) -> None:
    cur.executemany(sql, argslist)


EXTRAS: dict[str, Callable[..., Any]] = {"execute_values": _execute_values, "execute_batch": _execute_batch}
"""psycopg2's functions for many rows, beyond PEP 249."""


def _json(value: Any, dumps: Any = None) -> str:
    return str((dumps or json.dumps)(value))


_SUBMODULES: dict[str, dict[str, Any]] = {
    "psycopg2.extras": {**EXTRAS, "Json": _json},
    "psycopg2.pool": {"SimpleConnectionPool": _Pool, "ThreadedConnectionPool": _Pool},
    "psycopg2.errors": {"UniqueViolation": _error("psycopg2", "IntegrityError")},
    "psycopg.errors": {"UniqueViolation": _error("psycopg", "IntegrityError")},
    "pymysql.err": {}, "pymysql.cursors": {}, "mysql.connector.errors": {},
}  # fmt: skip
