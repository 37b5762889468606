"""The logs that a computation reads, as one streaming source of Spark (MillWheel 3, 4.5).

Rules of this file:

* All senders are one source: Spark fixes the number of a query's sources for good, but senders can be added and removed.
* A micro-batch takes whole entries of a log: their records, and the low watermark as of the last of them.
* When percentile watermarks begin to follow the stage, or no longer do, and when its keys were divided anew into intervals, a
  micro-batch calls all intervals, old and new, even if there is nothing new. It also tells again what the senders' logs say.
  Offsets note that, so it happens once.
* The source names files and does not open them: the tasks that process its rows read them.
* Polling waits briefly if there is nothing new, so an idle query costs almost nothing and a busy one loses no time.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit

from headrace.spark.hosting.parcels import Followed
from headrace.spark.jobs.log import Entry, Log
from headrace.spark.sources.data_source import Offset, read_stream
from headrace.spark.sources.wall_clock import Clock, Looks

FORMAT = "headrace_logs"
_ROWS = pa.schema(
    [
        ("sender", pa.string()),
        ("part", pa.string()),
        ("number", pa.int64()),
        ("low", pa.int64()),
        ("horizon", pa.int64()),
        ("followed", pa.binary()),
        ("tick", pa.bool_()),
    ]
)
COLUMNS = tuple(_ROWS.names)
"""A row is a part of a sender's log; or how far the log was read, with its watermark and horizon, and what it says for percentile
watermarks, encoded; or a tick of the clock, or false: a call of all intervals."""

_PATIENCE_S = 0.1
_LOOK_EVERY_S = 0.005

DIVISION = "division"
"""The field of an offset that says of which division all intervals have been called."""

_encode = msgspec.msgpack.Encoder().encode
decode_followed = msgspec.msgpack.Decoder(Followed).decode


class Reading(msgspec.Struct, frozen=True):
    """What a computation reads.

    Attributes:
        directory: directory of the deployment.
        begin: for each sender, the number of the entry of its log after which to begin.
        tasks: number of tasks among which the files of a micro-batch are divided.
        max_records: maximum records of a micro-batch; an entry is never divided.
        clock: the clock for wall timers; ``None``: there is none.
        followed: whether percentile watermarks follow the computation, directly or not.
        division: how often the job's keys had been divided anew into intervals.
        closed: nothing new is read: the query only finishes what it has begun.
    """

    directory: str
    begin: dict[str, int]
    tasks: int
    max_records: int
    clock: Clock | None = None
    followed: bool = False
    division: int = 0
    closed: bool = False

    def marks(self, start: Offset) -> Offset:
        """Return the part of an offset whose changes call all intervals; empty in jobs that never had any."""
        wanted = {"followed": self.followed, DIVISION: self.division}
        return {name: value for name, value in wanted.items() if value or name in start}


def read_logs(spark: SparkSession, reading: Reading) -> DataFrame:
    """Return a streaming DataFrame with `COLUMNS`."""
    told = msgspec.json.encode(reading).decode()
    rows = read_stream(spark, FORMAT, from_arrow_schema(_ROWS), _reader, reading=told)
    # Spark gives a stateful operator wall time only together with event time; the real watermarks come in the rows.
    nothing = F.lit(None).cast("timestamp")
    return rows.withColumn("_no_watermark", nothing).withWatermark("_no_watermark", "0 seconds")


def _reader(options: Mapping[str, str]) -> "LogReader":
    return LogReader(msgspec.json.decode(options["reading"], type=Reading))


class _Files(InputPartition):
    """One task's part of a micro-batch: its rows."""


class LogReader(DataSourceStreamReader):
    """Reads the logs. An offset has the last entry read of each sender's log, the number of ticks, and marks (`Reading.marks`).

    Args:
        reading: what to read.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._looks = None if reading.clock is None else Looks(reading.clock)
        self._logs = {sender: Log(reading.directory, sender) for sender in reading.begin}

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which a new query begins."""
        return {"logs": dict(self._reading.begin), "tick": 0, **self._reading.marks({})}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802  Spark's names
        """Return how far to read: as far as there is anything new, within the limit."""
        if self._reading.closed:
            return start | self._reading.marks(start)
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self._look(start)) == start and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return found

    def _look(self, start: Offset) -> Offset:
        tick = start["tick"] + (1 if self._looks is not None and self._looks.tick() else 0)
        known, limit = start["logs"], self._reading.max_records // len(self._logs)
        ends = {
            sender: _reach(log, known.get(sender, self._reading.begin[sender]), limit)
            for sender, log in self._logs.items()
        }
        if all(ends[sender] == known.get(sender) for sender in ends):
            ends = known  # includes senders that were removed
        return {"logs": ends, "tick": tick, **self._reading.marks(start)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Divide the files evenly by size; the task with the least also reports how far the logs were read."""
        loads: list[tuple[int, list[tuple[Any, ...]]]] = [(0, []) for _ in range(max(1, self._reading.tasks))]
        calls_all = any(end[mark] != start.get(mark, 0) for mark in end if mark not in ("logs", "tick"))
        for sender, number in end["logs"].items():
            after = start["logs"].get(sender, self._reading.begin.get(sender, number))
            entry: Entry | None = None
            if number <= after and calls_all and sender in self._logs:
                entry = self._logs[sender].entry(number)  # if it was not dropped
            for entry in Log(self._reading.directory, sender).entries(after, number):
                for part in entry.parts:
                    size, rows = loads[0]
                    rows.append((sender, part.name, None, None, None, None, None))
                    loads[0] = size + part.size_bytes, rows
                    loads.sort(key=itemgetter(0))
            if entry is not None:
                followed = None if entry.followed is None else _encode(entry.followed)
                loads[0][1].append((sender, None, number, entry.low, entry.horizon, followed, None))
        if end["tick"] != start["tick"] or calls_all:
            loads[0][1].append((None, None, None, None, None, None, end["tick"] != start["tick"]))
        return [_Files(rows) for _, rows in loads if rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        columns = zip(*partition.value, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


def _reach(log: Log, after: int, limit: int) -> int:
    """Return the number of the last entry to read."""
    last = log.entry(log.last(after))
    if last is None or last.news <= after:
        return after
    count = 0
    for entry in log.entries(after, last.news):
        if count and count + entry.records > limit:
            return entry.number - 1
        count += entry.records
    return last.news
