"""Finding, killing, pausing and resuming the processes of a Spark driver on this machine, by process id.

Rules of this file:

* A driver is started in a new session (``setsid``). Everything that it starts stays in that session, and nothing else is in it,
  so no unrelated process can be struck.
* Processes are found in the kernel's table, ``/proc``, because a paused process cannot answer.
"""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace import HeadraceError

_PROC = Path("/proc")
_LOOK_EVERY_S = 0.02
_EXECUTOR = "CoarseGrainedExecutorBackend"
_JAVA_OF_DRIVER = "org.apache.spark.deploy.SparkSubmit"


class NoProcessTableError(HeadraceError):
    """This machine has no process table in the file system. Fields: place."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place

    def __str__(self) -> str:
        """Name what is missing, and what to do."""
        return f"there is no {self.place}, which is needed to find the processes to kill and pause. Run this on Linux"


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """A process as found in the process table."""

    pid: int  # its id
    parent: int  # the id of its parent
    command: str  # its command line

    @property
    def is_executor(self) -> bool:
        """Whether it is the Java of an executor."""
        return _EXECUTOR in self.command

    @property
    def is_java_of_driver(self) -> bool:
        """Whether it is the Java of the driver."""
        return _JAVA_OF_DRIVER in self.command


def check_process_table() -> None:
    """Check that processes can be found here.

    Raises:
        NoProcessTableError: they cannot be found.
    """
    if not (_PROC / "self" / "stat").exists():
        raise NoProcessTableError(str(_PROC))


def processes_of(session: int) -> list[SystemProcess]:
    """Return all living processes of a session, ordered by id."""
    processes = [_process(int(entry.name), session) for entry in _PROC.iterdir() if entry.name.isdecimal()]
    return sorted((process for process in processes if process is not None), key=lambda process: process.pid)


def _process(pid: int, session: int) -> SystemProcess | None:
    try:
        # pid (command) state parent group session ...; the command may contain blanks and parentheses
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:  # it has exited
        return None
    if int(fields[3]) != session or fields[0] in "ZX":
        return None
    return SystemProcess(pid, int(fields[1]), command.replace(b"\0", b" ").decode(errors="replace"))


def ancestor(processes: list[SystemProcess], pid: int) -> SystemProcess | None:
    """Return the executor that a Python worker works for, if any."""
    by_pid = {process.pid: process for process in processes}
    candidate = by_pid.get(pid)
    while candidate is not None and not candidate.is_executor:
        candidate = by_pid.get(candidate.parent)
    return candidate


def signal_all(session: int, number: signal.Signals) -> int:
    """Send a signal to all processes of a session, including those started meanwhile; return their number."""
    reached: set[int] = set()
    while True:
        fresh = [process.pid for process in processes_of(session) if process.pid not in reached]
        if not fresh:
            return len(reached)
        for pid in fresh:
            send(pid, number)
        reached.update(fresh)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it has exited."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until_gone(session: int, timeout_s: float) -> bool:
    """Wait until a session has no processes; return whether that happened in time."""
    until = time.monotonic() + timeout_s
    while processes_of(session):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
