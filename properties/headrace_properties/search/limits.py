"""Resource limits of user code in a worker process: time per call, memory in total (MillWheel 4.1).

Rules of this file:

* A periodic alarm checks which call of user code is running. A call that exceeds its budget is interrupted. Others cost
  nothing.
* The budget is CPU time, which does not depend on what else the machine does; a call that waits is ended after `WAITING` times
  as much wall time. What a call imports is not charged to it.
* It also checks which event a process is handling. A broken protocol may handle one without end, in zero simulated time, so
  that the budget of events (`headrace_sim.kernel`) never ends the run.
* The interrupt is not an `Exception`, so neither the engine's failure policy nor user code catches it.
"""

import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from headrace import format_time
from headrace.worker.hooks import run_record, run_timer
from headrace_properties.reference import run_step
from headrace_properties.user_frames import Place, is_users_file, place_in
from headrace_sim.hosting.host import Host

CALL_S = 10.0
"""Default limit of CPU time for a call of user code, seconds."""

WAITING = 6
"""Choice: how many times its limit of CPU time a call may take in all, where it sleeps or waits for the processor."""

_COMPUTES = 50
"""Choice: a call that gets less than such a part of a processor waits for something else than a processor."""


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """Limits of user code.

    Attributes:
        call_s: CPU time for one call, seconds.
        memory_bytes: memory that a worker process may take beyond what it begins with.
        option: what sets ``call_s``, for messages.
    """

    call_s: float = CALL_S
    memory_bytes: int = 1 << 30
    option: str = "--code-timeout"

    @property
    def wall_s(self) -> float:
        """Wall time for one call, seconds."""
        return self.call_s * WAITING

    def overrun(self, cpu_s: float, wall_s: float, margin_s: float = 0.0) -> str:
        """Return which limit a call has overrun, and what allows more; ``""``: none.

        Args:
            cpu_s: its CPU time.
            wall_s: its wall time. One that computes on a busy machine may take ten times as much as one that waits.
            margin_s: by how much both may be short of a limit.
        """
        more = f"; {self.option} allows more"
        if cpu_s + margin_s >= self.call_s:
            return f"{self.call_s:g} s of CPU time{more}"
        most_s = self.wall_s if cpu_s < wall_s / _COMPUTES else self.wall_s * 10
        return f"{most_s:g} s, in which it waits for something{more}" if wall_s + margin_s >= most_s else ""


class OverrunError(BaseException):
    """Something exceeded its time."""


class HandlerOverrunError(OverrunError):
    """An engine process did not finish an event in time. Fields: seconds (of CPU time), process, event, at_us."""

    def __init__(self, seconds: float, process: str, event: str, at_us: int) -> None:
        super().__init__(seconds, process, event, at_us)
        self.seconds, self.process, self.event, self.at_us = seconds, process, event, at_us

    def __str__(self) -> str:
        """Say who handles what."""
        return (
            f"the run never ends: {self.process} has handled one {self.event} for {self.seconds:g} s without running user code,"
            f" and simulated time stands at {format_time(self.at_us)}. Look for a rule by which a step consumes nothing and runs"
            " again"
        )


class CodeOverrunError(OverrunError):
    """A call of user code did not end in time. Fields: limit (as `CodeLimits.overrun` words it), cause, place."""

    def __init__(self, limit: str, cause: str, place: Place | None) -> None:
        super().__init__(limit, cause, place)
        self.limit, self.cause, self.place = limit, cause, place

    def __str__(self) -> str:
        """Say which call, and where it is."""
        at = f"at {self.place}, " if self.place else ""
        on = f"on {self.cause}, " if self.cause else ""
        return f"user code never ends: {at}{on}it has not after {self.limit}"


