"""Database servers: an SQLite database in the trial's directory stands in for each server that a DB-API module connects to.

psycopg2, PyMySQL, oracledb and other PEP 249 modules talk to their server from C or by their own protocols, which cannot be
followed. So their `connect` is replaced. Placeholders and exceptions stay the module's. Statements are SQLite's: what SQLite
cannot parse is an error.

Deviation: a writer locks the whole database until the end of its transaction, as in SQLite, not rows.
"""

import importlib
import operator
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from unittest.mock import patch

from headrace_sim.spark import refusals
from headrace_sim.spark.sinks.sqlite_effects import Connection, Cursor
from headrace_sim.spark.stores.client_modules import EXTRAS, answer_client, is_answered
from headrace_sim.spark.stores.client_objects import StoresOfProgram, record_with

_CAST = re.compile(r"::\s*\w+(?:\s*\([\d, ]+\))?(?:\[\])?")
_DATABASE = re.compile(r"(?:\bdbname\s*=\s*|\w/)['\"]?(\w+)['\"]?(?:\?.*)?(?:\s|$)")
_INSERTED = re.compile(
    r"\s*(?:INSERT|REPLACE)\s+(?:OR\s+\w+\s+)?INTO\s+[\"`]?(\w+)[\"`]?\s*\(([^)]*)\)", re.IGNORECASE
)
_CONFLICT = re.compile(r"ON\s+CONFLICT\s*\(([^)]*)\)", re.IGNORECASE)
_NAMES = ("dbname", "database", "db", "service_name")
_OWN = "sqlite3"
_bootstrap: Any = importlib._bootstrap
"""What both statements and `importlib.import_module` find modules by."""
_REPLACED: list[tuple[ModuleType, str, Callable[..., Any]]] = []
"""The functions that were replaced, and what they were."""


_LOADED: dict[Callable[[ModuleType], bool], tuple[int, list[ModuleType]]] = {}
"""The loaded modules that are wanted, and how many were loaded then."""


def loaded(wanted: Callable[[ModuleType], bool]) -> list[ModuleType]:
    """Return the loaded modules that are wanted. A process that forks asks first: looking at all of them copies their pages."""
    count, known = _LOADED.get(wanted, (0, []))
    if count != len(sys.modules):
        modules: list[Any] = list(sys.modules.values())  # anything may stand there
        known = [module for module in modules if isinstance(module, ModuleType) and wanted(module)]
        _LOADED[wanted] = len(sys.modules), known
    return known


_Places = list[tuple[ModuleType, str]]
_BOUND: dict[Callable[..., Any], _Places] = {}
"""Where the user's modules have what is replaced, by function; as of these modules:"""
_BOUND_IN: list[Any] = []
_BOUND_BY: list[int] = []
"""The process that looked."""


def look_for_bindings() -> None:
    """Look where the user's modules have what will be replaced. A process that forks does so first: see `loaded`."""
    if not _are_bindings_known():
        _BOUND_IN[:] = sys.modules.values()
        _BOUND_BY[:] = [os.getpid()]
        _BOUND.clear()
    for module in loaded(is_database):
        for owner, name in _replaceable(module):
            function = getattr(owner, name)
            if function not in _BOUND:
                _BOUND[function] = _bindings(function)


def _are_bindings_known() -> bool:
    """Return whether the modules are those of then. A fork only counts them: to compare them would copy their pages."""
    if len(_BOUND_IN) != len(sys.modules):
        return False
    return os.getpid() not in _BOUND_BY or all(map(operator.is_, _BOUND_IN, sys.modules.values()))


def _bindings(function: Callable[..., Any]) -> _Places:
    """Return where the user's modules have a function."""
    users = [sys.modules[name] for name in list(sys.modules) if not refusals.is_installed(name)]
    return [(user, name) for user in users for name, value in list(vars(user).items()) if value is function]


def when_imported(answer: Callable[[ModuleType], None], wanted: Callable[[ModuleType], bool]) -> None:
    """Call a function with each module that is wanted, including those that this process imports later."""
    for module in loaded(wanted):
        answer(module)
    really_find = _bootstrap._find_and_load

    def find_and_answer(name: str, *args: Any) -> Any:
        imported = really_find(name, *args)
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            answer(module)
        return imported

    _bootstrap._find_and_load = find_and_answer


