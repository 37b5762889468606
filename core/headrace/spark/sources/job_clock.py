"""The clock of a job, for wall timers: a streaming source of rows that tell that wall time has passed (MillWheel 4.1).

With a skew limit (8.4) its rows also tell the slowest low watermark, which only the driver knows.

Rules of this file:

* The clock checks at the interval that the user chose, and ticks only if a wall timer is due: a tick is a micro-batch that wakes
  all key intervals.
* The driver writes the due time to its file (`headrace.spark.sources.driver_file`).
* The first check always ticks. Then every interval reports when its next wall timer is due, and from there on the driver knows.
* Choice: a query that the user starts on the outputs of `attach` has no such file, since the driver does not learn of its timers.
  Its clock ticks at every check.
"""

import time
from collections.abc import Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession

from headrace.api.errors import OptionsError
from headrace.api.time import MIN_TIME
from headrace.spark.sources.data_source import Offset, read_stream
from headrace.spark.sources.driver_file import DriverNote, DriverReader, read_note

ASKED = "asked_tick"
"""Field of an offset: the last tick that the driver requested. Only a clock's offset has it."""


class WallTimerCheck(msgspec.Struct, frozen=True):
    """How to check for due wall timers.

    Attributes:
        every_us: time between checks, microseconds.
        path: path of the file that the driver writes; empty: there is none.
    """

    every_us: int
    path: str = ""

    def __post_init__(self) -> None:
        if self.every_us < 1:
            raise OptionsError("clock_us", self.every_us, "at least 1, or None")


class JobClock:
    """Decides when to tick."""

    def __init__(self, clock: WallTimerCheck) -> None:
        self._clock = clock
        self._looked_us: int | None = None

    def note(self) -> DriverNote:
        """Return what the driver has written."""
        return read_note(self._clock.path) if self._clock.path else _ALWAYS

    def latest(self, start: Offset) -> Offset:
        """Return the next tick's offset if it is time to tick, else ``start``."""
        note, before = self.note(), start.get("slowest", MIN_TIME)
        asked, slowest = note.asked or start[ASKED], max(note.slowest, before)
        if not self._is_time() and asked == start[ASKED] and slowest == before:
            return start
        known = {"slowest": slowest} if slowest > MIN_TIME else {}
        return {"tick": start["tick"] + 1, ASKED: asked, **known}

    def _is_time(self) -> bool:
        """Check the timers if it is time to, and return whether to tick."""
        now_us = time.monotonic_ns() // 1_000
        if self._looked_us is None:
            self._looked_us = now_us
            return True
        if now_us - self._looked_us < self._clock.every_us:
            return False
        self._looked_us = now_us
        due_us = self.note().due_us
        return due_us is not None and due_us <= time.time_ns() // 1_000


_ALWAYS = DriverNote(due_us=0)


def read_clock(spark: SparkSession, clock: WallTimerCheck) -> DataFrame:
    """Return a streaming DataFrame with a row for each tick: its number, and the slowest low watermark; null: not known."""
    option = msgspec.json.encode(clock).decode()
    return read_stream(spark, "headrace_clock", "tick long, slowest long", _reader, clock=option)


def _reader(options: Mapping[str, str]) -> DriverReader:
    return clock_reader(msgspec.json.decode(options["clock"], type=WallTimerCheck))


def clock_reader(clock: WallTimerCheck) -> DriverReader:
    """Return the reader of ticks: an offset has their number, the last requested one, and the slowest low watermark by then."""
    return DriverReader(["tick", "slowest"], {"tick": 0, ASKED: ""}, JobClock(clock).latest)
