"""Watch a processor: what it keeps outside its state between calls, timers that Spark will lose, expired state.

The watched processor is pickled into each task, as Spark's are, and records what it sees in this module, which is not copied.
"""

import inspect
import pickle
import types
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyspark import cloudpickle

from headrace_properties.user_code.surroundings import Surroundings
from headrace_properties.user_frames import own_code_of
from headrace_sim.spark.columns.values import Altered, altered_told, key_part
from headrace_sim.spark.refusals import definition_of, is_library, users_place
from headrace_sim.spark.spark_job import ApplyWithState, Columns, MapInPandas, SparkJob, TransformWithState

_PLAIN = (bool, bytes, bytearray, complex, deque, dict, float, frozenset, int, list, set, str, tuple)


@dataclass(frozen=True, slots=True)
class LeakedState:
    """Something that outlived a call outside state: ``self.total``, or ``counts`` of a module."""

    what: str
    place: str


class OutsideState:
    """What the code of a job can reach outside state: objects, globals, closures, default arguments, caches.

    Workers are processes that run many tasks, so what is in modules lasts for longer than a task: until the worker dies.
    """

    def __init__(self, handlers: tuple[Any, ...]) -> None:
        own_code_of(list(handlers))
        self._handlers = handlers  # so that no id is reused
        self._around = [(place_of(handler), Surroundings(handler)) for handler in handlers]

    def restore(self) -> None:
        """Put everything back, as in a new process."""
        for _, around in self._around:
            around.restore()

    def contents(self) -> list[Any]:
        """Return what is there now, for `put`."""
        return [around.contents() for _, around in self._around]

    def put(self, contents: list[Any]) -> None:
        """Put back what `contents` returned."""
        for (_, around), held in zip(self._around, contents, strict=True):
            around.put(held)

    def kept(self) -> Iterator[LeakedState]:
        """Yield what has changed since the last `restore`."""
        for place, around in self._around:
            yield from (LeakedState(what, place) for what in around.changes())


_outsides: dict[tuple[int, ...], OutsideState] = {}


def outside_of(job: SparkJob) -> OutsideState:
    """Return what the code of a job can reach outside state, as it was when this was called first."""
    handlers = tuple(handlers_of(job))
    key = tuple(map(id, handlers))
    return _outsides.get(key) or _outsides.setdefault(key, OutsideState(handlers))


def handlers_of(job: SparkJob) -> Iterator[Any]:
    """Yield the processors and functions in Python that a job runs."""
    for step in job.working:
        match step:
            case TransformWithState(processor=WatchedProcessor() as watched):
                yield watched._processor
            case TransformWithState(processor=processor):
                yield processor
            case ApplyWithState(function=WatchedFunction() as watched):
                yield watched._function
            case ApplyWithState(function=function) | MapInPandas(function=function):
                yield function
            case Columns(functions=functions):
                yield from functions
            case _:
                pass


@dataclass(frozen=True, slots=True)
class LostTimer:
    """A timer that its own handler registered again for the same time, which Spark deletes when the handler is done."""

    expiry_ms: int
    place: str


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """What a processor received, asked of Spark, or yielded."""

    key: tuple[Any, ...]  # the key whose rows or timer are handled
    what: str  # ``row Row(n=1)``, ``sum.getValue((0,))``, ``yields Row(n=1)``
    result: str = ""  # the return value, or ""
    place: str = ""  # ``file:line`` of the user's code, or ""
    is_given: bool = False  # whether it is a row that the processor received, which is not of its doing


_journal: ContextVar[list[Any] | None] = ContextVar("the journal of watched processors", default=None)
"""A processor that was pickled finds it here."""


@contextmanager
def journal() -> Iterator[list[Any]]:
    """Record what watched processors do: each `HandlerCall`, in order, between the caller's own entries."""
    entries: list[Any] = []
    token = _journal.set(entries)
    try:
        yield entries
    finally:
        _journal.reset(token)


def _note(call: HandlerCall) -> None:
    entries = _journal.get()
    if entries is not None:
        entries.append(call)


@dataclass(frozen=True, slots=True)
class ExpiredState:
    """State that a timer's handler found expired, though the call that registered the timer had written it."""

    name: str  # of the variable
    key: Any  # whose
    ttl_ms: int  # its TTL
    wait_ms: int  # how much later than that call the timer was registered for
    place: str  # where the handler reads it


_MOST_ALTERED = 10


