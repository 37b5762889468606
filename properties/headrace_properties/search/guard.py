"""Keep user code that runs in this process, or in a fork of it, from leaving it and from ending it.

Rules of this file:

* What happens is user code's doing if the innermost frame that is neither Python's nor an installed package's is the user's. What
  an import of an installed package does is not: caches, and files of settings.
* Reading is fine. A change of a file, a socket, a name that is looked up in the network, another process and a database in a file
  are refused with an `OSError`, which programs expect of a read-only disk. A temporary file made by `tempfile` is nobody else's.
* What would end or cripple this process raises `EndsProcessError`, or does nothing: a program that handles signals, or has
  something to do at exit, is not wrong, but this process is not its own.
* What user code prints is collected, and what it reads from its standard input is empty.
"""

import atexit
import errno
import functools
import gc
import logging
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from headrace import HeadraceError
from headrace_properties.user_frames import Place, is_our_file, is_users_file, place_of

PRINTED_LINES = 10
"""How many lines of what user code prints are shown on request."""
_PRINTED_BYTES = 1 << 13
"""How much of what user code prints is kept."""


class EffectRefusedError(HeadraceError, PermissionError):
    """User code would leave this process. Fields: effect (what it does), place."""

    def __init__(self, effect: str, place: Place) -> None:
        super().__init__(effect, place)
        self.effect, self.place = effect, place
        self.errno, self.strerror = errno.EPERM, str(self)

    def __str__(self) -> str:
        """Name the effect, its place, and what allows it."""
        return (
            f"your code {self.effect} ({self.place}), which is refused: while it is verified, nothing outside this process"
            " changes. Move it to where the job is started from, or let it happen with"
            " --allow effect, or allow=['effect'] in a test"
        )


