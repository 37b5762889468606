"""A sink's effects on files, seen at each call that reaches the operating system."""

import builtins
import fcntl
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from headrace_sim.spark.sinks.sink_effects import EffectProbe

_CHANGES = ("link", "mkdir", "remove", "rename", "replace", "rmdir", "symlink", "truncate", "unlink")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
"""The flags of `os.open` for what may be written."""


def watch_files(probe: EffectProbe) -> None:
    """Report each change that this process makes to a file to the probe, irreversibly: the process is an attempt."""
    _Watched.probe = probe
    builtins.open = io.open = _open
    for name in _CHANGES:
        setattr(os, name, _watched(probe, name, getattr(os, name)))
    _watch_descriptors(probe)
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]  # it would copy behind our back


ABSOLUTE = "headrace-root"
"""The directory of a trial that is the root of absolute paths, where they are redirected."""


def shown(path: Any) -> str:
    """Return a path relative to the trial's directory; one below `ABSOLUTE` as its program names it."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return str(path)
    relative = os.path.relpath(os.fsdecode(path))
    return relative.removeprefix(ABSOLUTE) if relative.startswith(f"{ABSOLUTE}{os.sep}") else relative


def full_path(path: Any, folder: int = -1) -> str | None:
    """Return a path from the root that a call names, also by a descriptor; None if a descriptor is that of no file.

    ``folder``: the descriptor of the directory that it is relative to, or -1.
    """
    if isinstance(path, int):
        named = _of_descriptor(path)
        return named if named.startswith("/") else None
    name = os.fsdecode(path)
    return os.path.join(_of_descriptor(folder), name) if folder != -1 else name  # noqa: PTH118


def _of_descriptor(descriptor: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


class _Watched(io.FileIO):
    """A file opened for writing. Python's buffers are on top of it, and die with the process."""

    probe: EffectProbe

    def write(self, data: Any, /) -> int:
        def half() -> None:
            super(_Watched, self).write(bytes(data)[: len(data) // 2])

        with self.probe.effect("write", shown(self.name), half=half if len(data) > 1 else None):
            return super().write(data)


_real_open = io.open


def _open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """Open a file as `open` does; one for writing is watched."""
    # or a socket: it keeps nothing
    is_pipe = isinstance(file, int) and not stat.S_ISREG(os.fstat(file).st_mode)
    if is_pipe or not set(mode) & set("wax+") or file == os.devnull:
        return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    raw_mode = mode.replace("t", "").replace("b", "")
    # An opener opens by `os.open`, and who gives a descriptor has opened it so.
    named = isinstance(file, (str, bytes, os.PathLike)) and opener is None
    with _Watched.probe.effect("open", shown(file)) if named else nullcontext():
        raw = _Watched(file, raw_mode, closefd, opener)
    if "b" in mode and buffering == 0:
        return raw
    size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
    buffer: Any = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
    if "b" in mode:
        return buffer
    text = io.TextIOWrapper(
        buffer, io.text_encoding(encoding), errors, newline, line_buffering=buffering == 1
    )
    text.mode = mode  # type: ignore[misc]
    return text


def _watched(probe: EffectProbe, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
    def watched(path: Any, *args: Any, **options: Any) -> Any:
        ends_at = args[0] if name in {"link", "rename", "replace", "symlink"} and args else path
        ends_at = full_path(ends_at, options.get("dir_fd") or -1)
        with probe.effect(name, shown(ends_at), payload=lambda: shown(path)):
            return change(path, *args, **options)

    return watched


def _watch_descriptors(probe: EffectProbe) -> None:
    names: dict[int, str] = {}
    real_open, real_write = os.open, os.write

    def watched_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = path if dir_fd is None else full_path(path, dir_fd)  # Python tells no guard of the directory
        if not flags & WRITING:
            return real_open(path, flags, mode)
        with probe.effect("open", shown(path)):
            opened = real_open(path, flags, mode)
        names[opened] = shown(path)
        return opened

    def watched_write(descriptor: int, data: Any) -> int:
        if descriptor not in names:
            return real_write(descriptor, data)
        with probe.effect(
            "write", names[descriptor], half=lambda: real_write(descriptor, bytes(data)[: len(data) // 2])
        ):
            return real_write(descriptor, data)

    os.open, os.write = watched_open, watched_write