@dataclass(slots=True)
class Noted:
    """Observations of watched processors."""

    kept: list[LeakedState] = field(default_factory=list)  # what was kept outside state
    lost: list[LostTimer] = field(default_factory=list)  # timers that are lost
    # state that is gone when the timer that needs it fires
    expired: list[ExpiredState] = field(default_factory=list)
    # the TTL, in ms, of each variable of state that expires by itself
    expiring: dict[str, int] = field(default_factory=dict)
    # of each variable and key with a TTL, when it expires, in ms of processing time
    lifetimes: dict[tuple[str, Any], int] = field(default_factory=dict)
    memory: dict[str, bytes] = field(default_factory=dict)  # what is outside state, pickled, by its name
    # what the code did outside the process, and where
    effects: list[tuple[str, str]] = field(default_factory=list)
    # for each key and timer, how long it was to wait, and the variables written by the call that registered it
    awaited: dict[tuple[Any, int], tuple[int, frozenset[str]]] = field(default_factory=dict)
    outside: OutsideState | None = None  # what the code can reach outside state, if it is known
    rows: Counter[str] = field(default_factory=Counter)  # how many rows of each key, as text, the code read
    # the latest values that the state does not hold as they were given
    altered: deque[Altered] = field(default_factory=lambda: deque(maxlen=_MOST_ALTERED))


_noting: ContextVar[Noted | None] = ContextVar("what is noted of watched processors", default=None)
"""The processors are copied into tasks, and find it here."""


def watched_run(run: Callable[[], Any], outside: OutsideState | None = None) -> tuple[Any, Noted]:
    """Call a function that runs a job of watched processors. Return what it returns, and what was noted."""
    noted = Noted(outside=outside)
    token = _noting.set(noted)
    try:
        with altered_told(noted.altered.append):
            return run(), noted
    finally:
        _noting.reset(token)


def _noted() -> Noted:
    """Return where this run's notes go: nowhere, outside `watched_run`."""
    return _noting.get() or Noted()


def _add(notes: list[Any], note: Any) -> None:
    if note not in notes:
        notes.append(note)


class Lifetime(Enum):
    """How long a watched processor keeps what is outside state."""

    TASK = "as Spark does"
    CALL = "for a call"
    RUN = "for the run"


class WatchedProcessor:
    """A processor that does what the user's does.

    ``processor``: the user's. ``memory``: for how long it keeps what is outside state.
    """

    def __init__(self, processor: Any, memory: Lifetime = Lifetime.TASK) -> None:
        self._processor = processor
        self._memory = memory

    def init(self, handle: Any) -> None:
        """Let the user's processor make its state, with a handle that is watched."""
        self._handle = _Handle(handle)
        self._processor.init(self._handle)
        _recall(self._processor, self._memory)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  Spark's names
        """Let it handle the rows of a key."""
        before = _remembered(self._processor)
        self._handle.begin(key, timerValues)
        yield from _told(key, self._processor.handleInputRows(key, _read(key, rows), timerValues))
        self._handle.end()
        _compare(self._processor, self._memory, before)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Let it handle a timer."""
        before = _remembered(self._processor)
        self._handle.begin(key, timerValues, expiredTimerInfo.getExpiryTimeInMs())
        _note(HandlerCall(key, f"timer at {self._handle.firing} ms"))
        handle = self._processor.handleExpiredTimer
        yield from _told(key, handle(key=key, timerValues=timerValues, expiredTimerInfo=expiredTimerInfo))
        self._handle.end()
        _compare(self._processor, self._memory, before)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Let it handle the initial state of a key."""
        self._handle.key = tuple(map(key_part, key))
        self._processor.handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        """Let it close."""
        self._processor.close()


def _compare(handler: Any, memory: Lifetime, before: dict[str, bytes]) -> None:
    """Record what a call has changed outside state; undo it, if the handler is to forget."""
    noted, after = _noted(), _remembered(handler)
    place = place_of(handler)
    for what in sorted(before.keys() | after.keys()):
        if before.get(what) != after.get(what):
            _add(noted.kept, LeakedState(what, place))
            if memory is Lifetime.CALL:
                _set(handler, what, before.get(what))
            elif what in after:
                noted.memory[what] = after[what]
    if memory is Lifetime.CALL and noted.outside is not None:
        noted.outside.restore()


def _set(handler: Any, what: str, before: bytes | None) -> None:
    owner, _, name = what.rpartition(".")
    kind = _kind(handler)
    holder = {"self": handler, kind.__name__: kind}.get(owner)
    if holder is not None and before is not None:
        setattr(holder, name, pickle.loads(before))  # noqa: S301  pickled here
    elif holder is not None:
        delattr(holder, name)
    elif cell := _cells(kind).get(name):
        cell.cell_contents = None if before is None else pickle.loads(before)  # noqa: S301
    elif before is not None:
        _globals(kind)[name] = pickle.loads(before)  # noqa: S301
    else:
        _globals(kind).pop(name, None)


def _kind(handler: Any) -> Any:
    """The class of a processor; a function itself."""
    return type(handler) if hasattr(handler, "handleInputRows") and not isinstance(handler, type) else handler


