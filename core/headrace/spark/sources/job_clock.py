"""The clock of a job, for wall timers: a streaming source of rows that tell that wall time has passed (MillWheel 4.1).

With a skew limit (8.4) its rows also tell the slowest low watermark, which only the driver knows.

Rules of this file:

* The clock checks at the interval that the user chose, and ticks only if a wall timer is due: a tick is a micro-batch that wakes
  all key intervals.
* Spark runs a source in a separate process on the driver's machine. So the driver writes the due time to a file, and the source
  reads it. Each start of a query has a separate file: a driver that was replaced cannot stop its successor's clock.
* The first check always ticks. Then every interval reports when its next wall timer is due, and from there on the driver knows.
* Choice: a query that the user starts on the outputs of `attach` has no such file, since the driver does not learn of its timers.
  Its clock ticks at every check.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.api.errors import OptionsError
from headrace.api.time import MIN_TIME
from headrace.spark.sources.data_source import Offset, read_stream

FORMAT = "headrace_clock"
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


class ClockFile(msgspec.Struct, frozen=True):
    """What the driver writes for the clock.

    Attributes:
        due_us: when the next wall timer is due, wall time in microseconds; ``None``: none is pending.
        asked: the last tick that the driver requested.
        slowest: the slowest low watermark of all computations, event time in microseconds; when it advances, the clock ticks.
    """

    due_us: int | None = 0
    asked: str = ""
    slowest: int = MIN_TIME


_ALWAYS = ClockFile()
encode_told = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ClockFile).decode


class Looks:
    """The source's side of a clock, which decides when to tick."""

    def __init__(self, clock: WallTimerCheck) -> None:
        self._clock = clock
        self._looked_us: int | None = None

    def told(self) -> ClockFile:
        """Return what the driver has written."""
        if not self._clock.path:
            return _ALWAYS
        try:
            return _decode(Path(self._clock.path).read_bytes())
        except FileNotFoundError:  # the first micro-batch has not finished yet
            return ClockFile(None)

    def tick(self) -> bool:
        """Check the timers if it is time to, and return whether to tick."""
        now_us = time.monotonic_ns() // 1_000
        if self._looked_us is None:
            self._looked_us = now_us
            return True
        if now_us - self._looked_us < self._clock.every_us:
            return False
        self._looked_us = now_us
        due_us = self.told().due_us
        return due_us is not None and due_us <= time.time_ns() // 1_000


def read_clock(spark: SparkSession, clock: WallTimerCheck) -> DataFrame:
    """Return a streaming DataFrame with a row for each tick: its number, and the slowest low watermark; null: not known."""
    told = msgspec.json.encode(clock).decode()
    return read_stream(spark, FORMAT, "tick long, slowest long", _reader, clock=told)


def _reader(options: Mapping[str, str]) -> "ClockReader":
    return ClockReader(msgspec.json.decode(options["clock"], type=WallTimerCheck))


class ClockReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Ticks. An offset has the number of ticks, the last requested one, and the slowest low watermark as told by then."""

    def __init__(self, clock: WallTimerCheck) -> None:
        self._looks = Looks(clock)
        self._is_stopped = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Tick no more: the query is to end."""
        self._is_stopped = True

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which a new query begins."""
        return {"tick": 0, ASKED: ""}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802  Spark's names
        """Return the next tick's offset if it is time to tick, else ``start``."""
        if self._is_stopped:
            return start
        told = self._looks.told()
        asked = told.asked or start[ASKED]
        before = start.get("slowest", MIN_TIME)
        slowest = max(told.slowest, before)
        if self._looks.tick() or asked != start[ASKED] or slowest > before:
            return {"tick": start["tick"] + 1, ASKED: asked, "slowest": slowest}
        return start

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for a tick."""
        return [] if start == end else [InputPartition((end["tick"], end.get("slowest", MIN_TIME)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the row of the tick."""
        tick, slowest = partition.value
        columns = ([tick], [slowest if slowest > MIN_TIME else None])
        arrays = [pa.array(column, pa.int64()) for column in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=["tick", "slowest"])