@dataclass(slots=True)
class KeptDatabases:
    """What a program had made when it had run: the files of its databases, by name, and what it had changed in stores."""

    files: dict[str, bytes] = field(default_factory=dict)
    stores: StoresOfProgram = field(default_factory=StoresOfProgram)

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.files or self.stores.writes)

    def restore(self) -> None:
        """Put the databases into the working directory, and change the stores again."""
        self.stores.restore()
        for name, content in self.files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)


@contextmanager
def databases_kept() -> Iterator[KeptDatabases]:
    """Answer databases and stores within, and keep them apart: nothing real changes, and trials can begin with what they hold."""
    kept = KeptDatabases()
    really_find, really_connect, start = _bootstrap._find_and_load, sqlite3.connect, len(_REPLACED)
    with (
        tempfile.TemporaryDirectory() as temporary,
        patch.multiple(Connection, probe=_Passing(), create=True),
    ):
        folder = Path(temporary)

        def connect(database: Any, *args: Any, **options: Any) -> Any:
            options.setdefault("factory", Connection)
            return really_connect(_inside(folder, database), *args, **options)

        with patch.multiple(Cursor, probe=_Passing(), create=True):
            sqlite3.connect = sqlite3.dbapi2.connect = connect
            answer_databases()
            when_imported(lambda module: answer_client(module, replace_in), is_answered)
            record_with(kept.stores)
            try:
                yield kept
            finally:
                _bootstrap._find_and_load = really_find
                sqlite3.connect = sqlite3.dbapi2.connect = really_connect
                for module, name, real in reversed(_REPLACED[start:]):
                    replace_in(module, name, real)
                del _REPLACED[start:]
                files = (path for path in folder.rglob("*") if path.is_file())
                kept.files.update({str(path.relative_to(folder)): path.read_bytes() for path in files})


def _inside(folder: Path, database: Any) -> Any:
    """Return where a database of the working directory is kept: as it is there, at first."""
    if not isinstance(database, str | Path) or database in {":memory:", ""} or Path(database).is_absolute():
        return database
    place = folder / database
    if not place.exists() and Path(database).is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(database, place)
    return place


class _Passing:
    """A probe that records nothing."""

    @contextmanager
    def effect(self, *_: Any, **__: Any) -> Iterator[None]:
        yield

    def rolled_back(self, _connection: int) -> None: ...
    def assumed(self, _target: str) -> None: ...


def answer_databases() -> None:
    """Redirect the connections of all DB-API modules."""
    when_imported(_answer, is_database)


def is_database(module: ModuleType) -> bool:
    """Return whether a module is one of DB-API."""
    return {"apilevel", "paramstyle", "connect"} <= vars(module).keys()


def _answer(module: ModuleType) -> None:
    name, _, last = module.__name__.rpartition(".")
    module = sys.modules.get(name, module) if last == "extras" else module  # which may be imported behind it
    if not is_database(module) or module.__name__.startswith(_OWN):
        return

    def connect(*args: Any, **options: Any) -> Any:
        return _connected(module, args, options)

    connect.stands_in = True  # type: ignore[attr-defined]
    if not hasattr(module.connect, "stands_in"):
        replace_in(module, "connect", connect)
    for owner, name in _replaceable(module)[1:]:
        replace_in(owner, name, EXTRAS[name])


def _replaceable(module: ModuleType) -> _Places:
    """Return what is replaced of a module of DB-API: where it is, and its name."""
    if module.__name__.startswith(_OWN):
        return []
    extras = sys.modules.get(f"{module.__name__}.extras")
    of_extras = [(extras, name) for name in EXTRAS if extras is not None and hasattr(extras, name)]
    return [(module, "connect"), *of_extras]