def _functions(kind: Any) -> list[types.FunctionType]:
    code = vars(kind).values() if isinstance(kind, type) else (kind,)
    return [function for function in code if isinstance(function, types.FunctionType)]


def _globals(kind: Any) -> dict[str, Any]:
    """Return the variables of a module that code sees. In a worker, code of a script has a copy of those that it names."""
    functions = _functions(kind)
    return functions[0].__globals__ if functions else {}


def _cells(kind: Any) -> dict[str, types.CellType]:
    """Return the variables that code closes over."""
    return {
        name: cell
        for function in _functions(kind)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    }


def _recall(handler: Any, memory: Lifetime) -> None:
    """Give a handler what the run has kept outside state, if that is to last."""
    for what, pickled in _noted().memory.items() if memory is Lifetime.RUN else ():
        _set(handler, what, pickled)


class WatchedFunction:
    """A wrapper of the user's function for ``applyInPandasWithState`` that records its calls."""

    def __init__(self, function: Callable[..., Any], memory: Lifetime = Lifetime.TASK) -> None:
        self._function = function
        self._memory = memory

    def __call__(self, key: Any, frames: Any, state: Any) -> Any:
        """Let it handle the rows of a key."""
        _recall(self._function, self._memory)
        before = _remembered(self._function)
        if _journal.get() is not None:
            if state.hasTimedOut:
                _note(HandlerCall(key, "timeout"))
            state = _GroupState(key, state)
        yield from _told(key, self._function(key, _read(key, frames), state))
        _compare(self._function, self._memory, before)


class _GroupState:
    """A ``GroupState`` whose calls are recorded."""

    def __init__(self, key: Any, state: Any) -> None:
        self._key, self._state = key, state

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._state, name)
        if not callable(attribute):
            _note(HandlerCall(self._key, f"state.{name}", repr(attribute), users_place()))
            return attribute

        def call(*args: Any) -> Any:
            result = attribute(*args)
            shown = "" if result is None else repr(result)
            _note(HandlerCall(self._key, f"state.{name}({', '.join(map(repr, args))})", shown, users_place()))
            return result

        return call


