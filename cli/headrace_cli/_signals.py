"""Ending in good order: SIGINT and SIGTERM, for work that comes in pieces and can stop between two of them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody wants the command to stop.

    Attributes:
        signal: that has come; ``None``: none.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __call__(self) -> bool:
        """Tell whether one has come."""
        return self.signal is not None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:  # whoever asks twice does not want to wait
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Take note of the first SIGINT or SIGTERM, instead of ending; the second one ends the command as ever."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # only there are signals handled
        yield request
        return
    before = {number: signal.signal(number, request._take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
