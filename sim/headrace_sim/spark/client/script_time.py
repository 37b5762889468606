"""Simulated time for a script: waiting takes no time, and a wait that nothing can end is interrupted as by Ctrl+C.

Rules of this file:

* ``time.sleep``, ``asyncio.sleep``, ``Event.wait`` and ``signal.pause`` of the script move its clock: ``time``, ``datetime``.
* A thread that has waited `MOST_WAITS` times, or for an event that nobody sets, gets a ``KeyboardInterrupt``: such a script runs
  until somebody ends it.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn
from unittest.mock import patch

import time_machine

from headrace_sim.spark.refusals import is_library, users_place

MOST_WAITS = 2_000
"""Choice: how often a thread of a script may wait before it is taken to wait for ever."""
_START = datetime(2030, 1, 1, tzinfo=UTC)
_OTHERS_S = 0.0005
"""Choice: how long, in real seconds, a wait lets other threads run."""
_REAL_S = 5.0
"""Choice: how long, in real seconds, the threads of a script may run on once it has ended."""


class WaitsForEverError(KeyboardInterrupt):
    """A script waits, and nothing can end that. Fields: place (``file:line``)."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place

    def __str__(self) -> str:
        """Say where."""
        return f"the script waits for ever at {self.place}"


@dataclass(slots=True)
class ScriptTime:
    """The clock of a script."""

    shift: Callable[[float], Any]
    rest: Callable[[float], None]
    passed_s: float = 0.0  # how much time has passed, seconds
    # where waits were interrupted: ``file:line``, in order
    interrupted: list[str] = field(default_factory=list)
    over: bool = False  # whether the script has ended
    # the threads that were there before it: their waits are none of its own
    others: frozenset[int] = frozenset()
    _waits: dict[int, int] = field(default_factory=dict)

    def wait(self, seconds: float = 0.0) -> None:
        """Let time pass; once the script is over, for what it imported from `time`, as anybody does.

        Raise `WaitsForEverError` if this thread has waited too often.
        """
        if self.over:
            time.sleep(seconds)
            return
        thread = threading.get_ident()
        if thread in self.others:
            self.rest(seconds)
            return
        self.passed_s += max(seconds, 0.0)
        self.shift(max(seconds, 0.0))
        if threading.active_count() > 1:
            self.rest(_OTHERS_S)
        self._waits[thread] = self._waits.get(thread, 0) + 1
        if self._waits[thread] > MOST_WAITS:
            self.interrupt()

    def interrupt(self) -> NoReturn:
        """Raise `WaitsForEverError`: nothing else ends this wait."""
        place = users_place()
        self.interrupted.append(place)
        raise WaitsForEverError(place)


@contextmanager
def script_time() -> Iterator[ScriptTime]:
    """Let time be simulated within, and wait at the end for the threads that were started."""
    before, real_s = set(threading.enumerate()), time.monotonic
    with ExitStack() as patches:
        clock = patches.enter_context(time_machine.travel(_START, tick=False))
        others = frozenset(thread.ident or 0 for thread in before) - {threading.get_ident()}
        passing = ScriptTime(clock.shift, time.sleep, others=others)
        for owner, name, instead in _replaced(passing):
            patches.enter_context(patch.object(owner, name, instead))
        try:
            yield passing
        finally:
            ends_s = real_s() + _REAL_S
            for thread in threading.enumerate():
                if thread not in before:
                    thread.join(max(ends_s - real_s(), 0.0))
            passing.over = True


def _replaced(passing: ScriptTime) -> Iterator[tuple[Any, str, Any]]:
    """Yield what waits, or tells the time: its owner, its name, and what it does instead."""
    real_wait, real_rest = threading.Event.wait, asyncio.sleep

    async def rest(delay: float, result: Any = None) -> Any:
        passing.wait(delay)
        await real_rest(0)
        return result

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        if is_library(sys._getframe(1).f_code.co_filename):  # threads and executors wait for each other
            return real_wait(event, timeout)
        if timeout is None:
            if not real_wait(event, _REAL_S):
                passing.interrupt()
            return True
        passing.wait(timeout)
        return event.is_set()

    def since_start(real: Callable[[], float]) -> Callable[[], float]:
        return lambda: real() + passing.passed_s

    yield time, "sleep", passing.wait
    yield asyncio, "sleep", rest
    yield threading.Event, "wait", wait
    yield signal, "pause", passing.interrupt
    for name in ("monotonic", "perf_counter"):
        yield time, name, since_start(getattr(time, name))