class _Handle:
    """The handle that the user's processor sees."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.key: Any = None
        self.firing: int | None = None
        self.now_ms = -1
        self.written: set[str] = set()
        self._registered: list[int] = []

    def begin(self, key: Any, times: Any, firing: int | None = None) -> None:
        self.key, self.firing = tuple(map(key_part, key)), firing
        self.now_ms = times.getCurrentProcessingTimeInMs()

    def end(self) -> None:
        """End a call: remember which of its timers depend on state that expires."""
        for expiry in self._registered if self.written else ():
            _noted().awaited[self.key, expiry] = expiry - self.now_ms, frozenset(self.written)
        self.written.clear()
        self._registered.clear()
        self.firing = None

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803  Spark's names
        """Register a timer; note one that will be lost."""
        if expiryTimestampMs == self.firing:
            _add(_noted().lost, LostTimer(expiryTimestampMs, users_place()))
        self._registered.append(expiryTimestampMs)
        self._handle.registerTimer(expiryTimestampMs)
        self._told("registerTimer", (expiryTimestampMs,), None)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self._handle.deleteTimer(expiryTimestampMs)
        self._told("deleteTimer", (expiryTimestampMs,), None)

    def _told(self, call: str, arguments: tuple[Any, ...], result: Any) -> None:
        if _journal.get() is not None:
            shown = ", ".join(map(repr, arguments))
            returned = "" if result is None and call.endswith(_SILENT) else repr(result)
            _note(HandlerCall(self.key, f"{call}({shown})", returned, users_place()))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._handle, name)
        if name not in {"getListState", "getMapState", "getValueState"}:
            return method

        def declare(stateName: str, *args: Any, **options: Any) -> Any:  # noqa: N803  Spark's name
            last = args[-1] if args and isinstance(args[-1], int) else None
            ttl_ms = options.get("ttlDurationMs") or last
            variable = method(stateName, *args, **options)
            if _journal.get() is not None:
                variable = _State(stateName, variable, self._told)
            if not ttl_ms:
                return variable
            _noted().expiring[stateName] = ttl_ms
            return _Expiring(variable, stateName, ttl_ms, self)

        return declare


_WRITES = frozenset({"update", "put", "appendValue", "appendList", "updateValue"})
_CLEARS = frozenset({"clear", "removeKey"})


class _Expiring:
    """A watched state variable with a TTL, to see whether it has expired when the timer that needs it fires."""

    def __init__(self, variable: Any, name: str, ttl_ms: int, handle: _Handle) -> None:
        self._variable, self._name, self._ttl_ms, self._handle = variable, name, ttl_ms, handle

    def __getattr__(self, call: str) -> Any:
        method = getattr(self._variable, call)

        def called(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            whose = self._name, self._handle.key
            if call in _WRITES:
                _noted().lifetimes[whose] = self._handle.now_ms + self._ttl_ms
                self._handle.written.add(self._name)
            elif call in _CLEARS:
                _noted().lifetimes.pop(whose, None)
            else:
                result = list(result) if isinstance(result, Iterator) else result
                if not result:
                    self._note(whose)
                return iter(result) if isinstance(result, list) else result
            return result

        return called

    def _note(self, whose: tuple[str, Any]) -> None:
        handle = self._handle
        if handle.firing is None or _noted().lifetimes.get(whose, handle.now_ms + 1) > handle.now_ms:
            return
        wait_ms, names = _noted().awaited.get((handle.key, handle.firing), (0, frozenset()))
        if self._name in names and wait_ms >= self._ttl_ms:
            expired = ExpiredState(self._name, tuple(handle.key), self._ttl_ms, wait_ms, users_place())
            _add(_noted().expired, expired)


_SILENT = ("Timer", *_WRITES, *_CLEARS)
"""Calls that return nothing."""


class _State:
    """A state variable whose calls are recorded."""

    def __init__(self, name: str, state: Any, note: Callable[[str, tuple[Any, ...], Any], None]) -> None:
        self._name, self._state, self._told = name, state, note

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._state, name)

        def call(*args: Any, **options: Any) -> Any:
            try:
                result = method(*args, **options)
            except Exception as error:
                self._told(f"{self._name}.{name}", (*args, *options.values()), error)
                raise
            items = list(result) if isinstance(result, Iterator) else result
            self._told(f"{self._name}.{name}", (*args, *options.values()), items)
            return iter(items) if isinstance(result, Iterator) else result

        return call


def _read(key: tuple[Any, ...], rows: Iterable[Any]) -> Iterator[Any]:
    noted, whose, is_told = _noted(), str(key), _journal.get() is not None
    for item in rows:
        noted.rows[whose] += len(item) if hasattr(item, "to_dict") else 1
        for row in _rows_of(item) if is_told else ():
            _note(HandlerCall(key, f"row {row}", is_given=True))
        yield item


def _told(key: tuple[Any, ...], yielded: Iterable[Any] | None) -> Iterator[Any]:
    if yielded is None:
        message = (
            "'NoneType' object is not iterable: the handler returned nothing. Yield rows, or return iter(())"
        )
        raise TypeError(message)
    if _journal.get() is None:
        yield from yielded
        return
    for item in yielded:
        frame = getattr(yielded, "gi_frame", None)
        place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if is_library(place):
            place = ""
        for row in _rows_of(item):
            _note(HandlerCall(key, f"yields {row}", "", place))
        yield item


def _rows_of(item: Any) -> list[str]:
    """The rows of a frame, or the one that it is, as text."""
    if hasattr(item, "to_dict"):
        rows = item.to_dict("records")
    elif hasattr(item, "asDict"):
        rows = [item.asDict()]
    else:
        return [repr(item)]
    return ["(" + ", ".join(f"{name}={value}" for name, value in row.items()) + ")" for row in rows]


def place_of(processor: Any) -> str:
    """Return ``file:line`` of the method, or the function, that handles rows, as far as it is known."""
    code = getattr(processor, "handleInputRows", processor)
    if place := definition_of(code):
        return place
    try:
        return f"{inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]}"
    except (OSError, TypeError):
        return getattr(code, "__qualname__", type(processor).__qualname__)


def _remembered(handler: Any) -> dict[str, bytes]:
    """What the processor, its class and the variables of its code hold besides handles and state, pickled; or a function's."""
    kind = _kind(handler)
    variables = {f"self.{name}": value for name, value in _attributes(handler)} if kind is not handler else {}
    closed_over = {name: _contents(cell) for name, cell in _cells(kind).items()}
    for held, prefix in ((vars(kind), f"{kind.__name__}."), (_globals(kind), ""), (closed_over, "")):
        variables |= {f"{prefix}{name}": value for name, value in held.items() if isinstance(value, _PLAIN)}
    return {
        what: pickled
        for what, value in variables.items()
        if not what.rpartition(".")[2].startswith("__") and (pickled := _pickled(value)) is not None
    }


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _attributes(handler: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object has in its dictionary and its slots."""
    yield from getattr(handler, "__dict__", {}).items()
    for base in type(handler).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(handler, name) and not name.startswith("__"):
                yield name, getattr(handler, name)


def _pickled(value: Any) -> bytes | None:
    """Return None for Spark's own objects, and what cannot be pickled."""
    module = getattr(type(value), "__module__", "")
    if module.startswith(("pyspark.", __name__)) or isinstance(value, types.FunctionType | types.ModuleType):
        return None
    try:
        return cloudpickle.dumps(value)  # type: ignore[no-any-return]
    except Exception:  # noqa: BLE001  whatever a user's value raises
        return None
