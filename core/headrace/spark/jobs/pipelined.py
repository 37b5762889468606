"""The pipelined layout: the whole pipeline is one query (MillWheel 6.1.3: productions are delivered before they are persisted).

Rules of this file: Spark identifies the state of a query's operators by their position. So a changed pipeline can resume from the
same checkpoint only if its injectors, its number of levels, and the level of each computation ever deployed there are unchanged.
If one operator hosts all levels (`headrace.spark.hosting.fused`), only its injectors have to be.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.time import SECOND
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.job_descriptions import describe
from headrace.spark.hosting.layout import OUTSIDE_GROUPS, JobPlan, Reshard, limits_of
from headrace.spark.hosting.metrics import is_tally_column
from headrace.spark.hosting.outputs import Outputs, outputs_here, unpacked
from headrace.spark.hosting.parcels import decode_parcel, decode_tally, is_tally
from headrace.spark.hosting.progress import Board
from headrace.spark.hosting.resharding import TAKEN, Watch
from headrace.spark.jobs.attach import Input, Inputs, attached, check_streaming, delay_of
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.heartbeats import Heartbeats, Told
from headrace.spark.jobs.job import (
    Settings,
    Shape,
    check_shape,
    check_switches,
    last_committed,
    read_shape,
    write_shape,
)
from headrace.spark.jobs.resharding import (
    carried,
    check_reshardable,
    folder_of,
    forget,
    is_at_rest,
    pending,
    reshard,
    sent_images,
)
from headrace.spark.jobs.running import Running
from headrace.spark.jobs.skipping import with_dead_letters, with_skips
from headrace.spark.runtime.event_time import low_watermark_of
from headrace.spark.runtime.hadoop import Place
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

_QUERY = "pipeline"

HERE_BYTES = 32_000_000
"""Choice: size up to which the outputs of a micro-batch pass through the driver, where its only job ends. If they may be larger,
they stay where they were computed, and each sink starts jobs of its own."""


class PipelinedHost:
    """Runs a pipeline as one query.

    Args:
        settings: settings of the deployment.
        pipeline: the pipeline to run.
        inputs: for each injector, its records.
    """

    def __init__(self, settings: Settings, pipeline: Pipeline, inputs: Inputs) -> None:
        self._settings = settings
        self._inputs = dict(inputs)
        self.pipeline = pipeline
        self._reshard_if_asked()
        self._board = Board(settings.directory / "progress.json")
        begin = self._checked(settings, pipeline, self._inputs)
        settings.sinks.warn_of_missing(pipeline)
        self._running = begin()

    def _reshard_if_asked(self) -> None:
        """Divide the keys anew if the directory has another number of intervals: first let the old ones come to rest."""
        settings, pipeline, before = self._settings, self.pipeline, read_shape(self._settings.directory)
        if before is None or before.layout != "pipelined":
            return
        if (before.intervals, before.splits) == (settings.intervals, settings.splits):
            return
        directory, checkpoint = settings.directory, settings.checkpoint(_QUERY)
        self._board = Board()
        old = replace(settings, intervals=before.intervals, splits=before.splits)
        begin = self._checked(replace(old, available_now=True, trigger_us=None), pipeline, self._inputs)
        check_reshardable(directory, before, pipeline, history=settings.sinks.history is not None)
        if not is_at_rest(checkpoint):
            begin().await_end()
            assert is_at_rest(checkpoint), "a query ends when it has nothing left to do"
        settings = settings.placed(before)
        now = _with_removed(before, _layout(pipeline, settings, self._inputs))
        reshard(settings.spark, directory, {checkpoint: _plan(pipeline, settings)}, now, pipeline)

    def _checked(self, settings: Settings, pipeline: Pipeline, inputs: Inputs) -> Callable[[], Running]:
        """Check everything that can be checked before a query runs, and return the function that starts it."""
        check_streaming(inputs)
        before = read_shape(settings.directory)
        settings = settings.placed(before)
        as_run = with_skips(settings.directory, pipeline)
        change = pending(settings.directory, before)
        layout = _with_wake_up(_layout(pipeline, settings, inputs), before, settings.checkpoint(_QUERY))
        check_shape(settings.directory, before, layout)
        _check_levels(before, layout)
        check_switches(settings.directory, pipeline)
        settings.sinks.check(pipeline, pipeline.output_streams)
        driven, heartbeats = _clock(settings, pipeline), _heartbeats(settings, pipeline, inputs)
        plan = replace(
            _plan(pipeline, settings, change),
            history=settings.history,
            fused=settings.fused,
            wake_until=layout.wake_until,
            sent=sent_images(settings.spark, settings.directory, change),
        )
        parcels = attached(
            as_run,
            inputs,
            plan,
            clock=None if driven is None else driven.clock,
            wall_timers=settings.clock_us is not None,
            heartbeats=heartbeats,
        )
        sinks = with_dead_letters(settings.directory, settings.sinks)
        senders = 1 if settings.fused else sum(len(plan.groups[name]) for name in pipeline.computations)
        rows = senders * (settings.partitions or OUTSIDE_GROUPS)
        watch = Watch(plan, None if change is None else folder_of(settings.directory, change))
        writer = OutputWriter(as_run, sinks, self._board, driven, watch, HERE_BYTES // rows)
        name = f"{settings.directory}: {_QUERY}"

        def begin() -> Running:
            now = carried(before, _with_removed(before, layout), change)
            write_shape(settings.directory, now, pipeline)
            forget(settings.directory, before, change)
            self._clock = driven
            began = None if heartbeats is None else heartbeats.follow
            return Running(name, parcels, writer, settings.checkpoint(_QUERY), settings, began)

        return begin

    def queries(self) -> list[Running]:
        """Return the one query."""
        return [self._running]

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
        self,
        pipeline: Pipeline,
        inputs: Inputs,
        sinks: Mapping[str, Sink | TypedSink | None],
        *,
        from_now: bool,
    ) -> Callable[[], None]:
        """Check another pipeline, and return the function that restarts the query with it. Until that is called, nothing stops.

        Raises:
            SparkHostError: this layout does not support the change.
            PipelineError: the two versions are incompatible.
        """
        if from_now:
            raise SparkHostError(
                "a new computation in the pipelined layout always begins with what is read next",
                "Leave out from_now, or deploy with Layout.STAGED",
            )
        given = {**self._inputs, **inputs}
        settings = replace(self._settings, sinks=self._settings.sinks.changed(pipeline, sinks))
        begin = self._checked(settings, pipeline, given)
        settings.sinks.warn_of_missing(pipeline, known=self.pipeline.output_streams)

        def change() -> None:
            self._running.stop()
            self._running = begin()
            self.pipeline, self._inputs, self._settings = pipeline, given, settings

        return change


def _clock(settings: Settings, pipeline: Pipeline) -> DrivenClock | None:
    if not _needs_clock(settings, pipeline):
        return None
    return DrivenClock(settings.clock_us or SECOND, pipeline if limits_of(pipeline) else None)


def _heartbeats(settings: Settings, pipeline: Pipeline, inputs: Inputs) -> Heartbeats | None:
    told = _told(settings, pipeline, inputs)
    is_needed = any(input_.is_told for input_ in told.values())
    return Heartbeats(told, settings.directory / "inputs.json") if is_needed else None


def _told(settings: Settings, pipeline: Pipeline, inputs: Inputs) -> dict[str, Told]:
    found = {}
    for name, spec in pipeline.injectors.items():
        given = inputs.get(name)
        delay_us = 0 if given is None else delay_of(given)
        has_processes = isinstance(given, Input) and given.process is not None
        found[name] = Told(delay_us, settings.idle_us.get(name), spec.processes if has_processes else 0)
    return found


def _with_wake_up(now: Shape, before: Shape | None, checkpoint: Place) -> Shape:
    """Return a shape that has all intervals called in the next micro-batches, unless the same computations consume as before."""
    if before is None:
        return now
    if before.consumers == now.consumers:
        return msgspec.structs.replace(now, wake_until=before.wake_until)
    # The query before may still commit some, and one without input calls nobody.
    return msgspec.structs.replace(now, wake_until=last_committed(checkpoint) + 10)


def _needs_clock(settings: Settings, pipeline: Pipeline) -> bool:
    """Return whether a job needs a clock: for wall timers, or to tell the slowest low watermark."""
    return settings.clock_us is not None or bool(limits_of(pipeline))


def _plan(pipeline: Pipeline, settings: Settings, change: Reshard | None = None) -> JobPlan:
    return JobPlan(
        pipeline, settings.intervals, partitions=settings.partitions, limits=limits_of(pipeline), reshard=change,
        splits=settings.splits,
    )  # fmt: skip


def _layout(pipeline: Pipeline, settings: Settings, inputs: Inputs) -> Shape:
    plan = _plan(pipeline, settings)
    return Shape(
        "pipelined",
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
        own_sources=[
            *(["clock"] if _needs_clock(settings, pipeline) else []),
            *[
                f"heartbeats of {name!r}"
                for name, told in _told(settings, pipeline, inputs).items()
                if told.is_told
            ],
        ],
    )


def _check_levels(before: Shape | None, now: Shape) -> None:
    if before is None:
        return
    shapes = [(shape.injectors, len(shape.stages)) for shape in (before, now)]
    (old_injectors, old_levels), (injectors, levels) = shapes
    if old_injectors != injectors or (old_levels != levels and not before.fused):
        raise SparkHostError(
            f"the pipeline {now.pipeline!r} had the injectors {old_injectors} and {old_levels} levels, and now has "
            f"{injectors} and {levels}: a query of Spark cannot change these and keep its state",
            "Deploy with Layout.STAGED, which allows it, or start in an empty directory",
        )
    if before.own_sources not in (None, now.own_sources):
        raise SparkHostError(
            f"beside its inputs the job had the sources {before.own_sources}, and would now have {now.own_sources}: the sources "
            "of a query of Spark cannot change",
            "Keep clock_us, idle_us and skew limits where they were, or start in an empty directory",
        )
    if before.fused:
        return  # an operator for all levels stores state by computation
    known = before.known_levels()
    for name, level in now.known_levels().items():
        if known.get(name, level) != level:
            raise SparkHostError(
                f"computation {name!r} is on level {level} of the pipeline {now.pipeline!r}, counted from 0, but its state is "
                f"stored for level {known[name]}, so Spark would not find it",
                f"Keep {name!r} on level {known[name]}, give it a new name to start without state, or deploy with "
                "Layout.STAGED in an empty directory",
            )


def _with_removed(before: Shape | None, now: Shape) -> Shape:
    """Return a shape that also has the levels of removed computations, where Spark still keeps their state."""
    known = {} if before is None else before.known_levels()
    return msgspec.structs.replace(now, levels=known | now.known_levels())


@dataclass(frozen=True, slots=True)
class OutputWriter:
    """Passes each stream's rows of a micro-batch to its sink.

    Attributes:
        pipeline: the pipeline that produces the outputs.
        sinks: sinks for its outputs.
        board: takes the tallies.
        clock: takes the tallies too, for the wall timers; ``None``: there is no clock.
        watch: takes the intervals' names, too.
        here_bytes: size up to which a parcel passes through this process.
    """

    pipeline: Pipeline
    sinks: Sinks
    board: Board
    clock: DrivenClock | None
    watch: Watch
    here_bytes: int

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch."""
        spark = frame.sparkSession
        describe(spark, self.board.progress(self.pipeline))
        kept = frame.persist()  # compute it once and completely, whatever the sinks do
        try:
            parcel = F.col("parcel")
            is_small = (F.length(parcel) <= self.here_bytes) | is_tally_column(parcel)
            found = [data for (data,) in kept.select(F.when(is_small, parcel)).collect()]
            tallies = [decode_tally(data) for data in found if data is not None and is_tally(data)]
            if None in found:
                self._pass_on_large(kept, number)
            else:
                parcels = [decode_parcel(data) for data in found if not is_tally(data)]
                self._pass_on(outputs_here(spark, self.pipeline, parcels), number)
            self.board.take(tallies)
            self.watch.take([tally.group for tally in tallies], number)
            if self.watch.taken:
                spark.sparkContext.setLocalProperty(TAKEN, "yes")
            if self.clock is not None:
                self.clock.take(tallies)
        finally:
            kept.unpersist()

    def _pass_on_large(self, kept: DataFrame, number: int) -> None:
        outputs = unpacked(kept, self.pipeline, tallies=False)
        streams = outputs.everything.select("stream").distinct().collect()
        self._pass_on({row["stream"]: outputs for row in streams}, number)

    def _pass_on(self, outputs: Mapping[str | None, Outputs], number: int) -> None:
        for stream in self.sinks.wanted(outputs):
            self.sinks.write(outputs[stream], stream, number)
        if self.sinks.history is not None and None in outputs:
            self.sinks.history(outputs[None].history, number)