@contextmanager
def call_time_limited(
    limits: CodeLimits, on_progress: Callable[[], None] = lambda: None, base: FrameType | None = None
) -> Iterator[None]:
    """Interrupt calls of user code and event handlers that take too long. Works only in the main thread.

    Args:
        limits: say what is too long.
        on_progress: called periodically as long as no call of user code overruns.
        base: what is below it on the stack is no call of user code; default: the frame that enters this.

    Raises:
        CodeOverrunError: a call of user code did.
        HandlerOverrunError: a process did, without running user code.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    base = base or sys._getframe(2)  # the caller's: between them is the context manager
    tick_s = min(limits.call_s / 4, 1.0)
    running, handling = _Stretch(None), _Stretch(None)
    left_s = again_s = 0.0  # until the clock is set: the one of a context around this may strike
    began_s, is_others = time.monotonic(), False

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal running, handling
        if left_s and is_others and callable(handler) and time.monotonic() - began_s >= left_s:
            handler(number, frame)
        running = running.still(_call_in(frame, base))
        handling = handling.still(_handling_in(frame, base))
        if handling.frame is not None and handling.cpu_s >= limits.call_s:
            known = handling.frame.f_locals
            raise HandlerOverrunError(
                limits.call_s, known["node"].address, type(known["event"]).__name__, known["self"].kernel.now
            )
        if running.frame is None or running.has_just_begun:
            on_progress()
        elif over := limits.overrun(running.cpu_s, running.wall_s, tick_s):
            raise CodeOverrunError(over, _cause_of(running.frame), place_in(frame, base))

    handler = signal.signal(signal.SIGALRM, look)
    left_s, again_s = signal.setitimer(signal.ITIMER_REAL, tick_s, tick_s)
    began_s, is_others = time.monotonic(), getattr(handler, "__module__", "") != __name__
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        running = handling = _Stretch(None)
        if left_s:  # somebody else's alarm
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began_s), 0.001), again_s)


class _Stretch:
    """The time in which the same frame has been seen running: CPU time of this thread, and wall time."""

    def __init__(self, frame: FrameType | None) -> None:
        self.frame = frame
        self.has_just_begun = True
        self._began = time.thread_time(), time.monotonic()

    def still(self, frame: FrameType | None) -> "_Stretch":
        """Return this if the frame is still the same, or else a new one."""
        self.has_just_begun = False
        return self if frame is self.frame else _Stretch(frame)

    @property
    def cpu_s(self) -> float:
        return time.thread_time() - self._began[0]

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._began[1]


def limit_memory(limits: CodeLimits) -> None:
    """Make allocations beyond the limit raise `MemoryError`, where the system reports the current usage."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + limits.memory_bytes
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


@contextmanager
def calls_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Report each call of user code before it is made. Slow."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in _HOOKS:
            tell(_cause_of(frame))

    if not can_profile():
        yield
        return
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def can_profile() -> bool:
    """Return whether a profiler can be set and the present one restored: cProfile's cannot."""
    profiler = sys.getprofile()
    return profiler is None or callable(profiler)


_HOOKS = frozenset({run_record.__code__, run_timer.__code__, run_step.__code__})


def _call_in(frame: FrameType | None, base: FrameType) -> FrameType | None:
    """Return the outermost frame of a call of user code; ``None``, too, while it imports something that is not the user's."""
    call = None
    while frame is not None and frame is not base:
        if frame.f_code in _HOOKS or is_users_file(frame.f_code.co_filename):
            call = frame
        elif call is None and frame.f_code.co_filename.startswith("<frozen importlib"):
            return None
        frame = frame.f_back
    return call


def _handling_in(frame: FrameType | None, base: FrameType) -> FrameType | None:
    """Return the frame in which a simulated process handles an event, unless user code is running."""
    while frame is not None and frame is not base and frame.f_code not in _HOOKS:
        if frame.f_code is Host.give.__code__:
            return frame
        frame = frame.f_back
    return None


def _cause_of(call: FrameType) -> str:
    """Return what a call is for."""
    known = call.f_locals
    if call.f_code is run_step.__code__:
        step = known["step"]
        return f"{step.cause} of key {step.key!r} at {step.computation!r}"
    if call.f_code in _HOOKS:
        what = known["production"].record_id if "production" in known else f"timer {known['timer'].tag!r}"
        return f"{what} of key {known['key']!r} at {known['where'].spec.name!r}"
    return ""
