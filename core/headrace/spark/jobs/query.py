"""The query that runs a pipeline as a job (MillWheel 6.1.3: productions are delivered before they are persisted).

Rules of this file: Spark identifies the sources and the operators of a query by their position. So a pipeline, or its inputs,
that needs others goes on from a new checkpoint (`headrace.spark.jobs.migration`), and any other change from the same one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.time import SECOND
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.job_descriptions import describe
from headrace.spark.hosting.layout import OUTSIDE_GROUPS, JobPlan, limits_of
from headrace.spark.hosting.metrics import is_tally_column
from headrace.spark.hosting.outputs import Outputs, outputs_here, unpacked
from headrace.spark.hosting.parcels import decode_parcel, decode_tally, is_tally
from headrace.spark.hosting.progress_board import Board
from headrace.spark.jobs.attach import Input, Inputs, attached, check_streaming, delay_of, frame_of
from headrace.spark.jobs.deployment_settings import (
    DeploymentSettings,
    Shape,
    check_shape,
    check_switches,
    checkpoint_of,
    last_committed,
    read_shape,
    write_shape,
)
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.heartbeats import Heartbeats, InputWatermark
from headrace.spark.jobs.migration import (
    check_at_rest,
    check_movable,
    is_at_rest,
    migrate,
    needs_migration,
)
from headrace.spark.jobs.running_query import RunningQuery
from headrace.spark.jobs.skipping import with_dead_letters, with_skips
from headrace.spark.runtime.event_time import low_watermark_of
from headrace.spark.runtime.hadoop import Place
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

HERE_BYTES = 32_000_000
"""Choice: size up to which the outputs of a micro-batch pass through the driver, where its only job ends. If they may be larger,
they stay where they were computed, and each sink starts jobs of its own."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A query that was checked, and may start.

    Attributes:
        settings: of the deployment, with its partitions and operators.
        pipeline: what it runs.
        before: the shape of the job so far.
        now: the shape of the job with it.
        plan: its layout.
        begin: starts it, unless its state has to move first.
    """

    settings: DeploymentSettings
    pipeline: Pipeline
    before: Shape | None
    now: Shape
    plan: JobPlan
    begin: Callable[[], RunningQuery]

    @property
    def moves(self) -> bool:
        """Whether the state of the job has to move to a new checkpoint first."""
        return self.before is not None and needs_migration(self.before, self.now)

    def check_movable(self) -> None:
        """Refuse a job whose state has to move and cannot.

        Raises:
            SparkHostError: see `headrace.spark.jobs.migration.check_movable`.
        """
        if self.before is not None and self.moves:
            check_movable(
                self.settings.directory, self.before, self.now, history=self.settings.history is not None
            )

    def migrate(self) -> None:
        """Move the state."""
        assert self.before is not None, "a new job has none"
        migrate(self.settings, self.before, self.now, self.pipeline, self.plan)


class JobQuery:
    """Runs a pipeline as one query."""

    def __init__(self, settings: DeploymentSettings, pipeline: Pipeline, inputs: Inputs) -> None:
        self._settings = settings
        self._inputs = dict(inputs)
        self.pipeline = pipeline
        self._board = Board(settings.directory / "progress.json")
        start = self._checked(settings, pipeline, self._inputs)
        if start.before is not None and start.moves:
            start.check_movable()
            as_before = replace(settings, intervals=start.before.intervals, splits=start.before.splits)
            old = self._checked(as_before, pipeline, self._inputs)
            if old.moves:  # more than the number of intervals changes
                check_at_rest(settings.directory, start.before)
            else:
                self._come_to_rest(as_before, pipeline, self._inputs)
            start = self._migrated(start, self._inputs)
        settings.sinks.warn_of_missing(pipeline)
        self._running = start.begin()

    def _migrated(self, start: _Start, inputs: Inputs) -> _Start:
        """Move the state of a job at rest; return the query that goes on with it."""
        start.migrate()
        self._board = Board(start.settings.directory / "progress.json")
        return self._checked(start.settings, start.pipeline, inputs)

    def _come_to_rest(self, settings: DeploymentSettings, pipeline: Pipeline, inputs: Inputs) -> None:
        """Let a stopped job finish what it has read."""
        ending = self._checked(replace(settings, available_now=True, trigger_us=None), pipeline, inputs)
        assert ending.before is not None, "it was deployed"
        checkpoint = checkpoint_of(settings.directory, ending.before)
        if not is_at_rest(checkpoint):
            ending.begin().await_end()
            assert is_at_rest(checkpoint), "a query ends when it has nothing left to do"

    def _checked(self, settings: DeploymentSettings, pipeline: Pipeline, inputs: Inputs) -> _Start:
        """Check everything that can be checked before a query runs."""
        check_streaming(inputs)
        directory = settings.directory
        before = read_shape(directory)
        settings = settings.placed(before)
        as_run = with_skips(directory, pipeline)
        check_shape(directory, before, pipeline.name)
        check_switches(directory, pipeline)
        settings.sinks.check(pipeline)
        driven, heartbeats = _clock(settings, pipeline), _heartbeats(settings, pipeline, inputs)
        now = _with_wake_up(_shape(pipeline, settings, inputs), before, directory)
        plan = replace(
            _plan(pipeline, settings),
            history=settings.history,
            fused=settings.fused,
            wake_until=now.wake_until,
            batches_before=now.batches_before,
        )
        parcels = attached(
            as_run,
            inputs,
            plan,
            clock=None if driven is None else driven.clock,
            wall_timers=settings.clock_us is not None,
            heartbeats=heartbeats,
        )
        now = msgspec.structs.replace(now, sources=_sources(parcels, pipeline, inputs, now.own_sources or ()))
        sinks = with_dead_letters(directory, settings.sinks)
        senders = 1 if settings.fused else sum(len(plan.groups[name]) for name in pipeline.computations)
        rows = senders * (settings.partitions or OUTSIDE_GROUPS)
        writer = OutputWriter(as_run, sinks, self._board, driven, HERE_BYTES // rows, now.batches_before)

        def begin() -> RunningQuery:
            if before is not None and needs_migration(before, now):
                problem = f"another driver has just given the job in {str(directory)!r} other key intervals, injectors or levels"
                raise SparkHostError(problem, "Stop that driver, and deploy again")
            write_shape(directory, now, pipeline)
            self._clock = driven
            began = None if heartbeats is None else heartbeats.follow
            name, checkpoint = f"{directory}: pipeline", checkpoint_of(directory, now)
            return RunningQuery(name, parcels, writer, checkpoint, settings, began)

        return _Start(settings, pipeline, before, now, plan, begin)

    @property
    def running(self) -> RunningQuery:
        """The query as it runs now."""
        return self._running

    def progress(self) -> tuple[ComputationProgress, ...]:
        """Return the progress of each computation as of the last micro-batch."""
        return self._board.progress(self.pipeline, low_watermark_of(self._running.query.lastProgress))

    def settle(self) -> None:
        """Wait until everything that the sources have has reached the sinks.

        With a clock, wall timers that are set again and again may always cause another micro-batch. So this waits for the inputs
        only: until none of them has new data in a micro-batch planned after the call.
        """
        if self._clock is None:
            self._running.process_all_available()
            return
        self._clock.settle(self._running.await_progress)

    def prepare(
        self, pipeline: Pipeline, inputs: Inputs, sinks: Mapping[str, Sink | TypedSink | None]
    ) -> Callable[[], None]:
        """Check another pipeline, and return the function that restarts the query with it. Until that is called, nothing stops.

        Raises:
            SparkHostError: the state of the job cannot move to what the change needs.
            PipelineError: the two versions are incompatible.
        """
        kept = {name: entry for name, entry in self._inputs.items() if name in pipeline.injectors}
        changed = {**kept, **inputs}
        settings = replace(self._settings, sinks=self._settings.sinks.changed(pipeline, sinks))
        start = self._checked(settings, pipeline, changed)
        start.check_movable()
        settings.sinks.warn_of_missing(pipeline, known=self.pipeline.output_streams)

        def change() -> None:
            self._running.stop()
            ready = start
            if start.moves:
                self._come_to_rest(self._settings, self.pipeline, self._inputs)
                ready = self._migrated(start, changed)
            self._running = ready.begin()
            self.pipeline, self._inputs, self._settings = pipeline, changed, settings

        return change


def _clock(settings: DeploymentSettings, pipeline: Pipeline) -> DrivenClock | None:
    if not _needs_clock(settings, pipeline):
        return None
    return DrivenClock(settings.clock_us or SECOND, pipeline if limits_of(pipeline) else None)


def _heartbeats(settings: DeploymentSettings, pipeline: Pipeline, inputs: Inputs) -> Heartbeats | None:
    watermarks = _input_watermarks(settings, pipeline, inputs)
    is_needed = any(input_.is_driven for input_ in watermarks.values())
    return Heartbeats(watermarks, settings.directory / "inputs.json") if is_needed else None


def _input_watermarks(
    settings: DeploymentSettings, pipeline: Pipeline, inputs: Inputs
) -> dict[str, InputWatermark]:
    watermarks = {}
    for name, spec in pipeline.injectors.items():
        entry = inputs.get(name)
        delay_us = 0 if entry is None else delay_of(entry)
        has_processes = isinstance(entry, Input) and entry.process is not None
        watermarks[name] = InputWatermark(
            delay_us, settings.idle_us.get(name), spec.processes if has_processes else 0
        )
    return watermarks


def _with_wake_up(now: Shape, before: Shape | None, directory: Place) -> Shape:
    """Return a shape that goes on from one before, and has all intervals called unless the same computations consume as before.

    It also has the levels of removed computations, where Spark still keeps their state.
    """
    if before is None:
        return now
    wake_until = before.wake_until
    if before.consumers != now.consumers:
        # The query before may still commit some, and one without input calls nobody.
        wake_until = before.batches_before + last_committed(checkpoint_of(directory, before)) + 10
    return msgspec.structs.replace(
        now,
        wake_until=wake_until,
        levels=before.known_levels() | now.known_levels(),
        checkpoint=before.checkpoint,
        batches_before=before.batches_before,
    )


def _needs_clock(settings: DeploymentSettings, pipeline: Pipeline) -> bool:
    """Return whether a job needs a clock: for wall timers, or to tell the slowest low watermark."""
    return settings.clock_us is not None or bool(limits_of(pipeline))


def _plan(pipeline: Pipeline, settings: DeploymentSettings) -> JobPlan:
    return JobPlan(
        pipeline,
        settings.intervals,
        partitions=settings.partitions,
        limits=limits_of(pipeline),
        splits=settings.splits,
    )


def _shape(pipeline: Pipeline, settings: DeploymentSettings, inputs: Inputs) -> Shape:
    plan = _plan(pipeline, settings)
    heartbeats = [
        _heartbeats_of(name)
        for name, watermark in _input_watermarks(settings, pipeline, inputs).items()
        if watermark.is_driven
    ]
    return Shape(
        pipeline.name,
        settings.intervals,
        list(pipeline.injectors),
        [list(level) for level in plan.levels],
        partitions=settings.partitions,
        fused=settings.fused,
        splits=settings.splits,
        consumers={
            name: sorted({*plan.pipeline.receivers(name), *plan.followers.get(name, ())})
            for name in pipeline.computations
        },
        own_sources=[*([_CLOCK] if _needs_clock(settings, pipeline) else []), *heartbeats],
    )


_CLOCK = "clock"


def _heartbeats_of(injector: str) -> str:
    return f"heartbeats of {injector!r}"


def _sources(
    parcels: DataFrame, pipeline: Pipeline, inputs: Inputs, own_sources: Sequence[str]
) -> list[list[str]]:
    """Return what reads each source of a query, in Spark's order (see `Shape`): several inputs may share one.

    Args:
        parcels: all that the query computes.
        pipeline: the pipeline.
        inputs: its inputs.
        own_sources: the other sources. The clock is the last of them in the plan.
    """
    by_input = {name: _streaming_leaves(frame_of(inputs[name])) for name in pipeline.injectors}
    own = iter(sorted(own_sources, key=_CLOCK.__eq__))
    sources = []
    for source in _streaming_leaves(parcels):
        known = [
            (f"{name}/{at}", leaf) for name, leaves in by_input.items() for at, leaf in enumerate(leaves)
        ]
        # One that is used twice may have been given other ids of its columns.
        users = [name for name, leaf in known if leaf.equals(source)] or [
            name for name, leaf in known if leaf.sameResult(source)
        ]
        sources.append(users or [next(own)])
    return sources


def _streaming_leaves(frame: DataFrame) -> list[Any]:
    """Return the sources in a plan of Spark's, each once, in the order in which a query numbers them."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    sources: list[Any] = []
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in sources):
            sources.append(leaf)
    return sources


