"""Trace a call of user code: effects outside the process, and reads of what is not its input (6.1.3).

Rules of this file:

* The guard (`search.guard`) reports files opened for writing, changes to the file system, sockets, databases and processes.
* A profiler sees calls of built-in functions: new threads, writes to files opened earlier, and reads of clocks, time zones,
  random numbers and hashes. Reads are not findings by themselves, but show the line where a finding begins.
* A thread that the call waits for is part of the call; one that merely happens to have ended by then may take longer next time.
* Output to a standard stream, anything that `logging` does, and anything that an import does are not effects.
* The garbage collector can run at any line, and calls back then (Hypothesis reads a clock there): the line is not blamed for it.
"""

import _random
import _socket
import builtins
import gc
import io
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from headrace_properties.search.guard import effects_watched
from headrace_properties.search.limits import can_profile
from headrace_properties.user_frames import Place, is_users_file, place_of


@dataclass(slots=True)
class Trace:
    """What was seen.

    Attributes:
        effects: effects outside the process, and the lines that caused them.
        threads: threads that were started and not waited for.
        readings: reads of clocks, time zones, random numbers and hashes: kind, what was called, where.
    """

    effects: list[tuple[str, Place]] = field(default_factory=list)
    threads: list[tuple[str, Place]] = field(default_factory=list)
    readings: list[tuple[str, str, Place]] = field(default_factory=list)
    _started: list[tuple[threading.Thread | None, str, Place]] = field(default_factory=list)
    _joined: list[threading.Thread] = field(default_factory=list)

    def note_start(self, frame: FrameType, text: str, place: Place) -> None:
        """Note that a thread starts in this frame."""
        started = frame.f_locals.get("self")
        self._started.append((started if isinstance(started, threading.Thread) else None, text, place))

    def note_join(self, thread: threading.Thread) -> None:
        """Note that the end of a thread is waited for."""
        self._joined.append(thread)

    def end(self) -> None:
        """Keep the threads that were not waited for."""
        joined = [thread for thread in self._joined if not thread.is_alive()]
        self.threads += [(text, place) for thread, text, place in self._started if thread not in joined]


CLOCK, ZONE, CHANCE, HASH, IDENTITY = "clock", "zone", "chance", "hash", "identity"

