"""The stored state of a job, readable by key (MillWheel 6.2): rows, timers and holds.

Rules of this file:

* State is read from the last micro-batch that Spark has committed, through Spark's own data source for state. All reads of one
  query are from the same micro-batch, so the job can run meanwhile. Nothing is written to its directory.
"""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.chunks import IntervalHeader, chunk_of, decode_header, rows_of
from headrace.spark.hosting.group_task import HEADERS, decode_headers
from headrace.spark.hosting.layout import computation_of, interval_of, number_of
from headrace.spark.jobs.deployment_settings import (
    Shape,
    check_computation,
    checkpoint_of,
    last_committed,
    shape_of_job,
)
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.hadoop import HadoopPath, Place, job_directory
from headrace.spark.runtime.job_files import scratch
from headrace.store.mediator import StoredRow

_GROUP, _DATA = "user_map_key.group", "user_map_value.data"


class TimerState(msgspec.Struct, frozen=True):
    """A pending timer (4.6).

    Attributes:
        tag: its name.
        clock: ``watermark`` or ``wall``.
        timestamp: the time that user code asked for, microseconds of its clock.
        due: when it fires: the later of ``timestamp`` and the time at which it was set.
        hold: event time at which it holds the low watermark, microseconds; ``None``: nowhere.
    """

    tag: str
    clock: str
    timestamp: int
    due: int
    hold: int | None


class RowState(msgspec.Struct, frozen=True):
    """All that is stored for one key of a computation (6.2).

    Attributes:
        key: the key.
        interval: number of its key interval.
        state: the state, as the computation's codec writes it.
        hold: event time at which the state holds the low watermark, microseconds; ``None``: nowhere.
        timers: pending timers, in the order in which they fire.
        seen: ids of records kept for deduplication (6.1.1), each with its origin in microseconds.
    """

    key: str
    interval: int
    state: bytes
    hold: int | None
    timers: tuple[TimerState, ...]
    seen: dict[str, int]


class IntervalState(msgspec.Struct, frozen=True):
    """A key interval.

    Attributes:
        number: its number, from 0.
        keys: number of keys with a row.
        timers: number of pending timers.
        state_bytes: size of the rows, bytes.
        records: number of records ever received.
        low_watermark: of its input as of its last micro-batch, event time in microseconds; ``None``: unknown, or at its end.
        hold: event time at which it holds the low watermark, microseconds; ``None``: nowhere.
        holds: by key interval of a sender, the event time at which that one holds this input back, microseconds.
    """

    number: int
    keys: int
    timers: int
    state_bytes: int
    records: int
    low_watermark: int | None
    hold: int | None
    holds: dict[str, int]


class ComputationState(msgspec.Struct, frozen=True):
    """A computation.

    Attributes:
        name: its name.
        removed: whether it is no longer part of the pipeline.
        micro_batch: number of the last committed micro-batch of its query; -1: none.
        intervals: the key intervals that have state, in order.
    """

    name: str
    removed: bool
    micro_batch: int
    intervals: tuple[IntervalState, ...]


class JobState:
    """Reads the stored state of a job, also while it runs.

    Args:
        spark: a session on this machine, which need not be the job's.
        directory: directory of the job: a path or a URI, as given to `deploy`.

    Attributes:
        pipeline: name of the pipeline.

    Raises:
        SparkHostError: there is no such job.
        OptionsError: the session's Hadoop client does not reach the directory.
    """

    def __init__(self, spark: SparkSession, directory: str | Path) -> None:
        self._spark = spark
        self._directory = job_directory(directory, spark)
        self._shape = shape_of_job(self._directory)
        self.pipeline = self._shape.pipeline

    def computations(self) -> tuple[ComputationState, ...]:
        """Read all computations, sources first; removed ones whose state is still stored come last.

        Raises:
            The errors of `computation`.
        """
        return tuple(self.computation(name) for name in self._known())

    def computation(self, name: str) -> ComputationState:
        """Read one computation.

        Raises:
            SparkHostError: the job has no such computation, or Spark cannot read the state.
            StorageError: a file of the checkpoint is missing or damaged.
        """
        stored = self._stored(name)
        intervals = [_interval(group, header) for group, header in stored.headers().items()]
        intervals.sort(key=lambda interval: interval.number)
        removed = name not in self._shape.computations
        batch = -1 if stored.batch < 0 else self._shape.batches_before + stored.batch
        return ComputationState(name, removed, batch, tuple(intervals))

    def rows(self, name: str) -> Iterator[RowState]:
        """Read all rows of a computation, in no particular order.

        Raises:
            The errors of `computation`.
        """
        for group, chunk in self._stored(name).chunks():
            for key, row in rows_of(chunk):
                yield _row(key, group, row)

    def row(self, name: str, key: str) -> RowState | None:
        """Read the row of one key; ``None``: there is none.

        Raises:
            The errors of `computation`.
        """
        stored = self._stored(name)
        intervals = self._shape.intervals
        place = interval_of(key, intervals, self._shape.splits.get(name, ()))
        for group, header in stored.headers().items():
            if number_of(group) == place:
                for _, chunk in stored.chunks(group, chunk_of(key, intervals, header.chunks)):
                    for other, row in rows_of(chunk):
                        if other == key:
                            return _row(key, group, row)
        return None

    def _known(self) -> list[str]:
        return list(dict.fromkeys([*self._shape.computations, *sorted(self._shape.levels)]))

    def _stored(self, name: str) -> "StoredState":
        check_computation(self._directory, name, self._known())
        return StoredState(self._spark, self._directory, self._shape, name)


