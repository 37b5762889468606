"""Handle signals: SIGINT, SIGTERM and SIGHUP end a command cleanly, with the results so far."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""The signals that end a command, and what it then is."""


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP has arrived; handled wherever Ctrl-C is. Fields: signal."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.signal = number


def signal_of(stop: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that raised an exception."""
    return stop.signal if isinstance(stop, Stopped) else signal.SIGINT


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Stopped` within when SIGTERM or SIGHUP arrives, unless it is ignored, as under nohup."""
    process = os.getpid()

    def raise_stopped(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == process:
            raise Stopped(signal.Signals(number))
        signal.signal(number, signal.SIG_DFL)  # a child that inherited the handler ends at once
        os.kill(os.getpid(), number)

    with _handled(raise_stopped, (signal.SIGTERM, signal.SIGHUP)):
        yield


class StopRequest:
    """A signal's request to stop the command.

    Attributes:
        signal: the signal that has arrived; ``None``: none.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __call__(self) -> bool:
        """Return whether a signal has arrived."""
        return self.signal is not None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:  # a second signal: the user does not want to wait
            raise Stopped(signal.Signals(number))
        self.signal = signal.Signals(number)


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Note the first signal within instead of stopping at once; a second one stops at once."""
    request = StopRequest()
    with _handled(request._take, tuple(STOPPED)):
        yield request


@contextmanager
def _handled(handler: "signal._HANDLER", numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there are signals handled
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
