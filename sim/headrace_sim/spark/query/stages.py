"""The steps of a job, ready to run: how each transforms rows, its event time, and the effective watermark."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.values import InputRows, OutputRows
from headrace_sim.spark.job import (
    ApplyWithState,
    Columns,
    MapInPandas,
    SparkJob,
    SparkJobError,
    TimeMode,
    TransformWithState,
    Union,
    Watermark,
    WatermarkPolicy,
    watermarks_of,
)
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.state.group_states import GroupOperator
from headrace_sim.spark.state.tasks import Operator

Stateful = Operator | GroupOperator
Narrow = Callable[[list[tuple[Any, ...]], int | None], list[tuple[Any, ...]]]
"""Transforms a partition, given the maximum number of rows per frame."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A watermark: its number in the job, and its source."""

    number: int
    time_ms: Callable[[tuple[Any, ...]], int | None]
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Stream:
    """One of several streams: the input column with its rows, and its steps."""

    column: int
    work: tuple[Delay | Narrow, ...]


class Streams(tuple[Stream, ...]):
    """The streams of a union."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage, ready to run: its work, its output schema, and how it reads event time from its input, if it does."""

    work: Stateful | Delay | Streams | Narrow
    output: t.StructType
    event_time: Callable[[tuple[Any, ...]], int | None] | None = None


def planned(job: SparkJob) -> list[Stage]:
    """Return the steps of a job, each with the event time that reaches it.

    Raises:
        SparkJobError: If Spark would refuse one of them.
    """
    stages: list[Stage] = []
    column, schema = "", job.input
    numbers = count()
    for place, step in enumerate(job.steps):
        if isinstance(step, Watermark) and job.stateful and any(watermarks_of(job.steps[:place])):
            problem = "Redefining watermark is disallowed (AnalysisException, once it has advanced)"
            raise SparkJobError(problem, shown_place(step.place), "Call withWatermark() once for each stream")
        made = _made(step, column, schema, numbers)
        if isinstance(step, Watermark):
            column = step.column
        elif isinstance(step, Union):  # Spark takes it from the first stream
            column = next(
                (watermark.column for watermark in watermarks_of(reversed(step.branches[0].steps))), ""
            )
        elif isinstance(step, TransformWithState | ApplyWithState):
            if isinstance(step, ApplyWithState) and step.time_mode is TimeMode.EVENT_TIME and not column:
                problem = "timeout EventTime without a watermark"
                raise SparkJobError(problem, shown_place(step.place), "Call withWatermark() before groupBy()")
            column = step.event_time if isinstance(step, TransformWithState) else ""
        stages.append(made)
        schema = made.output
    return stages


def _made(step: Any, column: str, schema: t.StructType, numbers: Iterator[int]) -> Stage:
    if isinstance(step, Watermark):
        time_ms = event_time(step.column, schema, step.place)
        return Stage(Delay(next(numbers), time_ms, step.delay_us // 1000), schema)
    if isinstance(step, Union):
        return Stage(_streams(step, schema, numbers), step.output)
    if isinstance(step, TransformWithState):
        read = event_time(column, schema, step.place) if column in schema.names else None
        return Stage(Operator(step, schema), step.output, read)
    if isinstance(step, Columns):
        return Stage(_per_row(step, schema), step.output)
    if isinstance(step, MapInPandas):
        return Stage(_map_in_pandas(step, schema), step.output)
    timed = step.time_mode is TimeMode.EVENT_TIME and column in schema.names
    read = event_time(column, schema, step.place) if timed else None
    return Stage(GroupOperator(step, schema, watermarked=bool(column)), step.output, read)


def _streams(union: Union, given: t.StructType, numbers: Iterator[int]) -> Streams:
    streams = []
    for branch in union.branches:
        column = given.names.index(branch.source)
        schema, work = given.fields[column].dataType, []
        assert isinstance(schema, t.StructType)
        for step in branch.steps:
            made = _made(step, "", schema, numbers)
            work.append(made.work)
            schema = made.output
        streams.append(Stream(column, tuple(work)))  # type: ignore[arg-type]  # a branch keeps no state
    return Streams(streams)


def _per_row(step: Columns, schema: t.StructType) -> Narrow:
    def work(rows: list[tuple[Any, ...]], _: int | None) -> list[tuple[Any, ...]]:
        return step.compute(Rows(schema, [tuple(rows)])).all()

    return work


def _map_in_pandas(step: MapInPandas, schema: t.StructType) -> Narrow:
    read, out = InputRows(schema), OutputRows(step.output)

    def work(rows: list[tuple[Any, ...]], frame_rows: int | None) -> list[tuple[Any, ...]]:
        return out.from_frames(step.function(read.frames(rows, frame_rows)))

    return work


def event_time(column: str, schema: t.StructType, place: str) -> Callable[[tuple[Any, ...]], int | None]:
    """Return the function that reads a row's event time, ms since the epoch.

    Args:
        column: That has it.
        schema: Of the row.
        place: Of the user's code, for an error.

    Raises:
        SparkJobError: If there is no such column, or it has no times.
    """
    if column not in schema.names:
        problem = f"no column {column!r} among {', '.join(schema.names)} (UNRESOLVED_COLUMN)"
        raise SparkJobError(problem, shown_place(place), "Name a TIMESTAMP column")
    number = schema.names.index(column)
    kind = schema.fields[number].dataType
    if not isinstance(kind, (t.TimestampType, t.TimestampNTZType)):
        problem = f"the event-time column {column!r} is of type {kind.simpleString()}"
        remedy = "Spark takes event time from a TIMESTAMP column only (EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE)"
        raise SparkJobError(problem, shown_place(place), remedy)

    def time_ms(row: tuple[Any, ...]) -> int | None:
        value = row[number]
        return None if value is None else kind.toInternal(value) // 1000

    return time_ms


class Watermarks:
    """The watermarks of a job, in ms. A new driver knows only the effective one, until a stream has rows again."""

    def __init__(self, job: SparkJob) -> None:
        self._of_all = [0 for _ in watermarks_of(job.steps)]
        self._known = [*self._of_all]
        self._chosen = max if job.policy is WatermarkPolicy.MAX else min

    def after(self, observed: dict[int, int]) -> int:
        """Return the one that counts after a batch. ``observed``: what its rows ask for, by the watermark's number."""
        for number, watermark_ms in observed.items():
            for held in (self._known, self._of_all):
                held[number] = max(held[number], watermark_ms)
        return self._chosen(self._known, default=0)

    def forget(self) -> None:
        """Continue as a new driver."""
        self._known = [0] * len(self._known)

    def of_streams(self) -> list[int]:
        """Return the one of each stream."""
        return [*self._of_all]

    def settled(self) -> int:
        """Return the one that counts once each stream has gone on where it was."""
        return self._chosen(self._of_all, default=0)
