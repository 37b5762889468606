"""The steps of a job, ready to run: how each transforms rows, its event time, and the effective watermark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, assert_never

from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import EVENT_TIME
from headrace_sim.spark.columns.draws import batch_of_draws, new_batch
from headrace_sim.spark.columns.frames import Rows, relabeled
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.values import InputRows, OutputRows
from headrace_sim.spark.query.operators import (
    Aggregation,
    Deduplication,
    Limitation,
    SessionWindows,
    is_session,
)
from headrace_sim.spark.query.stream_joins import Joining, conjuncts, places_in
from headrace_sim.spark.spark_job import (
    Aggregate,
    ApplyWithState,
    Columns,
    Deduplicate,
    Limit,
    MapInPandas,
    OutputMode,
    SparkJob,
    SparkJobError,
    SparksOwn,
    Step,
    StreamBranch,
    StreamJoin,
    TimeMode,
    TransformWithState,
    Union,
    UsersOwn,
    WatermarkPolicy,
    WatermarkStep,
    watermarks_of,
)
from headrace_sim.spark.state.group_states import GroupOperator
from headrace_sim.spark.state.tasks import Operator

Native = Aggregation | SessionWindows | Deduplication | Limitation | Joining
"""Spark's own operators."""
Stateful = Operator | GroupOperator | Native
Narrow = Callable[[list[tuple[Any, ...]], int | None], list[tuple[Any, ...]]]
"""Transforms a partition, given the maximum number of rows per frame."""