def refusal_in(error: BaseException | None) -> EffectRefusedError | None:
    """Return the refusal that an error comes from, if it does: libraries raise errors of their own for it."""
    seen = set[int]()  # code may raise its errors from one another in a circle
    while error is not None and id(error) not in seen:
        if isinstance(error, EffectRefusedError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


class EndsProcessError(SystemExit):
    """User code would end this process. Fields: call, place."""

    def __init__(self, call: str, place: Place) -> None:
        super().__init__(call, place)
        self.call, self.place = call, place
        self.code = str(self)  # printed, with exit code 1, if nobody takes it

    def __str__(self) -> str:
        """Say how, and where."""
        return f"your code calls {self.call} ({self.place}), which ends its process"


class Guard:
    """What is known of the code that runs under a guard.

    Attributes:
        allows_effects: whether effects outside the process happen.
        refused: the effects that were refused in this process, and the lines that caused them.
    """

    def __init__(self, *, allows_effects: bool) -> None:
        self.allows_effects = allows_effects
        self.refused: list[tuple[str, Place]] = []
        self._printed = mmap.mmap(-1, _PRINTED_BYTES)  # forks print, too

    def print(self, text: str) -> None:
        """Keep something that user code prints, if there is room."""
        data, used = text.encode("utf-8", "replace"), self._used
        kept = data[: _PRINTED_BYTES - 8 - used]
        self._printed[8 + used : 8 + used + len(kept)] = kept
        self._printed[:8] = (used + len(kept)).to_bytes(8, "big")

    @property
    def printed(self) -> str:
        """The first of what user code has printed."""
        return self._printed[8 : 8 + self._used].decode("utf-8", "replace")

    @property
    def _used(self) -> int:
        return int.from_bytes(self._printed[:8], "big")


_guard: Guard | None = None
_latest: Guard | None = None
_scratch: set[str] = set()
"""Temporary files and folders that user code has made."""
_Watch = Callable[[str, Place], None]
_watch: _Watch | None = None


@contextmanager
def guarded(*, allows_effects: bool = False) -> Iterator[Guard]:
    """Guard this process within, unless it is guarded already. What replaces Python's functions stays, and then does nothing.

    Args:
        allows_effects: whether to let user code have effects outside the process.
    """
    global _guard, _latest  # noqa: PLW0603  audit hooks and functions of modules belong to the process
    if _guard is not None:
        yield _guard
        return
    _install()
    folder = Path.cwd()
    _guard = _latest = Guard(allows_effects=allows_effects)
    streams = sys.stdin, sys.stdout, sys.stderr
    with _empty_input():
        sys.stdout, sys.stderr = (_Printed(stream, _guard) for stream in streams[1:])
        try:
            yield _guard
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            _guard = None
            with suppress(OSError):
                os.chdir(folder)


def allowing_effects() -> bool:
    """Return whether effects of user code are meant to happen."""
    return _guard is not None and _guard.allows_effects


@contextmanager
def unguarded() -> Iterator[None]:
    """Let everything through within."""
    global _guard  # noqa: PLW0603  as above
    before, _guard = _guard, None
    try:
        yield
    finally:
        _guard = before


@contextmanager
def effects_let_through() -> Iterator[None]:
    """Let the effects of user code happen within, because something else simulates or refuses them; collect its prints."""
    guard = _guard
    if guard is None:
        yield
        return
    before, streams = guard.allows_effects, (sys.stdout, sys.stderr)
    guard.allows_effects = True
    sys.stdout, sys.stderr = (_Printed(stream, guard) for stream in streams)
    try:
        yield
    finally:
        guard.allows_effects = before
        sys.stdout, sys.stderr = streams


def guard_the_end() -> None:
    """Guard what user code does while this process ends, such as in ``__del__``."""
    if _installed:
        atexit.register(_guard_from_now_on)  # what was registered before runs after it


def _guard_from_now_on() -> None:
    global _guard  # noqa: PLW0603  as above
    _guard = _latest


@contextmanager
def effects_watched(watch: _Watch) -> Iterator[None]:
    """Report each effect of user code outside the process, as text, with its line."""
    global _watch  # noqa: PLW0603  as above
    _install()
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before


@contextmanager
def _empty_input() -> Iterator[None]:
    """Let the standard input be empty, also for other processes, and for who reads its descriptor."""
    with Path(os.devnull).open() as nothing:
        sys.stdin = nothing
        try:
            kept = os.dup(0)
        except OSError:  # there is none
            yield
            return
        os.dup2(nothing.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)


# Effects


_FILE_CHANGES = {
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.setxattr",
    "os.symlink", "os.truncate", "os.utime", "shutil.copyfile", "shutil.move", "shutil.rmtree",
}  # fmt: skip
_NETWORK = {
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname",
    "socket.getnameinfo", "socket.sendmsg", "socket.sendto",
}  # fmt: skip
_PROCESSES = {
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.posix_spawn", "os.spawn", "os.startfile", "os.system",
    "subprocess.Popen",
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MADE_IN_PASSING = {"tempfile.mkdtemp", "tempfile.mkstemp"}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """See what Python's audit events tell: https://docs.python.org/3/library/audit_events.html."""
    global _watch, _guard  # noqa: PLW0603  see `guarded`
    watch, guard = _watch, _guard
    if watch is None and guard is None:
        return
    if event in _MADE_IN_PASSING:
        _scratch.add(os.fsdecode(arguments[0]))
        return
    text = _effect(event, arguments)
    if not text:
        return
    _watch = _guard = None  # the hook's own actions are not user code's
    try:
        place = users_line(sys._getframe(1), quiet=_QUIET)
        if place is None:
            return
        _take_effect(watch, None if _is_scratch(event, arguments) else guard, text, place)
    finally:
        _watch, _guard = watch, guard


def _take_effect(watch: _Watch | None, guard: Guard | None, text: str, place: Place) -> None:
    """Report an effect, and refuse it if there is a guard that does."""
    if watch is not None:
        watch(text, place)
    if guard is not None and not guard.allows_effects:
        if watch is None:
            guard.refused.append((text, place))
        raise EffectRefusedError(text, place)


def _effect(event: str, arguments: tuple[Any, ...]) -> str:
    if event == "open":
        path, mode, flags = arguments
        flagged = bool((flags or 0) & _WRITING)
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else flagged
        named = isinstance(path, str | bytes | os.PathLike) and os.fspath(path) != os.devnull
        return f"writes the file {os.fspath(path)!r}" if writes and named else ""
    if event in _FILE_CHANGES:
        return f"calls {event}{_shown(arguments)}"
    if event in _NETWORK:
        return f"uses a socket ({event} {next((argument for argument in arguments if isinstance(argument, tuple | str)), '')})"
    if event in _PROCESSES:
        return f"starts or signals a process ({event}{_shown(arguments[:1])})"
    if event == "sqlite3.connect" and not _is_read_only(arguments[0]):
        return f"opens the database {arguments[0]!r} (sqlite3)"
    return ""


def _is_read_only(database: Any) -> bool:
    return database in (":memory:", b":memory:", "") or (
        isinstance(database, str) and database.startswith("file:") and "mode=ro" in database
    )


def _is_scratch(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an effect is on temporary files only."""
    if event in _NETWORK | _PROCESSES:
        return False
    paths = [argument for argument in arguments[:2] if isinstance(argument, str | bytes | os.PathLike)]
    if event == "open":
        del paths[1:]
    folder = arguments[-1] if event in _FILE_CHANGES and event != "os.truncate" else None
    base = f"/proc/self/fd/{folder}" if isinstance(folder, int) and folder >= 0 else ""
    whole = [os.path.realpath(os.path.join(base, os.fsdecode(path))) for path in paths]  # noqa: PTH118  quicker
    scratch = [os.path.realpath(path) for path in _scratch]
    return _by_tempfile(sys._getframe(2)) or (
        bool(whole)
        and all(any(path == one or path.startswith(f"{one}{os.sep}") for one in scratch) for path in whole)
    )


def _by_tempfile(frame: FrameType | None) -> bool:
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        if frame.f_globals.get("__name__") == "tempfile":
            return True
        frame = frame.f_back
    return False


def _shown(arguments: tuple[Any, ...]) -> str:
    return f"({', '.join(f'{argument!r:.60}' for argument in arguments if isinstance(argument, str | bytes | list | tuple))})"


# Whose doing it is


_QUIET = ("logging", "warnings")
_STAND_INS = "headrace_sim.spark.stores."
"""Modules in the place of libraries that are not installed: what they do is done for user code."""


def users_line(frame: FrameType | None, quiet: tuple[str, ...] = ()) -> Place | None:
    """Return the innermost running line of user code; ``None`` if ours, an import or the garbage collector's is further in.

    Args:
        frame: where to begin.
        quiet: modules of Python whose doings are not user code's.
    """
    collecting = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__") or ""
        if is_users_file(code.co_filename):
            return place_of(code, frame.f_lineno)
        is_quiet = module.partition(".")[0] in quiet or code in collecting
        if module.startswith(_STAND_INS):
            frame = frame.f_back
            continue
        if is_quiet or code.co_filename.startswith("<frozen importlib") or is_our_file(code.co_filename):
            return None
        frame = frame.f_back
    return None


# What ends or cripples a process


_installed = False


def _install() -> None:
    """Replace Python's functions with those below, once for the life of the process."""
    global _installed  # noqa: PLW0603  see `guarded`
    if _installed:
        return
    _installed = True
    sys.addaudithook(_audit)
    for name in ("_exit", "abort"):
        _replace(os, name, _ends(f"os.{name}"))
    _replace(os, "kill", _kills)
    _replace(signal, "raise_signal", _ends("signal.raise_signal"))
    for module, name, instead in _HARMLESS:
        _replace(module, name, instead)


def _replace(module: Any, name: str, instead: Callable[..., Any]) -> None:
    """Let a function do something else when user code calls it under a guard: it is called with the place and the original."""
    real = getattr(module, name)

    @functools.wraps(real, updated=())
    def chosen(*args: Any, **options: Any) -> Any:
        place = None if _guard is None else users_line(sys._getframe(1))
        return real(*args, **options) if place is None else instead(place, real, *args, **options)

    setattr(module, name, chosen)


def _ends(name: str) -> Callable[..., Any]:
    def end(place: Place, _real: Any, *args: Any) -> Any:
        raise EndsProcessError(f"{name}({', '.join(map(repr, args))})", place)

    return end


def _kills(place: Place, real: Callable[..., Any], pid: int, number: int) -> Any:
    if number and pid in {os.getpid(), 0, -1}:
        raise EndsProcessError(
            f"os.kill({pid}, {number})" if pid < 1 else f"os.kill(os.getpid(), {number})", place
        )
    _take_effect(_watch, _guard, f"starts or signals a process (os.kill {pid})", place)
    return real(pid, number)


def _dup2(_place: Place, real: Callable[..., Any], fd: int, fd2: int, *args: Any, **options: Any) -> Any:
    return fd2 if fd2 <= _LAST_STANDARD else real(fd, fd2, *args, **options)


def _close(_place: Place, real: Callable[..., Any], fd: int) -> None:
    if fd > _LAST_STANDARD:
        real(fd)


def _write(_place: Place, real: Callable[..., Any], fd: int, data: Any) -> Any:
    if fd not in (1, _LAST_STANDARD) or _guard is None:
        return real(fd, data)
    _guard.print(bytes(data).decode("utf-8", "replace"))
    return len(data)


def _start(_place: Place, real: Callable[..., Any], thread: threading.Thread) -> None:
    thread.daemon = True  # it must not keep this process from ending
    real(thread)


def _mkdir(place: Place, real: Callable[..., Any], path: Any, *args: Any, **options: Any) -> None:
    """Make no folder, unless calls are watched: programs make that of a checkpoint before they start, and need not look at it."""
    if allowing_effects() or _is_scratch("os.mkdir", (path,)):
        real(path, *args, **options)
        return
    effect = f"calls os.mkdir({os.fsdecode(path)!r})"
    if _watch is not None or _guard is None:
        _take_effect(_watch, _guard, effect, place)
    else:
        _guard.refused.append((effect, place))


def _log_file(_place: Place, real: Callable[..., Any], handler: logging.FileHandler) -> Any:
    return real(handler) if allowing_effects() else Path(os.devnull).open("w", encoding="utf-8")


_LAST_STANDARD = 2
_HARMLESS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (os, "mkdir", _mkdir),
    (os, "dup2", _dup2),
    (os, "close", _close),
    (os, "closerange", lambda *_: None),
    (os, "write", _write),
    (signal, "signal", lambda _place, _real, number, _handler: signal.getsignal(number)),
    (signal, "alarm", lambda *_: 0),
    (signal, "setitimer", lambda *_: (0.0, 0.0)),
    (atexit, "register", lambda _place, _real, function, *_args, **_options: function),
    (sys, "setrecursionlimit", lambda _place, real, limit: real(max(limit, sys.getrecursionlimit()))),
    (threading.Thread, "start", _start),
    (logging.FileHandler, "_open", _log_file),
)
"""What does less than it should: where, its name, and what it does instead."""


class _Printed:
    """A standard stream from which user code's part is collected, and which user code cannot close."""

    def __init__(self, stream: TextIO, guard: Guard) -> None:
        self._stream, self._collects = stream, guard

    def write(self, text: str) -> int:
        """Write; user code's goes to the guard."""
        if users_line(sys._getframe(1)) is None:
            return self._stream.write(text)
        self._collects.print(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """What takes bytes."""
        return self._stream.buffer if users_line(sys._getframe(1)) is None else _Bytes(self)

    def close(self) -> None:
        """Stay open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes:
    def __init__(self, stream: _Printed) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        self._stream._collects.print(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None: ...
