"""Injection on Spark (MillWheel 4.2, 5.2): from rows of the sources to parcels for key intervals.

Rules of this file: a record that cannot be read or keyed is refused with its place in the source, or goes to the injector's dead
letters. Spark handles the watermark of a heartbeat; its horizon is sent to all intervals that keep ids.
"""

import time
import zlib
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Never
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from headrace.api.errors import MalformedRecordError
from headrace.api.specs import OUTSIDE, DeadLetter
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.history import Injected
from headrace.injector.injection import dead_letter, productions_of
from headrace.spark.hosting.direct_injection import Lane, has_lane
from headrace.spark.hosting.group_task import bundle_rows
from headrace.spark.hosting.history_export import exported_injections
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.parcels import Batches, Post, parcel_rows
from headrace.spark.runtime.failures import noted
from headrace.spark.runtime.garbage_collection import collector_paused
from headrace.spark.sources.directory import open_uri
from headrace.spark.sources.injected_rows import shown
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production

SOURCE_COLUMNS = ("injector", "stream", "key", "value", "timestamp", "record_id", "arrived", "horizon")
"""The columns of a source's rows: each is a record or a heartbeat (whose ``key`` and ``stream`` are null)."""

CLOCK = "\n"
"""Injector name of a row that only tells that time has passed."""

UNPARSED = "\n"
"""Prefix of the stream of a row that Spark's reader could not parse. The stream's name follows, this mark again, and the row's
file, if known. The row's value is its text."""


def inject(plan: JobPlan, kept_ids_us: dict[str, int], batches: Batches) -> Batches:
    """Turn the sources' rows into parcels: Spark maps with a partial of it.

    Args:
        plan: the layout of the pipeline.
        kept_ids_us: for each injector whose source does not tell how far it was read, how long its record ids are kept, event
            time in microseconds: for that long a repeated record is recognized.
        batches: the rows of a task's partition.
    """
    task = TaskContext.get()
    number = plan.batches_before + int(task.getLocalProperty("streaming.sql.batchId") or 0)
    mapping = Injection(plan, kept_ids_us, number, task.partitionId())
    if task.partitionId() == 0 and number <= plan.wake_until:
        post = Post()
        for name in plan.pipeline.computations:
            for group in plan.groups[name]:
                post.to(group)
        yield _rows(plan, post)
    for batch in batches:
        with noted(), collector_paused():
            post = mapping.inject(zip(*[_values(batch.column(name)) for name in SOURCE_COLUMNS], strict=True))
        if post.parcels:
            yield _rows(plan, post)


def _rows(plan: JobPlan, post: Post) -> pa.RecordBatch:
    return bundle_rows(post) if plan.fused else parcel_rows(post)


def _values(column: pa.Array) -> Iterable[Any]:
    """Return a column's values. In most sources all rows have the same injector and stream, or nulls: those are read once."""
    count = len(column)
    if column.null_count == count:
        return repeat(None, count)
    if column.null_count == 0 and pc.all(pc.equal(column, column[0])).as_py():
        return repeat(column[0].as_py(), count)
    values: list[Any] = column.to_pylist()
    return values


