"""What the driver of a job writes for its sources, and the streaming sources of a row for each advance of it (MillWheel 4.5).

Rules of this file:

* Spark runs a source in a separate process on the driver's machine. So the driver writes a file, and the source reads it. Each
  start of a query has a separate file: a driver that was replaced cannot mislead its successor's sources.
* What a source has read is in its offset: a micro-batch that is run again has the same row.
* Spark's watermark is the minimum over a job's inputs. So an input whose low watermark Spark cannot derive is united with a
  source of **heartbeats**, before Spark reads its watermark.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.api.time import MIN_TIME
from headrace.spark.runtime.job_files import replace_file, scratch
from headrace.spark.sources.data_source import Offset, read_stream


class DriverNote(msgspec.Struct, frozen=True):
    """What the driver writes.

    Attributes:
        due_us: when the next wall timer is due, wall time in microseconds; ``None``: none is pending.
        asked: the last tick of the clock that the driver requested.
        slowest: the slowest low watermark of all computations, event time in microseconds; when it advances, the clock ticks.
        lows: by input, its low watermark, event time in microseconds.
    """

    due_us: int | None = None
    asked: str = ""
    slowest: int = MIN_TIME
    lows: dict[str, int] = {}


_decode = msgspec.json.Decoder(DriverNote).decode


def read_note(path: str) -> DriverNote:
    """Return what the driver has written to its file."""
    try:
        return _decode(Path(path).read_bytes())
    except FileNotFoundError:  # the first micro-batch has not finished yet
        return DriverNote()


class DriverFile:
    """The driver's side of a file. Any thread may write to it.

    Attributes:
        path: its path.
        note: what it has.
    """

    def __init__(self) -> None:
        self.path = str(scratch() / f"driver-{uuid4().hex}.json")
        self.note = DriverNote()
        self._lock = Lock()

    def write(self, **changes: Any) -> None:
        """Write it anew with these fields, if that changes it."""
        with self._lock:
            note = msgspec.structs.replace(self.note, **changes)
            if note != self.note:
                replace_file(Path(self.path), msgspec.json.encode(note))
                self.note = note


class DriverReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a row for each advance. The names are Spark's.

    Args:
        columns: the fields of an offset that are the columns of a row, all of them of type long.
        initial: the offset at which a new query begins.
        latest: returns the offset as of now; the one that it is given, if there is no advance.
    """

    def __init__(self, columns: Sequence[str], initial: Offset, latest: Callable[[Offset], Offset]) -> None:
        self._columns, self._initial, self._latest = list(columns), initial, latest

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Advance no more: the query is to end."""
        self._latest = lambda start: start

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset at which a new query begins."""
        return self._initial

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """Return the end of the next batch."""
        return self._latest(start)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for an advance."""
        return [] if start == end else [InputPartition(end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the row."""
        arrays = [pa.array([partition.value.get(name)], pa.int64()) for name in self._columns]
        yield pa.RecordBatch.from_arrays(arrays, names=self._columns)


def read_heartbeats(spark: SparkSession, injector: str, path: str) -> DataFrame:
    """Return a streaming DataFrame with a row for each advance of an input's low watermark, event time in microseconds.

    Args:
        spark: the session.
        injector: name of the input.
        path: path of the driver's file.
    """
    return read_stream(
        spark, "headrace_heartbeats", "low long", heartbeat_reader, injector=injector, path=path
    )


def heartbeat_reader(options: Mapping[str, str]) -> DriverReader:
    """Return the reader of an input's heartbeats: an offset has the latest low watermark."""

    def latest(start: Offset) -> Offset:
        return {"low": max(read_note(options["path"]).lows.get(options["injector"], MIN_TIME), start["low"])}

    return DriverReader(["low"], {"low": MIN_TIME}, latest)