class StoredState:
    """The state of one computation in a job's checkpoint, as of the last micro-batch committed when this was created."""

    def __init__(self, spark: SparkSession, directory: Place, shape: Shape, computation: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint_of(directory, shape)
        self._operator, self._computation = shape.operator_of(computation), computation
        self.batch = last_committed(self._checkpoint)
        self._divided = shape.is_divided
        self._chunks_at = ("chunks", "key.group") if self._divided else ("values", _GROUP)

    def headers(self) -> dict[str, IntervalHeader]:
        """Read the header of each interval, by group."""
        return {group: decode_header(data) for group, data in self._headers().items()}

    def _headers(self) -> dict[str, bytes]:
        if self._divided:
            headers = dict(self._read("header", "key.group", "value.data"))
        else:
            values = self._read("values", _GROUP, _DATA, wanted=F.col(_GROUP) == HEADERS)
            headers = {
                group: header for _, data in values for group, header in decode_headers(data).by_group.items()
            }
        return {group: header for group, header in headers.items() if self._is_own(group)}

    def images(self) -> dict[str, tuple[bytes, dict[int, bytes]]]:
        """Read everything: header and chunks of each interval, by group."""
        images: dict[str, tuple[bytes, dict[int, bytes]]] = {
            group: (header, {}) for group, header in self._headers().items()
        }
        variable, by_group = self._chunks_at
        place = F.concat_ws(" ", "user_map_key.number", by_group)
        for text, data in self._read(variable, place, _DATA, few=False):
            number, _, group = text.partition(" ")
            if group in images:
                images[group][1][int(number)] = data
        return images

    def chunks(self, group: str | None = None, number: int | None = None) -> Iterator[tuple[str, bytes]]:
        """Read chunks, each with its group: all of them, or one."""
        variable, by_group = self._chunks_at
        wanted = None
        if group is not None:
            wanted = (F.col(by_group) == group) & (F.col("user_map_key.number") == number)
        few = wanted is not None
        if wanted is None:
            wanted = F.col("user_map_key.number") >= 0  # the others have records that wait
        for own, data in self._read(variable, by_group, _DATA, wanted=wanted, few=few):
            if self._is_own(own):
                yield own, data

    def _is_own(self, group: str) -> bool:
        return computation_of(group) == self._computation

    def _read(
        self, variable: str, *columns: str | Column, wanted: Column | None = None, few: bool = True
    ) -> Iterator[tuple[str, bytes]]:
        if self.batch < 0:
            return
        options = {
            "path": _plain(self._checkpoint), "operatorId": self._operator, "batchId": self.batch, "stateVarName": variable,
        }  # fmt: skip
        try:
            frame = self._spark.read.format("statestore").options(**options).load()
            if wanted is not None:
                frame = frame.filter(wanted)
            frame = frame.select(*columns)
            for group, data in frame.collect() if few else frame.toLocalIterator():
                yield str(group), bytes(data)
        except (PySparkException, Py4JJavaError) as error:
            storage_error = storage_error_of(str(error), self._checkpoint)
            if storage_error is not None:
                raise storage_error from error
            reason = str(error).partition("\n")[0]
            problem = (
                f"the state of {self._computation!r} cannot be read from {str(self._checkpoint)!r}: {reason}"
            )
            remedy = "Read it with the versions of Headrace and Spark that run the job"
            raise SparkHostError(problem, remedy) from error


def _plain(checkpoint: Place) -> str:
    """Return a path that Spark's data source for state can read: it does not find one with characters that a URI escapes."""
    if isinstance(checkpoint, HadoopPath) or quote(str(checkpoint)) == str(checkpoint):
        return str(checkpoint)
    link = scratch() / "state" / sha256(str(checkpoint).encode()).hexdigest()
    link.parent.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(checkpoint)
    return str(link)


def _interval(group: str, header: IntervalHeader) -> IntervalState:
    return IntervalState(
        number_of(group), header.rows, header.timers, header.state_bytes, header.records, _known_time(header.low),
        _known_time(header.held), {sender: low for sender, low in header.holds.items() if MIN_TIME < low < MAX_TIME},
    )  # fmt: skip


def _row(key: str, group: str, row: StoredRow) -> RowState:
    timers = tuple(
        TimerState(
            timer.tag,
            "wall" if timer.clock is Clock.WALL else "watermark",
            timer.timestamp,
            timer.due,
            timer.held,
        )
        for timer in sorted(row.timers.values(), key=lambda timer: timer.order)
    )
    return RowState(key, number_of(group), bytes(row.state), _known_time(row.hold), timers, row.seen)


def _known_time(time_us: int) -> int | None:
    return time_us if MIN_TIME < time_us < MAX_TIME else None
