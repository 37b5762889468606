"""A processor, watched: what it keeps outside its state from one call to the next, and timers that Spark will lose.

The watched processor travels pickled into each task, as Spark's do, and notes what it sees in this module, which is not copied.
"""

import inspect
import pickle
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor

from headrace_sim.spark.refusals import users_place

_PLAIN = (bool, bytes, bytearray, complex, dict, float, frozenset, int, list, set, str, tuple)


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that outlived a call outside state: ``self.total``, or ``counts`` of a module."""

    what: str
    place: str


@dataclass(frozen=True, slots=True)
class LostTimer:
    """A timer that its own handler registered again for the same time, which Spark deletes when the handler is done."""

    expiry_ms: int
    place: str


_noted: dict[Kept | LostTimer | str, None] = {}


def watched_run(run: Callable[[], Any]) -> tuple[Any, list[Kept], list[LostTimer], set[str]]:
    """Call a function that runs a job of watched processors.

    Returns:
        What it returns; what was kept outside state; timers that are lost; the variables of state that expire by themselves.

    """
    _noted.clear()
    result = run()
    kept = [kept for kept in _noted if isinstance(kept, Kept)]
    lost = [kept for kept in _noted if isinstance(kept, LostTimer)]
    return result, kept, lost, {kept for kept in _noted if isinstance(kept, str)}


class Watched(StatefulProcessor):
    """A processor that does what the user's does.

    Args:
        processor: The user's.
        forgets: Whether it forgets after each call what it kept outside state.

    """

    def __init__(self, processor: StatefulProcessor, *, forgets: bool = False) -> None:
        self._processor = processor
        self._forgets = forgets

    def init(self, handle: Any) -> None:
        """Let the user's processor make its state, with a handle that is watched."""
        self._handle = _Handle(handle)
        self._processor.init(self._handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  Spark's names
        """Let it handle the rows of a key."""
        before = _remembered(self._processor)
        yield from self._processor.handleInputRows(key, rows, timerValues) or ()
        self._compare(before)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Let it handle a timer."""
        before = _remembered(self._processor)
        self._handle.firing = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._processor.handleExpiredTimer(key, timerValues, expiredTimerInfo) or ()
        self._handle.firing = None
        self._compare(before)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Let it handle the initial state of a key."""
        self._processor.handleInitialState(key, initialState, timerValues)

    def close(self) -> None:
        """Let it close."""
        self._processor.close()

    def _compare(self, before: dict[str, bytes]) -> None:
        after = _remembered(self._processor)
        place = place_of(self._processor)
        for what in sorted(before.keys() | after.keys()):
            if before.get(what) != after.get(what):
                _noted[Kept(what, place)] = None
                if self._forgets:
                    self._forget(what, before.get(what))

    def _forget(self, what: str, before: bytes | None) -> None:
        owner, _, name = what.rpartition(".")
        kind = type(self._processor)
        holder = {"self": self._processor, kind.__name__: kind}.get(owner, inspect.getmodule(kind))
        if before is not None:
            setattr(holder, name, pickle.loads(before))  # noqa: S301  pickled here
        elif hasattr(holder, name):
            delattr(holder, name)


class _Handle:
    """The handle that the user's processor sees."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.firing: int | None = None

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803  Spark's names
        """Register a timer; note one that will be lost."""
        if expiryTimestampMs == self.firing:
            _noted[LostTimer(expiryTimestampMs, _caller())] = None
        self._handle.registerTimer(expiryTimestampMs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        if name not in {"getListState", "getMapState", "getValueState"}:
            return found

        def declare(stateName: str, *args: Any, **options: Any) -> Any:  # noqa: N803  Spark's name
            if options.get("ttlDurationMs") or (args and isinstance(args[-1], int)):
                _noted[stateName] = None
            return found(stateName, *args, **options)

        return declare


def _caller() -> str:
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else users_place()


def place_of(processor: StatefulProcessor) -> str:
    """Return ``file:line`` of the method that handles rows, as far as it is known."""
    try:
        _, line = inspect.getsourcelines(type(processor).handleInputRows)
        return f"{inspect.getsourcefile(type(processor))}:{line}"
    except (OSError, TypeError):
        return type(processor).__qualname__


def _remembered(processor: StatefulProcessor) -> dict[str, bytes]:
    """What the processor, its class and its module hold besides handles and state, pickled."""
    kind = type(processor)
    module = inspect.getmodule(kind)
    found = {f"self.{name}": value for name, value in vars(processor).items()}
    found |= {
        f"{kind.__name__}.{name}": value for name, value in vars(kind).items() if isinstance(value, _PLAIN)
    }
    if module is not None:
        found |= {name: value for name, value in vars(module).items() if isinstance(value, _PLAIN)}
    return {
        what: pickled
        for what, value in found.items()
        if not what.rpartition(".")[2].startswith("__") and (pickled := _pickled(value)) is not None
    }


def _pickled(value: Any) -> bytes | None:
    """None for what is Spark's, or cannot be pickled."""
    module = getattr(type(value), "__module__", "")
    if module.startswith(("pyspark.", __name__)) or isinstance(value, types.FunctionType | types.ModuleType):
        return None
    try:
        return cloudpickle.dumps(value)  # type: ignore[no-any-return]
    except Exception:  # noqa: BLE001  whatever a user's value raises
        return None