@dataclass(frozen=True, slots=True)
class WatermarkStage:
    """A watermark: its number in the job, its source, and the filters behind it that Spark moves before it."""

    number: int
    time_ms: Callable[[tuple[Any, ...]], int | None]
    delay_ms: int
    filters: tuple[Narrow, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamStages:
    """One of several streams: the input column with its rows (None: the whole input), and its stages."""

    column: int | None
    stages: "tuple[QueryStage, ...]"


class Streams(tuple[StreamStages, ...]):
    """The streams of a union."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class QueryStage:
    """A stage, ready to run."""

    work: Stateful | WatermarkStage | Streams | Narrow  # what it does
    output: t.StructType  # its output schema
    # how it reads event time from its input, in ms, if it does
    event_time: Callable[[tuple[Any, ...]], int | None] | None = None
    # of its state among that of the job: its place among the steps; within a join, one behind them all
    place: int = -1
    lag_ms: int = 0  # by how much its watermark is behind the job's
    streams: tuple[StreamStages, ...] = ()  # those that a join brings together


def stateful_in(stages: Iterable[QueryStage]) -> Iterator[QueryStage]:
    """Yield the stages that keep state, also those within unions and joins."""
    for stage in stages:
        for stream in stage.work if isinstance(stage.work, Streams) else stage.streams:
            yield from stateful_in(stream.stages)
        if isinstance(stage.work, Stateful):
            yield stage


def planned(job: SparkJob) -> list[QueryStage]:
    """Return the steps of a job, each with the event time that reaches it.

    Raise `SparkJobError` if Spark would refuse one of them.
    """
    _expect_supported(job)
    return _Planner(job).stages(job.steps, _Reached(job.input), is_top=True)[0]


def _expect_supported(job: SparkJob) -> None:
    """Expect operators that Spark allows in the output mode."""
    own = [step for step in job.stateful if isinstance(step, SparksOwn)]
    aggregates = [step for step in own if isinstance(step, Aggregate)]
    for step in own:
        if step.output_mode is OutputMode.COMPLETE and not aggregates:
            problem = "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] output mode complete without a streaming aggregation"
            raise SparkJobError(problem, step.place, "Choose outputMode('append')")
        if isinstance(step, Limit) and step.output_mode is OutputMode.UPDATE:
            problem = "Limits are not supported on streaming DataFrames/Datasets in Update output mode (AnalysisException)"
            raise SparkJobError(problem, step.place, "Choose outputMode('append')")
    complete = False
    for part in job.steps:
        complete |= isinstance(part, Aggregate) and part.output_mode is OutputMode.COMPLETE
        if isinstance(part, Columns) and part.call == "sort" and not complete:
            problem = (
                "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset in "
                "Complete output mode (AnalysisException)"
            )
            raise SparkJobError(problem, part.place, "Sort the rows of a batch in foreachBatch()")
    for step in aggregates:
        if step.output_mode is not OutputMode.APPEND and job.stateful[-1] is not step:
            problem = (
                "Detected pattern of possible 'correctness' issue due to global watermark: a stateful operator follows an "
                f"aggregate in output mode {step.output_mode.value} (AnalysisException)"
            )
            raise SparkJobError(problem, step.place, "Choose outputMode('append')")


@dataclass(frozen=True, slots=True)
class _Reached:
    """What reaches a step."""

    schema: t.StructType  # of the rows; its metadata say which columns have the event time
    column: str = ""  # the name of the column that had it last, for the user's own operators
    lag_ms: int = 0  # by how much the watermark is behind the job's


class _Planner:
    def __init__(self, job: SparkJob) -> None:
        self._job = job
        self._numbers, self._inner = count(), count(len(job.steps))

    def stages(
        self, steps: Sequence[Step], reached: _Reached, *, is_top: bool, joined: Sequence[Recorded] = ()
    ) -> tuple[list[QueryStage], _Reached]:
        """Return stages, and what comes out of them.

        ``steps``: what is planned. ``reached``: what they begin with. ``is_top``: whether they are the job's own steps.
        ``joined``: the filters of a join behind them.
        """
        stages: list[QueryStage] = []
        for number, step in enumerate(steps):
            if isinstance(step, WatermarkStep) and self._job.stateful and any(watermarks_of(steps[:number])):
                problem = "Redefining watermark is disallowed (AnalysisException, once it has advanced)"
                raise SparkJobError(problem, step.place, "Call withWatermark() once for each stream")
            schema = reached.schema
            stage, reached = self._stage(step, reached)
            if isinstance(stage.work, WatermarkStage) and isinstance(step, WatermarkStep):
                filters = self._moved(steps[number + 1 :], schema, step, joined)
                stage = replace(stage, work=replace(stage.work, filters=filters))
            if isinstance(stage.work, Stateful):
                stage = replace(stage, place=number if is_top else next(self._inner))
            stages.append(stage)
        return stages, reached

    def _moved(
        self,
        behind: Sequence[Step],
        schema: t.StructType,
        watermark: WatermarkStep,
        joined: Sequence[Recorded],
    ) -> tuple[Narrow, ...]:
        """Return the filters behind a watermark that do not look at its column: Spark filters first.

        ``joined``: the filters of a join behind them all.
        """
        filters = list[Narrow]()
        for step in behind:
            if not isinstance(step, Columns) or step.call not in {"filter", "alias"}:
                return tuple(filters)
            for node in step.nodes if step.call == "filter" else ():
                filters += self._filters(node, schema, watermark)
            schema = step.output
        return (*filters, *(narrow for node in joined for narrow in self._filters(node, schema, watermark)))

    def _filters(self, whole: Recorded, schema: t.StructType, watermark: WatermarkStep) -> Iterator[Narrow]:
        for node in conjuncts(whole):
            if watermark.column not in {schema.names[place] for place in places_in(node, schema)}:
                step = Columns("filter", partial(_filtered, node), schema)
                yield _per_row(step, schema)

    def _stage(self, step: Step, reached: _Reached) -> tuple[QueryStage, _Reached]:
        schema, column = reached.schema, reached.column
        match step:
            case WatermarkStep():
                return self._watermark(step, reached)
            case Columns():
                stage = QueryStage(_per_row(step, schema), step.output)
                marked = step.compute(Rows(schema, [])).schema
                kept = marked if marked.names == step.output.names else step.output
                return stage, replace(reached, schema=kept)
            case MapInPandas():
                return QueryStage(_map_in_pandas(step, schema), step.output), replace(
                    reached, schema=step.output
                )
            case Union():
                streams = [self._stream(branch, reached) for branch in step.branches]
                first = streams[0][1]  # Spark takes the event time from it
                marks = [field.metadata for field in first.schema.fields]
                marked = relabeled(step.output, step.output.names, marks)
                lag_ms = max(end.lag_ms for _, end in streams)
                stage = QueryStage(Streams(stream for stream, _ in streams), step.output)
                return stage, replace(first, schema=marked, lag_ms=lag_ms)
            case StreamJoin():
                # What branches end with, without counting their watermarks and their state.
                ends = [_Planner(self._job)._stream(branch, reached)[1].schema for branch in step.branches]
                joining = Joining(step, *ends)
                (left, mine), (right, its) = (
                    self._stream(branch, reached, joining.pushed(side))
                    for side, branch in enumerate(step.branches)
                )
                lag_ms = max(mine.lag_ms, its.lag_ms)
                stage = QueryStage(joining, step.output, lag_ms=lag_ms, streams=(left, right))
                return stage, _Reached(joining.output, mine.column, lag_ms + joining.lag_ms())
            case TransformWithState() | ApplyWithState():
                stage = replace(self._users(step, schema, column), lag_ms=reached.lag_ms)
                column = step.event_time if isinstance(step, TransformWithState) else ""
                return stage, replace(reached, schema=step.output, column=column)
            case Aggregate() | Deduplicate() | Limit():
                own = _own(step, schema)
                timed = next((field.name for field in own.output if EVENT_TIME in (field.metadata or {})), "")
                stage = QueryStage(own, step.output, lag_ms=reached.lag_ms)
                return stage, replace(reached, schema=own.output, column=timed)
            case _:
                assert_never(step)

    def _watermark(self, step: WatermarkStep, reached: _Reached) -> tuple[QueryStage, _Reached]:
        schema = reached.schema
        delay = WatermarkStage(
            next(self._numbers), event_time(step.column, schema, step.place), step.delay_us // 1000
        )
        delayed = {EVENT_TIME: step.delay_us}
        marks = [(old.metadata or {}) | (delayed if old.name == step.column else {}) for old in schema.fields]
        marked = relabeled(schema, schema.names, marks)
        return QueryStage(delay, step.output), replace(reached, schema=marked, column=step.column)

    def _stream(
        self, branch: StreamBranch, reached: _Reached, joined: Sequence[Recorded] = ()
    ) -> tuple[StreamStages, _Reached]:
        if not branch.source:
            stages, end = self.stages(branch.steps, reached, is_top=False, joined=joined)
            return StreamStages(None, tuple(stages)), end
        column = reached.schema.names.index(branch.source)
        schema = reached.schema.fields[column].dataType
        assert isinstance(schema, t.StructType)
        stages, end = self.stages(branch.steps, _Reached(schema), is_top=False, joined=joined)
        return StreamStages(column, tuple(stages)), end

    @staticmethod
    def _users(step: UsersOwn, schema: t.StructType, column: str) -> QueryStage:
        if isinstance(step, TransformWithState):
            read = event_time(column, schema, step.place) if column in schema.names else None
            return QueryStage(Operator(step, schema), step.output, read)
        if step.time_mode is TimeMode.EVENT_TIME and not column:
            problem = "timeout EventTime without a watermark"
            raise SparkJobError(problem, step.place, "Call withWatermark() before groupBy()")
        timed = step.time_mode is TimeMode.EVENT_TIME and column in schema.names
        read = event_time(column, schema, step.place) if timed else None
        return QueryStage(GroupOperator(step, schema, watermarked=bool(column)), step.output, read)


def _own(step: Aggregate | Deduplicate | Limit, schema: t.StructType) -> Native:
    match step:
        case Aggregate():
            return (SessionWindows if any(map(is_session, step.groups)) else Aggregation)(step, schema)
        case Deduplicate():
            return Deduplication(step, schema)
        case Limit():
            return Limitation(step, schema)


def _filtered(node: Recorded, rows: Any) -> Any:
    return rows.filter(node)


def _per_row(step: Columns, schema: t.StructType) -> Narrow:
    def work(rows: list[tuple[Any, ...]], _: int | None) -> list[tuple[Any, ...]]:
        with batch_of_draws(new_batch()):
            return step.compute(Rows(schema, [tuple(rows)])).all()

    return work


def _map_in_pandas(step: MapInPandas, schema: t.StructType) -> Narrow:
    read, out = InputRows(schema), OutputRows(step.output)

    def work(rows: list[tuple[Any, ...]], frame_rows: int | None) -> list[tuple[Any, ...]]:
        return out.from_frames(step.function(read.frames(rows, frame_rows)))

    return work


def event_time(column: str, schema: t.StructType, place: str) -> Callable[[tuple[Any, ...]], int | None]:
    """Return the function that reads a row's event time, ms since the epoch.

    ``column``: that has it. ``schema``: of the row. Raise `SparkJobError` if there is no such column, or it has no times.
    """
    if column not in schema.names:
        problem = f"no column {column!r} among {', '.join(schema.names)} (UNRESOLVED_COLUMN)"
        raise SparkJobError(problem, place, "Name a TIMESTAMP column")
    number = schema.names.index(column)
    kind = schema.fields[number].dataType
    if not isinstance(kind, (t.TimestampType, t.TimestampNTZType)):
        problem = f"the event-time column {column!r} is of type {kind.simpleString()}"
        remedy = "Spark takes event time from a TIMESTAMP column only (EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE)"
        raise SparkJobError(problem, place, remedy)

    def time_ms(row: tuple[Any, ...]) -> int | None:
        value = row[number]
        return None if value is None else kind.toInternal(value) // 1000

    return time_ms


class JobWatermarks:
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
