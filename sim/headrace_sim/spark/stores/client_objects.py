"""Objects of clients: what their modules give, as the table of clients says it, and what changes a store in the trial.

Rules of this file:

* The calls of a `ClientKind` are functions that take the object and the arguments of the client's method. A method or an option
  that it lacks is refused by name; one that says how to wait or whom to trust is dropped.
* A request may fail, or lose its reply. The client's exceptions, as the user's code names them, stand for that.
* What a program changes before its queries start is there when a trial begins.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, Protocol, Self

from headrace_sim.spark.refusals import CannotFollowError, users_place
from headrace_sim.spark.stores.redis_commands import RedisCommands, as_texts, carried_out, kept_keys, text_of
from headrace_sim.spark.stores.store_changes import Document, StoreChange, StoreWrite, kept_documents, put

HARMLESS = frozenset(
    {
        "acks", "bypass_document_validation", "chunk_size", "consistency_level", "content_type", "ContentType", "headers",
        "max_retries", "Metadata", "ordered", "partition", "partition_key", "raise_on_exception", "refresh", "request_timeout",
        "retry", "ReturnConsumedCapacity", "ReturnValues", "serial_consistency_level", "ServerSideEncryption", "session",
        "timeout", "timestamp_ms", "write_concern", "write_precision",
    }
)  # fmt: skip
"""Options that say how to wait, or whom to trust: they change nothing of what is kept."""


@dataclass(frozen=True, slots=True)
class ClientKind:
    """What an object of a client can do, each by the name of a method or an attribute."""

    name: str  # as its users know it: ``pymongo's collection``
    calls: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # what its methods do
    # kinds of what methods return: places named by their arguments
    opens: Mapping[str, "ClientKind"] = field(default_factory=dict)
    parts: Mapping[str, "ClientKind"] = field(default_factory=dict)  # the kinds of its attributes
    inner: "ClientKind | None" = None  # the kind of what is behind an attribute or an item of any other name
    rest: Callable[[str], Callable[..., Any] | None] = lambda _: None  # what a method of any other name does


class ClientRecorder(Protocol):
    """Keeps what clients change."""

    def changes(self) -> list[StoreChange]:
        """Return all changes so far."""

    def request(self, action: str, write: StoreWrite) -> None:
        """Carry out a request."""

    def later(self, action: str, write: StoreWrite, place: str) -> Future[Any]:
        """Let a request wait until it is sent in the background."""

    def send_waiting(self) -> None:
        """Send what waits."""

    def commands(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Carry out commands of Redis in one request, and return their replies."""

    def key_of(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's key, lower case, as the author says; none: unknown."""


@dataclass(slots=True)
class StoresOfProgram:
    """Keeps what a program changes outside of its sinks, at once."""

    writes: list[tuple[str, StoreWrite | RedisCommands]] = field(default_factory=list)

    def changes(self) -> list[StoreChange]:
        """Return all changes so far."""
        return [
            change for _, write in self.writes if isinstance(write, StoreWrite) for change in write.changes
        ]

    def request(self, action: str, write: StoreWrite) -> None:
        """Keep it."""
        self.writes.append((action, write))

    def commands(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Keep commands of Redis, and reply to them."""
        replies, changed = carried_out(as_texts(calls), kept_keys(write for _, write in self.writes))
        self.writes.append(("commands", changed))
        return replies

    def restore(self) -> None:
        """Do all of it once more, in a trial."""
        for action, write in self.writes:
            if isinstance(write, StoreWrite):
                recorder().request(action, write)
            else:
                recorder().commands(write.commands)

    def later(self, action: str, write: StoreWrite, place: str) -> Future[Any]:
        """Keep it."""
        del place
        self.request(action, write)
        return answered(None)

    def send_waiting(self) -> None:
        """Do nothing: nothing waits."""

    def key_of(self, table: str) -> tuple[str, ...]:
        """Return none: no key is known."""
        del table
        return ()


_RECORDERS: list[ClientRecorder] = [StoresOfProgram()]


def record_with(recorder: ClientRecorder) -> None:
    """Let a recorder keep what this process's clients change from here on."""
    _RECORDERS[:] = [recorder]


def recorder() -> ClientRecorder:
    """Return what keeps the changes of this process's clients."""
    return _RECORDERS[0]


class ClientObject:
    """An object of a client: a connection, or a database, table or bucket behind it.

    ``client``: the module of the client. ``kind``: what it can do. ``names``: those that lead to it from the connection.
    ``options``: what it was made with.
    """

    def __init__(
        self, client: str, kind: ClientKind, names: tuple[Any, ...] = (), options: Any = None
    ) -> None:
        self._client, self._kind, self._names, self._options = client, kind, names, options or {}
        self._held: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        kind = self._kind
        if name.startswith("__"):
            raise AttributeError(name)
        if name in kind.opens:
            return lambda *args, **options: self._behind(kind.opens[name], *args, **options)
        if name in kind.parts:
            return ClientObject(self._client, kind.parts[name], self._names, self._options)
        if name == "exceptions":
            return Errors(self._client)
        call = kind.calls.get(name) or kind.rest(name)
        if call is not None:
            return partial(self._call, name, call)
        if kind.inner is not None:
            return self._behind(kind.inner, name)
        return refuse(f"{kind.name}'s {name}", self._client)

    def __getitem__(self, name: Any) -> Any:
        if self._kind.inner is None:
            refuse(f"an item of {self._kind.name}", self._client)
        return self._behind(self._kind.inner, name)

    def _behind(self, kind: ClientKind, *args: Any, **options: Any) -> "ClientObject":
        names = (*args, *(value for value in options.values() if isinstance(value, str)))
        child = ClientObject(self._client, kind, (*self._names, *names), {**self._options, **options})
        child._held.append(self)
        return child

    def _call(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        options = {option: value for option, value in options.items() if option not in HARMLESS}
        try:
            inspect.signature(call).bind(self, *args, **options)
        except TypeError as error:
            refuse(f"{self._kind.name}'s {name}() with these arguments ({error})", self._client)
        return call(self, *args, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        end = next(
            (self._kind.calls[name] for name in ("close", "execute") if name in self._kind.calls), None
        )
        if end is not None and (kind is None or end is self._kind.calls.get("close")):
            end(self)

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise TypeError(
            f"cannot pickle {self._kind.name}: it holds a connection. Make it in the function that uses it"
        )

    def _write(self, action: str, *changes: StoreChange, is_keyed: bool = True) -> None:
        """Send a request with changes."""
        with client_errors(self._client):
            recorder().request(action, StoreWrite(changes, is_keyed))

    def _later(self, action: str, *changes: StoreChange, is_keyed: bool = True) -> "BackgroundSend":
        """Let changes wait until they are sent in the background."""
        return BackgroundSend(
            recorder().later(action, StoreWrite(changes, is_keyed), users_place()), self._client
        )

    def _documents(self, target: str) -> list[Document]:
        """Return what is at a target."""
        return kept_documents(recorder().changes()).get(target, [])


class BackgroundSend:
    """A request that is sent in the background: at the latest when its result is awaited."""

    def __init__(self, future: Future[Any], client: str) -> None:
        self._future, self._client = future, client

    def result(self, timeout: float | None = None) -> Any:
        del timeout
        with client_errors(self._client):
            recorder().send_waiting()
            return self._future.result()

    get = result

    def done(self) -> bool:
        return self._future.done()

    def add_callback(self, *_: Any, **__: Any) -> Self:
        return self

    add_errback = add_done_callback = add_callbacks = add_callback


class ClientReply(dict[str, Any]):
    """What a server answers: a dict whose entries are attributes, too. What is not in it is refused."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __missing__(self, name: str) -> NoReturn:
        refuse(f"{name!r} of a client's reply", "its client")


class Named:
    """A name of a client's module that the table does not have: it may be named, and not called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Named":
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        refuse(f"{self._name}()", self._name.partition(".")[0])

    def __repr__(self) -> str:
        return self._name

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__


class Opener(Named):
    """A class or a function of a client's module that the table has."""

    def __init__(self, client: str, name: str, row: "ClientKind | Callable[..., Any]") -> None:
        super().__init__(f"{client}.{name}")
        self._client, self._row = client, row

    def __call__(self, *args: Any, **options: Any) -> Any:
        if isinstance(self._row, ClientKind):
            return ClientObject(self._client, self._row, (), options)
        return self._row(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("from_") or name == "connect":
            return self
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        return _found_in, (self._client, self._name.rpartition(".")[2])


class Errors:
    """The exceptions of a client, by name."""

    def __init__(self, client: str) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return error_named(self._client, name) or Named(f"{self._client}.{name}")


def _found_in(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def refuse(what: str, client: str) -> NoReturn:
    """Refuse a call of the user's."""
    remedy = (
        f"A stand-in answers for {client}, and lacks this: write in another way, or put an inert module in its place with "
        f"--stand-in {client}, if what it writes need not be judged"
    )
    raise CannotFollowError(what, users_place(), remedy)


def answered(value: Any) -> Future[Any]:
    """Return a future that has its result."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future


_ERROR = re.compile(
    r".*(Error|Exception|Failure|Timeout|Reconnect|Exists|NotFound|Conflict|Invalid\w+|Warning)$"
)
_SPECIAL = re.compile(
    r".*(Duplicate|Exists|NotFound|Conflict|Invalid|Validation|Configuration|Serializ|BulkWrite)"
)
_ERRORS: dict[str, dict[str, type[Exception]]] = {}
"""The exceptions of clients' modules that the user's code has named, by module."""


def error_named(client: str, name: str) -> type[Exception] | None:
    """Return an exception of a client's module; None: that is no name of one."""
    if not _ERROR.match(name):
        return None
    return _ERRORS.setdefault(client, {}).setdefault(name, type(name, (Exception,), {"response": {}}))


def error_of(client: str, message: str, name: str = "", other: type[Exception] | None = None) -> Exception:
    """Return what a client raises: of all exceptions of its module that the user's code may catch it by.

    ``client``: the module. ``message``: what it says. ``name``: its class, if it is not a failure of the network or of the
    server. ``other``: a class that it is, too.
    """
    known = _ERRORS.get(client, {})
    bases = [
        kind for known_name, kind in known.items() if known_name == name or not _SPECIAL.match(known_name)
    ]
    if not bases:
        return (other or Exception)(message)
    kind_of_error = type(name or bases[0].__name__, (*bases, *((other,) if other else ())), {})
    error: Exception = kind_of_error(message)
    error.response = {"Error": {"Code": name, "Message": message}}  # type: ignore[attr-defined]
    return error


class client_errors:  # noqa: N801  a context manager
    """Raise a client's exceptions instead of those of the network."""

    def __init__(self, client: str) -> None:
        self._client = client

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ConnectionError):
            raise error_of(self._client, str(error), other=ConnectionError) from error


def rows_of(documents: Iterable[Document]) -> list[tuple[tuple[str, str], ...]]:
    """Return documents as rows of (field, value) pairs."""
    return [
        tuple((str(name), text_of(value)) for name, value in row.items() if value is not None)
        for row in documents
    ]


def nothing(reply: Any = None) -> Callable[..., Any]:
    """Return a call that changes nothing, whatever it is given."""
    return lambda *_args, **_options: reply


def named_call(name: str) -> Callable[..., Any]:
    """Return what makes a call of this name that is carried out later, with others."""
    return lambda *args, **options: (name, args, options)


def several(at: ClientObject, action: str, changes: Iterable[StoreChange]) -> int:
    """Send several changes in one request; none: no request. Return their number."""
    sent = list(changes)
    if sent:
        at._write(action, *sent)
    return len(sent)


def put_rows(
    at: ClientObject, action: str, target: str, rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()
) -> None:
    """Put rows by their table's key, which the clients of DynamoDB and Cassandra do not say.

    Choice: where nothing tells the key, the whole row is taken for it. A row that is written again is then the same row, whatever
    the key is, and one that differs when it is written again is asked about.

    ``at``: the client's object. ``action``: what its user calls. ``target``: the table. ``rows``: with none, nothing is sent.
    ``columns``: those of the key, as the code says.
    """
    known = frozenset(name.lower() for name in columns) or frozenset(
        recorder().key_of(target.partition(": ")[2])
    )
    changes = []
    for row in rows:
        key = {name: value for name, value in row.items() if name.lower() in known}
        changes.append(put(target, key if known and len(key) == len(known) else dict(row), row))
    if changes:
        at._write(action, *changes, is_keyed=bool(known))