_active: Trace | None = None


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Trace the code within."""
    global _active  # noqa: PLW0603  profilers belong to the process
    before, profiler = _active, sys.getprofile()
    _active = trace
    if can_profile():
        sys.setprofile(_profile)
    try:
        with effects_watched(lambda text, place: trace.effects.append((text, place))):
            yield trace
    finally:
        if can_profile():
            sys.setprofile(profiler)
        trace.end()
        _active = before


# Calls of built-in functions

_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.FileIO)
_WRITES = {"write", "writelines", "truncate"}
_DATABASE = (sqlite3.Connection, sqlite3.Cursor)
_STATEMENTS = {"execute", "executemany", "executescript", "commit"}
_SENDS = {"send", "sendall", "sendto", "sendmsg", "connect", "connect_ex"}
_DRAWS = {"random", "getrandbits", "randbytes"}
_NOW = {"now", "utcnow", "today"}
_LOCAL = {"fromtimestamp", "timestamp", "astimezone"}
_CLOCKS: dict[int, str] = {
    id(getattr(time, name)): f"time.{name}"
    for name in (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
        "clock_gettime", "clock_gettime_ns", "gmtime", "localtime", "ctime", "strftime",
    )
    if hasattr(time, name)
}  # fmt: skip


def _profile(frame: FrameType, event: str, function: Any) -> None:
    trace = _active
    if trace is not None and event == "call" and frame.f_code is _JOIN:
        trace.note_join(frame.f_locals["self"])
    if trace is None or event != "c_call":
        return
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if name in _CALLS:
        kind, text = _CALLS[name](function, owner)
    elif id(function) in _CLOCKS:
        kind, text = CLOCK, _CLOCKS[id(function)]
    else:
        return
    if not kind or (place := _place(frame)) is None:
        return
    if kind == _EFFECT:
        trace.effects.append((text, place))
    elif kind == _THREAD:
        trace.note_start(frame, text, place)
    else:
        trace.readings.append((kind, text, place))


_JOIN = threading.Thread.join.__code__
_EFFECT, _THREAD = "effect", "thread"
_Kind = tuple[str, str]


def _of_write(_: Any, owner: Any) -> _Kind:
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    if isinstance(owner, _FILES) and not any(
        owner is stream or owner is getattr(stream, "buffer", stream) for stream in streams
    ):
        return _EFFECT, f"writes to the open file {getattr(owner, 'name', '')!r}"
    return "", ""


def _effect_on(owners: tuple[type, ...], text: str) -> Callable[[Any, Any], _Kind]:
    return lambda _, owner: (_EFFECT, text) if isinstance(owner, owners) else ("", "")


def _of_draw(function: Any, owner: Any) -> _Kind:
    return (CHANCE, f"random.{function.__name__}") if isinstance(owner, _random.Random) else ("", "")


def _of_now(function: Any, owner: Any) -> _Kind:
    is_clock = isinstance(owner, type) and owner.__module__ == "datetime"
    return (CLOCK, f"{owner.__name__}.{function.__name__}") if is_clock else ("", "")


def _of_local_time(function: Any, owner: Any) -> _Kind:
    kind = owner if isinstance(owner, type) else type(owner)
    return (ZONE, f"{kind.__name__}.{function.__name__}") if kind.__module__ == "datetime" else ("", "")


def _of_builtin(function: Any, _: Any) -> _Kind:
    if function is builtins.hash:
        return HASH, "hash()"
    return (IDENTITY, "id()") if function is builtins.id else ("", "")


_CALLS: dict[str, Callable[[Any, Any], _Kind]] = {
    **dict.fromkeys(_WRITES, _of_write),
    **dict.fromkeys(_STATEMENTS, _effect_on(_DATABASE, "runs a statement in an open database (sqlite3)")),
    **dict.fromkeys(_SENDS, _effect_on((_socket.socket,), "sends on an open socket")),
    **dict.fromkeys(_DRAWS, _of_draw),
    **dict.fromkeys(_NOW, _of_now),
    **dict.fromkeys(_LOCAL, _of_local_time),
    **dict.fromkeys(("urandom", "getrandom"), lambda function, _: (CHANCE, f"os.{function.__name__}")),
    **dict.fromkeys(("hash", "id"), _of_builtin),
    **dict.fromkeys(("start_new_thread", "start_joinable_thread"), lambda *_: (_THREAD, "starts a thread")),
}


# Places


@contextmanager
def line_found(changed: Callable[[], bool]) -> Iterator[list[Place]]:
    """Find the first line of user code within that changes something; none if another tracer is active.

    Args:
        changed: returns whether it has changed.
    """
    places: list[Place] = []
    last: dict[FrameType, int] = {}

    def step(frame: FrameType, event: str, _: object) -> Any:
        if frame in last and not places and changed():
            places.append(place_of(frame.f_code, last[frame]))
        if event == "line":
            last[frame] = frame.f_lineno
        return step

    def enter(frame: FrameType, _: str, __: object) -> Any:
        return step if is_users_file(frame.f_code.co_filename) and not places else None

    if sys.gettrace() is not None:
        yield places
        return
    sys.settrace(enter)
    try:
        yield places
    finally:
        sys.settrace(None)


def _place(frame: FrameType | None) -> Place | None:
    """Return the innermost running line of user code.

    ``None`` if there is none, or inside an import, `logging`, a question to Spark or a callback of the garbage collector.
    """
    collecting = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        is_quiet = module.partition(".")[0] in ("logging", "warnings") or code in collecting
        is_quiet = is_quiet or module == "headrace_sim.spark.real.answers"
        if is_quiet or code.co_filename.startswith("<frozen importlib"):
            return None
        if is_users_file(code.co_filename):
            return place_of(code, frame.f_lineno)
        frame = frame.f_back
    return None
