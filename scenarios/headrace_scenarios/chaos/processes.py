"""The processes of a Spark driver on this machine: found, killed, stopped and continued, by id.

Rules of this file:

* A driver is started in a session of its own (``setsid``), and all that it starts is in that session, for good: nobody else's
  process is, so nothing else can be struck.
* What is asked is the kernel's own table, ``/proc``: a process that was stopped can not be asked.
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
    """A machine that does not show its processes. Fields: place."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place

    def __str__(self) -> str:
        """Say what is missing."""
        return f"there is no {self.place}, in which processes are found to be killed and stopped. Run this on Linux"


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """A process, as it was when it was looked at.

    Attributes:
        pid: its id.
        parent: its parent's.
        command: its command line.
    """

    pid: int
    parent: int
    command: str

    @property
    def is_executor(self) -> bool:
        """It is the Java of an executor."""
        return _EXECUTOR in self.command

    @property
    def is_java_of_driver(self) -> bool:
        """It is the Java of the driver."""
        return _JAVA_OF_DRIVER in self.command


def check_process_table() -> None:
    """Check that processes can be found here.

    Raises:
        NoProcessTableError: they can not.
    """
    if not (_PROC / "self" / "stat").exists():
        raise NoProcessTableError(str(_PROC))


def processes_of(session: int) -> list[SystemProcess]:
    """All living processes of a session, by id."""
    found = [_process(int(one.name), session) for one in _PROC.iterdir() if one.name.isdecimal()]
    return sorted((one for one in found if one is not None), key=lambda one: one.pid)


def _process(pid: int, session: int) -> SystemProcess | None:
    try:
        # pid (command) state parent group session ...; the command may have blanks and brackets
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:  # it is gone
        return None
    if int(fields[3]) != session or fields[0] in "ZX":
        return None
    return SystemProcess(pid, int(fields[1]), command.replace(b"\0", b" ").decode(errors="replace"))


def ancestor(processes: list[SystemProcess], pid: int) -> SystemProcess | None:
    """The executor that a Python worker works for, if it has one."""
    by_pid = {process.pid: process for process in processes}
    found = by_pid.get(pid)
    while found is not None and not found.is_executor:
        found = by_pid.get(found.parent)
    return found


def signal_all(session: int, number: signal.Signals) -> int:
    """Send a signal to all processes of a session; tell to how many.

    Those that are started meanwhile get it too.
    """
    reached: set[int] = set()
    while True:
        fresh = [one.pid for one in processes_of(session) if one.pid not in reached]
        if not fresh:
            return len(reached)
        for pid in fresh:
            send(pid, number)
        reached.update(fresh)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until_gone(session: int, timeout_s: float) -> bool:
    """Wait until a session has no processes any more; tell whether that was so in time."""
    until = time.monotonic() + timeout_s
    while processes_of(session):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