class Injection:
    """Turns the rows of one task's partition into parcels.

    Args:
        plan: the layout of the pipeline.
        kept_ids_us: see `inject`.
        batch: number of the micro-batch.
        partition: number of the partition; with the batch's it prefixes the ids given to records that have none.
    """

    def __init__(self, plan: JobPlan, kept_ids_us: dict[str, int], batch: int, partition: int) -> None:
        self._plan = plan
        self._kept_ids_us = kept_ids_us
        self._batch = batch
        self._place = f"{batch}.{partition}"
        self._count = 0
        self._injected: list[Injected] = []
        self._at_us = time.time_ns() // 1_000 if plan.history else 0
        self._specs = dict(plan.pipeline.injectors)
        self._lanes: dict[tuple[str, str], Lane | None] = {}
        self._intervals = [group for name in plan.pipeline.computations for group in plan.groups[name]]
        delayed = {consumer for injector in plan.limits for consumer in plan.pipeline.receivers(injector)}
        self._keeping_ids = [
            group
            for name, spec in plan.pipeline.computations.items()
            if spec.exactly_once or name in delayed
            for group in plan.groups[name]
        ]

    def inject(self, rows: Iterable[tuple[Any, ...]]) -> Post:
        """Inject rows with the columns of `SOURCE_COLUMNS`."""
        post, place, lanes = Post(), self._place, self._lanes
        lanes.clear()  # a lane fills only one post
        for injector, stream, key, value, timestamp, record_id, arrived, horizon in rows:
            if stream is None:
                if injector == CLOCK:
                    for group in self._intervals:
                        parcel = post.to(group)
                        parcel.tick = True
                        if timestamp is not None:
                            parcel.slowest = timestamp
                else:
                    self._pass_horizon(post, injector, horizon)
                continue
            self._count += 1
            name = record_id or f"{injector}/{place}:{self._count}"
            way = (injector, stream)
            if way not in lanes:
                lanes[way] = self._lane(post, injector, stream)
            lane = lanes[way]
            if lane is None or not lane.send(name, key, value, timestamp, arrived):
                came = arrived if arrived is not None else MIN_TIME
                self._send(
                    post, injector, SourceRecord(self._count, stream, key, value, timestamp, came), name
                )
        if self._injected:
            events = exported_injections(self._plan, self._place, self._batch, self._at_us, self._injected)
            post.to(self._plan.groups[OUTSIDE][0]).events.append(events)
            self._injected.clear()
        return post

    def _pass_horizon(self, post: Post, injector: str, horizon: int | None) -> None:
        if horizon is not None:
            for group in self._keeping_ids:
                post.to(group).horizons.append((injector, horizon))

    def _lane(self, post: Post, injector: str, stream: str) -> Lane | None:
        if not has_lane(self._plan, injector, stream):
            return None
        return Lane(self._plan, post, injector, stream, self._kept_ids_us.get(injector))

    def _send(self, post: Post, injector: str, record: SourceRecord, name: str) -> None:
        """Send a record with full checks: if anything is wrong with it, raise an error or write a dead letter."""
        plan = self._plan
        spec = self._specs[injector]
        origin = record.arrived_us
        file: str | None = None
        if record.stream.startswith(UNPARSED):
            _, stream, file = record.stream.split(UNPARSED, 2)
            record = msgspec.structs.replace(record, stream=stream)
        if injector not in plan.timed_by_source and type(record.timestamp) is int:
            origin = record.timestamp + self._kept_ids_us[injector]
        try:
            if file is not None:
                _refuse_unparsed(injector, record, file)
            if type(record.timestamp) is not int and injector not in plan.timed_by_source:
                _refuse_nulls(injector, record)
            productions = productions_of(
                plan.pipeline, injector, spec.all_outputs, record, origin, record_id=name
            )
        except MalformedRecordError as error:
            if not isinstance(spec.on_malformed, DeadLetter):
                where = _place_in(file, record.value) if file else ""
                reason = f"{where}{error.reason} (record {name})"
                raise MalformedRecordError(injector, str(record.stream), record.offset, reason) from error
            stream = spec.on_malformed.stream
            timestamp = record.timestamp if type(record.timestamp) is int else 0
            letter = dead_letter(plan.pipeline, injector, stream, record, timestamp, error)
            productions = productions_of(plan.pipeline, injector, (stream,), letter, origin, record_id=name)
            record = letter
        self._post(post, injector, record, productions)

    def _post(
        self, post: Post, injector: str, record: SourceRecord, productions: tuple[Production, ...]
    ) -> None:
        plan = self._plan
        for production in productions:
            group = plan.group(production.consumer, production.key)
            packed = (
                production.stream, production.record_id, production.key, production.value, production.timestamp,
                production.origin,
            )  # fmt: skip
            if injector in plan.limits and production.consumer != OUTSIDE:
                post.to(group).limited.append((injector, packed))
            else:
                post.to(group).records.append(packed)
        # What may have to wait is recorded when it enters. What goes outside is never slowed down, and holds nothing back.
        low = MIN_TIME
        if injector in plan.limits:
            productions, low = tuple(one for one in productions if one.consumer == OUTSIDE), MAX_TIME
        if plan.history and productions:
            address = (
                f"{injector}/{crc32(self._place.encode()) % plan.pipeline.injectors[injector].processes}"
            )
            self._injected.append(Injected(self._at_us, address, record.offset, low, productions))


def _refuse_unparsed(injector: str, record: SourceRecord, file: str) -> Never:
    reason = f"{file or 'a row'}: Spark's reader cannot parse it with the schema: {shown(record.value)}"
    raise MalformedRecordError(injector, record.stream, record.offset, reason)


def _refuse_nulls(injector: str, record: SourceRecord) -> Never:
    reason = (
        f"timestamp {record.timestamp!r} is not an int of microseconds. If Spark's JSON or CSV reader could not parse a line, it "
        "returned a row of nulls: add '_corrupt_record string' to the schema of the DataFrame, and the line is shown here and "
        "kept in the dead letter"
    )
    raise MalformedRecordError(injector, record.stream, record.offset, reason)


def _place_in(file: str, text: bytes) -> str:
    """Return the number of the first line with this text, to help fix it; empty if the file cannot be read here."""
    try:
        with open_uri(file) as lines:
            for number, line in enumerate(lines, 1):
                if line.rstrip(b"\r\n") == text:
                    return f"line {number} of "
    except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException):
        pass
    return ""
