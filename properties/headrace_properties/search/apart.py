"""Run user code in a separate process, which may hang, die or exhaust memory; what it was doing is known nevertheless.

Before each call the process writes what it is about to do on a board, memory that it shares with its parent. The parent
reads the board once the process has died; if the board has not changed for longer than a call may take, it kills the process.
"""

import mmap
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited, limit_memory

ItemT = TypeVar("ItemT")

_BOARD_BYTES = 1 << 20
_PATIENCE_S = 5.0
"""Time over the limit after which a call that cannot be interrupted is killed with its process."""


class StatusBoard:
    """What a process is doing; the board keeps only the newest entry."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BOARD_BYTES)
        self._count = 0

    def write(self, entry: object) -> None:
        """Write the next action: anything that msgpack can encode."""
        data = msgspec.msgpack.encode(entry)
        if len(data) > _BOARD_BYTES - 16:
            data = msgspec.msgpack.encode(None)
        self._count += 1
        self._memory[16 : 16 + len(data)] = data
        self._memory[:16] = self._count.to_bytes(8, "big") + len(data).to_bytes(8, "big")

    def touch(self) -> None:
        """Report progress; the entry stays."""
        self._count += 1
        self._memory[:8] = self._count.to_bytes(8, "big")

    @property
    def count(self) -> int:
        """The number of writes."""
        return int.from_bytes(self._memory[:8], "big")

    def read(self) -> Any:
        """Return the newest entry; ``None``: none."""
        size = int.from_bytes(self._memory[8:16], "big")
        return msgspec.msgpack.decode(self._memory[16 : 16 + size]) if size else None


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The process did not finish its work.

    Attributes:
        how: such as ``"exit code 3"``.
        hung: it was killed because it took too long.
        entry: the newest of its board.
    """

    how: str
    hung: bool
    entry: Any


def work_apart(
    work: Callable[[StatusBoard], Iterator[ItemT]], limits: CodeLimits
) -> Iterator[ItemT | ProcessEnded]:
    """Run a function in a forked process, and yield its results; if it did not finish, yield how it ended last.

    Without fork, run it in this process.

    Raises:
        Exception: what the work raises.
    """
    board = StatusBoard()
    if "fork" not in multiprocessing.get_all_start_methods():
        with call_time_limited(limits):
            yield from work(board)
        return
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, board, limits, theirs), daemon=False)
    process.start()
    theirs.close()
    hung = False
    try:
        count, since = board.count, _times_of(process.pid)
        while True:
            if ours.poll(0.2):
                try:
                    kind, value = ours.recv()
                except EOFError:
                    break
                if kind == "end":
                    return
                if kind == "error":
                    raise value
                yield value
            if board.count != count:
                count, since = board.count, _times_of(process.pid)
                continue
            cpu_s, wall_s = (now - then for now, then in zip(_times_of(process.pid), since, strict=True))
            if limits.overrun(cpu_s, wall_s, -_PATIENCE_S):
                hung = True
                break
        if hung:
            process.kill()
        process.join()
        yield ProcessEnded(_how(process.exitcode), hung, board.read())
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        ours.close()


def _times_of(pid: int | None) -> tuple[float, float]:
    """Return the CPU time of a process, 0 where the system does not tell it, and the wall time, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK"), time.monotonic()
    except OSError:
        return 0.0, time.monotonic()


def _run(
    work: Callable[[StatusBoard], Iterator[Any]], board: StatusBoard, limits: CodeLimits, to: Connection
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    limit_memory(limits)
    try:
        with guarded(), call_time_limited(limits, board.touch):
            for item in work(board):
                board.write(None)
                to.send(("item", item))
        to.send(("end", None))
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent is told
        to.send(
            (
                "error",
                error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}"),
            )
        )
    finally:
        to.close()


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by signal {signal.Signals(-code).name}"
    return f"exit code {code}"
