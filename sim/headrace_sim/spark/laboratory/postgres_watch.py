"""What a process changes in PostgreSQL, seen by the probe on the wire, whatever driver speaks there.

The drivers of this process are redirected to a relay, in threads of this process, that passes on what they and the server say.
See "Frontend/Backend Protocol" in PostgreSQL's documentation.

Rules of this file:

* What a client sends up to a ``Sync``, or as one simple query, is a unit: the server carries it out as a whole, even if the
  client dies meanwhile, or not at all. So an effect has no half.
* A unit that changes something is an effect. Its reply reaches the client when the effect has been recorded: to lose a reply, or
  to refuse a request, is to break the connection after it, or before.
* A statement that fails is no effect. What a connection leaves uncommitted, the server rolls back.
"""

import select
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any

from py4j.clientserver import ClientServerConnection

from headrace_sim.spark.laboratory.postgres import PostgresDatabase, find_jdbc_jar, redirected_jdbc
from headrace_sim.spark.laboratory.postgres_statements import (
    COMMIT,
    StatementChange,
    begins,
    changes_of,
    copies_from_client,
)
from headrace_sim.spark.refusals import CannotFollowError, place_in_other_threads, users_place
from headrace_sim.spark.sinks.database_servers import replace_in, when_imported
from headrace_sim.spark.sinks.sink_effects import EffectProbe, UntraceableEffect

_ADDRESS = (
    "channel_binding", "direct_tls", "gss", "host", "krb", "load_balance", "passfile", "password", "port", "require", "service",
    "ssl", "target_session_attrs", "user",
)  # fmt: skip
_OTHER_WAYS = (80877103, 80877104)
"""Requests for TLS, and for GSSAPI: this is the loopback interface."""
_CANCEL = 80877102
_IDLE = b"I"
_BUSY_S = 0.5


