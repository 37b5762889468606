"""Levels of the pipeline as a stateful operator of Spark's (MillWheel 4.1, 7.1).

Rules of this file: parcels for later levels, or for the outside, pass through an operator without touching state.
Choice: Spark passes rows, not pandas frames, since a frame for each interval costs more than the interval itself in a small
micro-batch.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headrace.api.time import MAX_TIME, MILLISECOND
from headrace.spark.hosting.chunks import NEVER, Chunks, MemoryStore
from headrace.spark.hosting.group_task import GroupTask, unbundled
from headrace.spark.hosting.interval_task import run_interval
from headrace.spark.hosting.layout import BatchContext, JobPlan, computation_of
from headrace.spark.hosting.parcels import Parcel, Post, decode_parcel, parcel_rows
from headrace.spark.runtime.event_time import from_spark
from headrace.spark.runtime.failures import noted
from headrace.spark.runtime.garbage_collection import collector_paused


class OperatorProcessor(StatefulProcessor):
    """Hosts the computations of one level, or of all of them.

    Args:
        plan: the layout of the pipeline.
        level: number of the level; 0 if it hosts all.
        seeds: whether the rows are images of intervals, which it takes (see `headrace.spark.jobs.migration`).
    """

    def __init__(self, plan: JobPlan, level: int, *, seeds: bool = False) -> None:
        self._plan, self._seeds = plan, seeds
        self._hosted = plan.hosted(level)
        self._tasks: dict[str, GroupTask] = {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = _SparkState(handle)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803  Spark's name
    ) -> Iterator[Any]:
        """Process the parcels for a group, or take its images; pass on what is for another level."""
        group = str(key[0])
        if group not in self._hosted:
            return rows
        if not self._seeds:
            return self._run(group, rows, timerValues)
        with noted():
            for row in rows:
                self._task(group).take(row["parcel"])
        return iter(())

    def handleExpiredTimer(  # noqa: N802  Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803  Spark's names
    ) -> Iterator[Any]:
        """Process a group whose next timer Spark's watermark has reached, unless its computation was removed."""
        group = str(key[0])
        return self._run(group, (), timerValues) if group in self._hosted else iter(())

    def _run(self, group: str, rows: Iterable[Any], times: TimerValues) -> Iterator[Any]:
        with noted(), collector_paused():
            post = self._process(group, (row["parcel"] for row in rows), times)
        for name, parcel in zip(*post.encoded(), strict=True):
            yield Row(group=name, parcel=parcel)

    def _process(self, group: str, data: Iterable[bytes], times: TimerValues) -> Post:
        plan, watermark_ms = self._plan, times.getCurrentWatermarkInMs()
        self._state.watermark_ms = watermark_ms
        number = plan.batches_before + int(TaskContext.get().getLocalProperty("streaming.sql.batchId") or 0)
        now_us = times.getCurrentProcessingTimeInMs() * MILLISECOND
        batch = BatchContext(number, now_us, from_spark(watermark_ms))
        parcels = unbundled(data) if plan.fused else {group: [decode_parcel(parcel) for parcel in data]}
        return self._task(group).run(batch, parcels)

    def _task(self, group: str) -> GroupTask:
        if group not in self._tasks:
            self._tasks[group] = GroupTask(self._plan, self._state, self._hosted[group])
        return self._tasks[group]


class _SparkState:
    """The state of the group that Spark has set: a `GroupState`."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._values = handle.getMapState("values", "group string, number int", "data binary")
        self.watermark_ms = 0

    def value(self, group: str, number: int) -> bytes | None:
        value = self._values.getValue((group, number))
        return None if value is None else bytes(value[0])

    def set_value(self, group: str, number: int, data: bytes | None) -> None:
        if data is None:
            self._values.removeKey((group, number))
        else:
            self._values.updateValue((group, number), (data,))

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        if (
            before_ms is not None and before_ms > self.watermark_ms
        ):  # Spark removes timers that are already due
            self._handle.deleteTimer(before_ms)
        if at_ms is not None:
            self._handle.registerTimer(at_ms)


def bounded(plan: JobPlan, level: int) -> Callable[[tuple[pa.Scalar], pa.Table], pa.Table]:
    """Return the function that Spark maps the groups of a level with if the input is bounded: all of it, then the end of time."""

    def run(key: tuple[pa.Scalar], rows: pa.Table) -> pa.Table:  # not a partial: Spark counts the arguments
        return _bounded_rows(plan, level, key[0].as_py(), rows["parcel"].to_pylist())

    return run


def _bounded_rows(plan: JobPlan, level: int, group: str, data: Iterable[bytes]) -> pa.Table:
    """Process all parcels for an interval, or pass them on. Uses Arrow, not pandas, because there may be nothing to send."""
    now_us = time.time_ns() // 1_000
    with noted(), collector_paused():
        post = run_bounded(plan, level, group, [decode_parcel(parcel) for parcel in data], now_us)
    return pa.Table.from_batches([parcel_rows(post)])


def run_bounded(plan: JobPlan, level: int, group: str, parcels: Iterable[Parcel], now_us: int) -> Post:
    """Process one interval of bounded input: all records, then the end of time.

    Args:
        plan: the layout of the pipeline.
        level: number of the level.
        group: the interval.
        parcels: all parcels for it.
        now_us: wall time, microseconds. Pending wall timers then fire in order, each at its own time.
    """
    post = Post()
    if computation_of(group) not in plan.levels[level]:
        for parcel in parcels:
            post.to(group).records.extend(parcel.records)
            post.to(group).events.extend(parcel.events)
        return post
    store = MemoryStore()
    post = run_interval(plan, group, BatchContext(0, now_us, MAX_TIME, in_order=True), list(parcels), store)
    while (wall_due := Chunks(store, plan.intervals).dues()[2]) != NEVER:
        post.add(run_interval(plan, group, BatchContext(0, wall_due, MAX_TIME), [], store))
    return post
