"""The driver's side of a job's clock, which knows when wall timers are due (see `headrace.spark.sources.wall_clock`)."""

from collections.abc import Iterable
from threading import Lock
from typing import Any
from uuid import uuid4

import msgspec

from headrace.spark.hosting.parcels import Tally
from headrace.spark.hosting.progress import Board
from headrace.spark.runtime.files import replace_file, scratch
from headrace.spark.sources.wall_clock import Clock, Told, encode_told


class DrivenClock:
    """The driver's side of a clock.

    Args:
        every_us: how often the clock checks for due wall timers, microseconds.
    """

    def __init__(self, every_us: int) -> None:
        self._board = Board()  # for this start only: tallies of an earlier one may be of another state
        self._path = scratch() / f"clock-{uuid4().hex}.json"
        self._lock = Lock()
        self._told = Told(None)
        self.clock = Clock(every_us, str(self._path))

    def take(self, tallies: Iterable[Tally]) -> None:
        """Learn from a micro-batch's tallies when the next wall timer is due."""
        self._board.take(tallies)
        self._write(due_us=self._board.wall_due())

    def ask(self) -> str:
        """Request a tick; return the value of `ASKED` in the offsets of its micro-batch and of those that follow."""
        asked = uuid4().hex
        self._write(asked=asked)
        return asked

    def _write(self, **changes: Any) -> None:
        with self._lock:
            told = msgspec.structs.replace(self._told, **changes)
            if told != self._told:
                replace_file(self._path, encode_told(told))
                self._told = told