def watch_postgres(probe: EffectProbe, database: PostgresDatabase) -> None:
    """Redirect this process's connections to PostgreSQL to a trial's database, and report each change, irreversibly.

    What Java connects to for this process goes the same way, so that it ends with it. The write of a DataFrame is one effect.

    ``probe``: told of each change. ``database``: the trial's.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    numbers, names, turn = count(1), set[str](), threading.Lock()

    def accept() -> None:
        while True:
            relay = _Relay(probe, database, listener.accept()[0], next(numbers), names, turn)
            threading.Thread(target=relay.run, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    relayed = replace(database, host="127.0.0.1", port=listener.getsockname()[1])
    when_imported(partial(_redirect, relayed), _is_driver)
    really_send = ClientServerConnection.send_command

    def send(connection: Any, command: str) -> Any:
        if "jdbc:postgresql:" in command:
            if find_jdbc_jar() is None:
                raise CannotFollowError("JDBC to PostgreSQL", users_place(), _NO_JAR)
            command = redirected_jdbc(command, relayed)
        return really_send(connection, command)

    ClientServerConnection.send_command = send


_NO_JAR = "Its driver is missing: Debian's libpostgresql-jdbc-java has it; or put postgresql-*.jar beside Spark's own jars"


def _is_driver(module: ModuleType) -> bool:
    return module.__name__ in _DRIVERS and hasattr(module, "connect")  # it may be on its way in


def _redirect(database: PostgresDatabase, module: ModuleType) -> None:
    if _is_driver(module) and not hasattr(module, "headrace_database"):
        vars(module)["headrace_database"] = database
        _DRIVERS[module.__name__](module, database)


def _redirect_psycopg(module: Any, database: PostgresDatabase) -> None:
    def redirected(really: Callable[..., Any]) -> Any:
        def connect(kind: Any, /, conninfo: str = "", **options: Any) -> Any:
            return really(
                kind, **_kept(module.conninfo.conninfo_to_dict(conninfo) | options), **_of(database)
            )

        connect.stands_in = True  # type: ignore[attr-defined]
        return classmethod(connect)

    for kind in (module.Connection, module.AsyncConnection):
        kind.connect = redirected(kind.connect.__func__)
    replace_in(module, "connect", module.Connection.connect)


def _redirect_psycopg2(module: Any, database: PostgresDatabase) -> None:
    really = module.connect

    def connect(dsn: str | None = None, *factories: Any, **options: Any) -> Any:
        named = dict(zip(("connection_factory", "cursor_factory"), factories, strict=False))
        return really(**_kept(module.extensions.parse_dsn(dsn or "") | options | named), **_of(database))

    connect.stands_in = True  # type: ignore[attr-defined]
    replace_in(module, "connect", connect)


def _redirect_asyncpg(module: Any, database: PostgresDatabase) -> None:
    really = module.connect_utils._connect
    own = {name: getattr(database, name) for name in ("host", "port", "user", "password")} | {"ssl": False}

    async def connect(**options: Any) -> Any:
        elsewhere = dict.fromkeys(options.keys() & {"passfile", "service", "servicefile", "direct_tls"})
        return await really(**options | elsewhere | own)

    module.connect_utils._connect = connect


_DRIVERS: dict[str, Callable[[Any, PostgresDatabase], None]] = {
    "asyncpg": _redirect_asyncpg,
    "psycopg": _redirect_psycopg,
    "psycopg2": _redirect_psycopg2,
}
"""How the drivers are redirected."""


def _kept(options: dict[str, Any]) -> dict[str, Any]:
    """Return what a program asks of a connection, but where it is, who it is, and how it is encrypted."""
    kept = {name: value for name, value in options.items() if not name.startswith(_ADDRESS)}
    return {"dbname" if name == "database" else name: value for name, value in kept.items()}


def _of(database: PostgresDatabase) -> dict[str, Any]:
    return {
        "host": database.host, "hostaddr": database.host, "port": database.port, "user": database.user,
        "password": database.password, "sslmode": "disable", "gssencmode": "disable",
    }  # fmt: skip


class _Messages:
    """What one side says."""

    def __init__(self, side: socket.socket) -> None:
        self._side, self._rest = side, b""

    def read(self) -> list[bytes]:
        """Wait for more; return the messages that are complete."""
        more = self._side.recv(1 << 16)
        if not more:
            raise EOFError
        self._rest += more
        messages = []
        while len(self._rest) > 4 and len(self._rest) > (end := int.from_bytes(self._rest[1:5])):
            messages.append(self._rest[: end + 1])
            self._rest = self._rest[end + 1 :]
        return messages


class _FailedError(Exception):
    """The server has refused a unit."""


class _Relay:
    """One connection, from the program to the server."""

    def __init__(
        self,
        probe: EffectProbe,
        database: PostgresDatabase,
        client: socket.socket,
        number: int,
        names: set[str],
        turn: threading.Lock,
    ) -> None:
        self._probe, self._database, self._client, self._number = probe, database, client, number
        self._names, self._turn = names, turn
        self._status = _IDLE
        self._awaited = 0  # replies to units that have been sent
        self._unit: list[bytes] = []
        self._executed: list[str] = []
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._temporary: set[str] = set()
        self._copying: list[StatementChange] | None = None
        self._is_unsynced = self._has_failed = self._is_simple = self._is_rolled_back = False

    def run(self) -> None:
        """Serve the connection until one side ends it."""
        try:
            with self._client, socket.create_connection((self._database.host, self._database.port)) as server:
                self._server, self._replies = server, _Messages(server)
                for side in (self._client, server):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._begin():
                    self._serve(_Messages(self._client))
        except (OSError, EOFError):  # a fault of the trial's, too
            pass

    def _begin(self) -> bool:
        """Let the connection begin, in the trial's database; return whether it does."""
        while True:
            size = self._client.recv(4, socket.MSG_WAITALL)
            body = self._client.recv(int.from_bytes(size) - 4, socket.MSG_WAITALL)
            code = int.from_bytes(body[:4])
            if code == _CANCEL:
                self._server.sendall(size + body)
            if code not in _OTHER_WAYS:
                break
            self._client.sendall(b"N")
        words = body[4:].split(b"\0")
        asked = dict(zip(words[::2], words[1::2], strict=False))
        asked.pop(b"", None)
        self._check(asked.get(b"database", asked.get(b"user", b"")).decode())
        own = {b"user": self._database.user.encode(), b"database": self._database.name.encode()}
        pairs = b"".join(name + b"\0" + value + b"\0" for name, value in (asked | own).items())
        self._server.sendall((len(pairs) + 9).to_bytes(4) + body[:4] + pairs + b"\0")
        return code != _CANCEL

    def _check(self, name: str) -> None:
        self._names.add(name)
        if len(self._names) > 1:
            what = f"the databases {' and '.join(sorted(self._names))} in one program"
            error = CannotFollowError(what, place_in_other_threads(), "Test what writes to each apart")
            self._probe.ledger.append(UntraceableEffect(str(error)))
            raise ConnectionRefusedError

    def _serve(self, requests: _Messages) -> None:
        while True:
            for side in select.select([self._server, self._client], [], [])[0]:
                if side is self._server:
                    self._pass_on(self._replies.read())
                else:
                    for message in requests.read():
                        self._take(message)

    def _take(self, message: bytes) -> None:
        """Take a message of the client's; send the unit if it ends one."""
        kind, words = message[:1], message[5:].split(b"\0")
        self._unit.append(message)
        if kind == b"Q":
            self._executed.append(words[0].decode())
        elif kind == b"P":
            self._prepared[words[0]] = words[1].decode()
        elif kind == b"B":
            self._portals[words[0]] = self._prepared.get(words[1], "")
        elif kind == b"E":
            self._executed.append(self._portals.get(words[0], ""))
        if kind in b"QSHdfXFp" or (kind == b"c" and self._is_simple):
            self._send(kind)

    def _send(self, kind: bytes) -> None:
        """Send a unit; if it changes something, wait for the reply."""
        unit, executed = b"".join(self._unit), self._executed
        self._unit, self._executed = [], []
        changes = [
            change
            for sql in dict.fromkeys(executed)
            for change in changes_of(sql, self._temporary, self._database.functions)
        ]
        copies = any(map(copies_from_client, {*executed}))
        while self._awaited and (changes or copies):
            self._pass_on(self._replies.read())
        if copies:  # its rows follow
            self._copying, self._is_simple = changes, kind == b"Q"
            changes = []
        elif kind in b"cS" and self._copying is not None:
            changes, self._copying = self._copying, None
        elif kind == b"S" and not changes and self._is_unsynced and self._status == _IDLE:
            changes = [StatementChange(COMMIT)]
        if kind == b"f":
            self._copying = None
        if not changes:
            self._awaited += kind in b"QSF" and self._copying is None
            self._server.sendall(unit)
        else:
            self._change(unit, kind, changes, executed)

    def _change(self, unit: bytes, kind: bytes, changes: list[StatementChange], executed: list[str]) -> None:
        """Send a unit that changes something, and its reply."""
        table = next((change.table for change in changes if change.table), "")
        commits = any(change.action == COMMIT for change in changes)
        self._is_unsynced, replies = kind == b"H", list[bytes]()
        at_once = self._status == _IDLE and not self._is_unsynced
        has_turn = self._turn.acquire(timeout=_BUSY_S)  # who holds it may wait for a lock of ours
        try:
            with self._probe.effect(
                "; ".join(dict.fromkeys(change.action for change in changes)),
                f"postgres: {table}" if table else "postgres",
                replied=commits or (at_once and not any(map(begins, {*executed}))),
                pending=lambda: self._status != _IDLE or self._is_unsynced,
                connection=self._number,
                place=place_in_other_threads(),
            ):
                self._server.sendall(unit)
                self._wait_for_reply(replies, len(executed) if self._is_unsynced else 0)
        except _FailedError:
            pass
        finally:
            if has_turn:
                self._turn.release()
        self._client.sendall(b"".join(replies))

    def _wait_for_reply(self, replies: list[bytes], executions: int) -> None:
        """Wait for the reply to a unit: its end, or, of one that has none, that of so many executions.

        Raise `_FailedError` if the server does not carry it out.
        """
        self._has_failed = False
        ends, wanted = (b"CIsE", executions) if executions else (b"Z", 1)
        while wanted > 0:
            messages = self._replies.read()
            self._note(messages)
            replies += messages
            wanted -= sum(message[:1] in ends for message in messages)
            if self._has_failed and executions:
                break
        if self._has_failed:
            raise _FailedError

    def _pass_on(self, messages: list[bytes]) -> None:
        self._note(messages)
        self._client.sendall(b"".join(messages))

    def _note(self, messages: list[bytes]) -> None:
        for message in messages:
            kind, rest = message[:1], message[5:]
            rolled_back = kind == b"C" and rest == b"ROLLBACK\0"  # an answer to COMMIT, too, behind an error
            self._has_failed |= kind == b"E" or rolled_back
            self._is_rolled_back |= rolled_back
            if kind == b"Z":
                self._status, self._awaited = rest, max(0, self._awaited - 1)
                self._copying = None  # it was refused, if it has not ended
                self._is_unsynced = False
                if self._is_rolled_back and rest == _IDLE:
                    self._probe.rolled_back(self._number)
                self._is_rolled_back = False