@dataclass(frozen=True, slots=True)
class OutputWriter:
    """Passes each stream's rows of a micro-batch to its sink.

    Attributes:
        pipeline: the pipeline that produces the outputs.
        sinks: sinks for its outputs.
        board: takes the tallies.
        clock: takes the tallies too, for the wall timers; ``None``: there is no clock.
        here_bytes: size up to which a parcel passes through this process.
        batches_before: see `JobPlan`.
    """

    pipeline: Pipeline
    sinks: Sinks
    board: Board
    clock: DrivenClock | None
    here_bytes: int
    batches_before: int

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch of a checkpoint."""
        number += self.batches_before
        spark = frame.sparkSession
        describe(spark, self.board.progress(self.pipeline))
        kept = frame.persist()  # compute it once and completely, whatever the sinks do
        try:
            parcel = F.col("parcel")
            is_small = (F.length(parcel) <= self.here_bytes) | is_tally_column(parcel)
            rows = [data for (data,) in kept.select(F.when(is_small, parcel)).collect()]
            tallies = [decode_tally(data) for data in rows if data is not None and is_tally(data)]
            if None in rows:
                self._pass_on_large(kept, number)
            else:
                parcels = [decode_parcel(data) for data in rows if not is_tally(data)]
                self._pass_on(outputs_here(spark, self.pipeline, parcels), number)
            self.board.take(tallies)
            if self.clock is not None:
                self.clock.take(tallies)
        finally:
            kept.unpersist()

    def _pass_on_large(self, kept: DataFrame, number: int) -> None:
        rows = unpacked(kept, self.pipeline, tallies=False).everything.persist()  # Python unpacks them once
        try:
            streams = rows.select("stream").distinct().collect()
            self._pass_on({row["stream"]: Outputs(rows, self.pipeline) for row in streams}, number)
        finally:
            rows.unpersist()

    def _pass_on(self, outputs: Mapping[str | None, Outputs], number: int) -> None:
        for stream in self.sinks.wanted(outputs):
            self.sinks.write(outputs[stream], stream, number)
        if self.sinks.history is not None and None in outputs:
            self.sinks.history(outputs[None].history, number)
