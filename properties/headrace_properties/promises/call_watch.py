"""A watchdog for code that may never return: one timer for a whole run, and no cost per call."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE_S = 10.0
"""Seconds that one call may take; it is stopped after once to twice as long."""


class HangError(BaseException):
    """Raised inside a call that takes too long; not an ``Exception``, so that ``except Exception`` does not stop it."""


class CallWatch:
    """Counts calls, so that the timer can tell a long one from many short ones.

    Args:
        patience_s: seconds that one call may take.

    Attributes:
        patience_s: seconds that one call may take.
        calls: how many have begun.
        inside: whether one is running.
    """

    __slots__ = ("_at_last_tick", "calls", "inside", "patience_s")

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self.calls = 0
        self.inside = False
        self._at_last_tick = -1

    def tick(self, _signal: int, _frame: FrameType | None) -> None:
        """Stop the call that is running, if it was running at the tick before.

        Raises:
            HangError: it was.
        """
        if self.inside and self.calls == self._at_last_tick:
            raise HangError
        self._at_last_tick = self.calls

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch calls. Choice: only in the main thread, where signals arrive; elsewhere nothing is stopped."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, self.tick)
        left = signal.setitimer(signal.ITIMER_REAL, self.patience_s, self.patience_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *left)
            signal.signal(signal.SIGALRM, before)
