"""Modules of clients: those that are missing are made of the table, and those that are there are answered by it."""

import importlib
import json
import sqlite3
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NoReturn

from headrace_sim.spark.stores.client_objects import ClientKind, Named, Opener, error_named, refuse
from headrace_sim.spark.stores.client_table import CLIENTS, SERVERS

_FOLLOWED_BELOW = frozenset({"redis", "requests"})
"""What is followed where it is installed, by the commands that it sends."""
_KNOWN = frozenset({*CLIENTS, *SERVERS})


def client_of(name: str) -> str | None:
    """Return the client that a module is of; None: of none."""
    return next((client for client in _KNOWN if f"{name}.".startswith(f"{client}.")), None)


def is_around_client(name: str) -> bool:
    """Return whether a module is a package around a client."""
    return any(client.startswith(f"{name}.") for client in _KNOWN)


def make_client_module(name: str, client: str) -> ModuleType:
    """Return a module in the place of one that is missing. ``client``: the client that it is of."""
    module = _ClientModule(name)
    if client in SERVERS:
        fill_server(module, client, SERVERS[client])
    return module


class _ClientModule(ModuleType):
    """A client's module, or one of its submodules."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        client = str(client_of(self.__name__))
        row = CLIENTS.get(client, {}).get(name)
        if row is not None:
            return _member(client, name, row)
        if name.islower():
            return importlib.import_module(f"{self.__name__}.{name}")
        return error_named(client, name) or Named(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        refuse(f"{self.__name__}()", str(client_of(self.__name__)))

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _member(client: str, name: str, row: Any) -> Any:
    return Opener(client, name, row) if isinstance(row, ClientKind) else row


def is_made(module: ModuleType) -> bool:
    """Return whether a module was made of the table."""
    return isinstance(module, _ClientModule)


def is_answered(module: ModuleType) -> bool:
    """Return whether a module that is installed has classes that are answered."""
    client = client_of(module.__name__)
    return client in CLIENTS and client not in _FOLLOWED_BELOW and not is_made(module)


def answer_client(module: ModuleType, replace: Callable[[ModuleType, str, Any], None]) -> None:
    """Answer an installed client by the table.

    ``module``: one of its modules. ``replace``: replaces a name of a module, wherever it was imported.
    """
    client = client_of(module.__name__)
    if client is None or not is_answered(module):
        return
    for name, row in CLIENTS[client].items():
        real = vars(module).get(name)
        if real is not None and not isinstance(real, Opener) and real is not row:
            replace(module, name, _member(client, name, row))


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