def replace_in(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Replace a function of a module, also where the user's modules have imported it by name."""
    real = getattr(module, name)
    if real is function:  # a module under two names
        return
    _REPLACED.append((module, name, real))
    setattr(module, name, function)
    places = _BOUND.get(real) if _are_bindings_known() else None
    for user, known in _bindings(real) if places is None else places:
        setattr(user, known, function)


def _connected(module: ModuleType, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    option = next((str(options[name]) for name in _NAMES if options.get(name)), "")
    texts = [str(text) for text in (*args, options.get("dsn", ""), options.get("conninfo", ""))]
    in_text = next((match[1] for text in texts if (match := _DATABASE.search(text))), "")
    name = f"{module.__name__}-{option or in_text or 'database'}.db"

    class Connected(_ServerConnection):
        of = module

    with _errors_of(module):
        connection = sqlite3.connect(name, factory=Connected, check_same_thread=False)
    connection.shown = name
    connection.create_function("now", 0, lambda: datetime.now(UTC).isoformat())
    return connection


class _ServerCursor(Cursor):
    def _module(self) -> ModuleType:
        assert isinstance(self.connection, _ServerConnection)
        return self.connection.of

    def execute(self, sql: str, parameters: Any = None, /) -> Any:
        module = self._module()
        self._assume_table(sql)
        with _errors_of(module):
            if parameters is None:
                return super().execute(_CAST.sub("", sql))
            return super().execute(_as_sqlite(sql, module.paramstyle), _plain(parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        module = self._module()
        self._assume_table(sql)
        with _errors_of(module):
            return super().executemany(_as_sqlite(sql, module.paramstyle), list(map(_plain, parameters)))

    def _assume_table(self, sql: str) -> None:
        """Make a table that nothing has made, as a statement says that inserts into it: its columns, and its key."""
        inserted, key = _INSERTED.match(sql), _CONFLICT.search(sql)
        if inserted is None:
            return
        look = sqlite3.Connection.cursor(self.connection, sqlite3.Cursor)
        if look.execute(
            "SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (inserted[1],)
        ).fetchone():
            return
        unique = f", UNIQUE ({key[1]})" if key is not None else ""
        look.execute(f'CREATE TABLE "{inserted[1]}" ({inserted[2]}{unique})')
        self.probe.assumed(f"{getattr(self.connection, 'shown', '')}: {inserted[1]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        raise _refusal(self._module(), f"cursor.{name}")


class _ServerConnection(Connection):
    of: ModuleType
    remote = True

    def cursor(self, *args: Any, **options: Any) -> Any:
        if args or options:
            raise _refusal(self.of, "cursor() with arguments")
        return super().cursor(_ServerCursor)

    def execute(self, sql: str, parameters: Any = None, /) -> Any:
        return self.cursor().execute(sql, parameters)

    def commit(self) -> None:
        with _errors_of(self.of):
            super().commit()

    @property
    def autocommit(self) -> bool:
        return self.isolation_level is None

    @autocommit.setter
    def autocommit(self, on: bool) -> None:
        self.isolation_level = None if on else "DEFERRED"

    def __getattr__(self, name: str) -> Any:
        raise _refusal(self.of, f"connection.{name}")


def _refusal(module: ModuleType, call: str) -> Exception:
    if call.endswith("__"):  # something looks for a protocol
        return AttributeError(call)
    remedy = f"A stand-in answers for {module.__name__}: keep to execute(), executemany(), fetch...(), commit() and rollback()"
    return refusals.CannotFollowError(f"{module.__name__}'s {call}", refusals.users_place(), remedy)


@contextmanager
def _errors_of(module: ModuleType) -> Iterator[None]:
    """Raise the module's exceptions instead of SQLite's."""
    try:
        yield
    except (sqlite3.Error, ConnectionError) as error:
        name = "OperationalError" if isinstance(error, ConnectionError) else type(error).__name__
        kind = getattr(module, name, type(error))
        if "UNIQUE constraint failed" in str(error):
            kind = getattr(getattr(module, "errors", None), "UniqueViolation", kind)
        message = f"{error} (here SQLite answers for {module.__name__})"
        raise kind(message) from error


def _as_sqlite(sql: str, style: str) -> str:
    """Convert a statement's placeholders to SQLite's."""
    sql = _CAST.sub("", sql)
    if style == "numeric":
        return re.sub(r":(\d+)", r"?\1", sql)
    if style not in {"format", "pyformat"}:
        return sql
    return re.sub(r"%[sbt]", "?", re.sub(r"%\((\w+)\)s", r":\1", sql)).replace("%%", "%")


def _plain(parameters: Any) -> Any:
    if isinstance(parameters, dict):
        return {name: _plain_value(value) for name, value in parameters.items()}
    return tuple(map(_plain_value, parameters))


def _plain_value(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str | bytes) else str(value)
