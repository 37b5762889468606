"""The running staged layout (MillWheel 3, 6.1.2): one query for each injector and each computation.

Rules of this file:

* A stage is restarted only if it has changed itself: its code, its senders or, for an injector with dead letters, its consumers;
  and when percentile watermarks begin to follow it, or no longer do. All others keep running.
* A removed computation first processes what its senders had written at the time of the change. Then it stops. Then its consumers
  process what it wrote, and only then do they forget it. So no input is lost; only its remaining state and timers are.
* Entries of a stage's log that all its consumers have taken and that are older than the retention are dropped.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.specs import DeadLetter
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.job_descriptions import describe
from headrace.spark.hosting.layout import JobPlan, Reshard, followers_of
from headrace.spark.hosting.outputs import Outputs
from headrace.spark.hosting.progress import Board
from headrace.spark.jobs.attach import (
    Inputs,
    check_followed,
    check_inputs,
    check_streaming,
    delay_of,
    level_operator,
    prepared_input,
    sources_of,
)
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.job import (
    Settings,
    Shape,
    check_shape,
    check_switches,
    last_committed,
    read_shape,
    write_shape,
)
from headrace.spark.jobs.log import (
    Entry,
    Fed,
    Log,
    beginnings_of,
    beginnings_path,
    entry_of,
    file_name,
    taken_for_good,
)
from headrace.spark.jobs.log_source import Reading
from headrace.spark.jobs.resharding import (
    carried,
    check_reshardable,
    forget,
    has_taken,
    is_at_rest,
    pending,
    reshard,
)
from headrace.spark.jobs.running import Running
from headrace.spark.jobs.skipping import with_dead_letters, with_skips
from headrace.spark.jobs.stages import (
    computation_plan,
    decode_piece,
    injector_pieces,
    injector_plan,
    logged,
    outlet,
    outputs_of,
    parcels_of,
)
from headrace.spark.runtime.files import replace_file
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

_LOOK_EVERY_S = 0.02
_SHORTEN_EVERY = 32
"""Number of micro-batches of a stage between attempts to shorten its log."""


class StagedHost:
    """Runs a pipeline as a query for each injector and each computation.

    Args:
        settings: settings of the deployment.
        pipeline: the pipeline to run.
        inputs: for each injector, its records.

    Attributes:
        pipeline: the pipeline that runs now.
        board: the latest tallies.
        division: how often the job's keys were divided anew into intervals.
    """

    def __init__(self, settings: Settings, pipeline: Pipeline, inputs: Inputs) -> None:
        assert isinstance(settings.directory, Path), "deploy refuses any other"
        self._settings, self._directory = settings, settings.directory
        self._inputs = dict(inputs)
        self._stages: dict[str, Running] = {}
        self._writers: dict[str, LogWriter] = {}
        self._shortening = threading.Lock()
        self.board = Board()
        self.pipeline = pipeline
        self.division = 0
        self._change: Reshard | None = None
        self._check(pipeline, self._inputs, settings.sinks)
        before = read_shape(settings.directory)
        settings = settings.placed(before)
        self._settings = settings
        if before is not None:
            self._settings = replace(
                settings, intervals=before.intervals, splits=before.splits, trigger_us=None
            )
        check_shape(settings.directory, before, self._layout())
        _check_nobody_left(before, self._layout())
        settings.sinks.warn_of_missing(pipeline)
        self._prepare(pipeline, from_now=False)
        if before is not None and (before.intervals, before.splits) != (settings.intervals, settings.splits):
            self._reshard(before, settings)
        self._settings = settings
        self.board = Board(settings.directory / "progress.json")
        try:
            self._start_missing()
        except BaseException:
            for running in self._stages.values():
                running.stop()
            raise

    def queries(self) -> list[Running]:
        """Return all queries, sources first; after a failed change, those that are left."""
        return [self._stages[name] for name in _order(self.pipeline) if name in self._stages]

    def progress(self) -> tuple[ComputationProgress, ...]:
        """Return the progress of each computation as of its last micro-batch."""
        return self.board.progress(self.pipeline)

    def settle(self) -> None:
        """Wait until everything that the sources have has reached the sinks."""
        for name in self.pipeline.injectors:
            self._stages[name].process_all_available()
        for name in self.pipeline.computations:
            self._await_taken(name, self._written(self.pipeline.senders(name)))

    def prepare(
        self,
        pipeline: Pipeline,
        inputs: Inputs,
        sinks: Mapping[str, Sink | TypedSink | None],
        *,
        from_now: bool,
    ) -> Callable[[], None]:
        """Check another pipeline, and return the function that changes to it. Until that is called, nothing stops.

        For the arguments see `Deployment.change`.
        """
        given = {
            name: frame for name, frame in {**self._inputs, **inputs}.items() if name in pipeline.injectors
        }
        wanted = self._settings.sinks.changed(pipeline, sinks)
        self._check(pipeline, given, wanted)
        before = self.pipeline
        changed = [name for name in _order(before) if not _is_same(name, before, pipeline)]
        changed += [name for name in inputs if name in self._stages and name not in changed]
        giving_out = {name for stream in sinks for name in _producers(before, stream)}
        changed += [name for name in _order(before) if name in giving_out and name not in changed]
        for name in _order(pipeline):
            if name in changed or name not in self._stages:
                self._frame(name, pipeline, given, None)
        wanted.warn_of_missing(pipeline, known=before.output_streams)

        def change() -> None:
            self._retire([name for name in changed if name not in _order(pipeline)])
            for name in changed:
                if name in self._stages:
                    self._stages.pop(name).stop()
            self._settings = replace(self._settings, sinks=wanted)
            with self._shortening:  # drop nothing that a new consumer will read
                self._prepare(pipeline, from_now=from_now)
                self.pipeline, self._inputs = pipeline, given
            self._start_missing()

        return change

    def _check(self, pipeline: Pipeline, inputs: Inputs, sinks: Sinks) -> None:
        pipeline.validate()
        check_inputs(pipeline, inputs)
        check_streaming(inputs)
        check_switches(self._settings.directory, pipeline)
        check_followed(pipeline, inputs, "the staged layout")
        sinks.check(pipeline, pipeline.streams)

    def _layout(self) -> Shape:
        pipeline, settings = self.pipeline, self._settings
        return Shape(
            "staged",
            pipeline.name,
            settings.intervals,
            list(pipeline.injectors),
            [[name] for name in pipeline.computations],
            partitions=settings.partitions,
            splits=settings.splits,
        )

    def _reshard(self, before: Shape, settings: Settings) -> None:
        """Divide the keys anew. First each query finishes what it has begun with the old intervals."""
        directory, pipeline = settings.directory, self.pipeline
        check_reshardable(directory, before, pipeline, history=settings.sinks.history is not None)
        self.division, self._change = before.reshards, pending(directory, before)
        checkpoints = {name: settings.checkpoint(file_name(name)) for name in pipeline.computations}
        for name, checkpoint in checkpoints.items():
            if not is_at_rest(checkpoint) or not has_taken(checkpoint, self.division):
                self._finish(name)
                assert is_at_rest(checkpoint), "nothing new was read"
        self._settings, self._change = settings, None
        queries = {
            checkpoint: self._plan(name, pipeline, self._inputs) for name, checkpoint in checkpoints.items()
        }
        reshard(settings.spark, directory, queries, self._layout(), pipeline)

    def _finish(self, name: str) -> None:
        """Let a computation's query finish the micro-batch that it has begun, and take its images if it has any."""
        pieces, units = self._computation_frame(name, self.pipeline, self._inputs, None, closed=True)
        running = self._start(name, pieces, units, None)
        try:
            running.process_all_available()
        finally:
            running.stop()

    # Starting

    def _prepare(self, pipeline: Pipeline, *, from_now: bool) -> None:
        names = [name for name in _order(pipeline) if name not in self._stages]
        for name in names:
            self._log(name).prepare()
        for name in names:
            if name in pipeline.computations:
                self._note_beginnings(name, pipeline.senders(name), from_now=from_now)

    def _start_missing(self) -> None:
        directory, before = self._settings.directory, read_shape(self._settings.directory)
        self.division, self._change = 0 if before is None else before.reshards, pending(directory, before)
        write_shape(directory, carried(before, self._layout(), self._change), self.pipeline)
        forget(directory, before, self._change)
        for name in [name for name in _order(self.pipeline) if name not in self._stages]:
            clock_us = self._settings.clock_us
            clock = None if clock_us is None or name in self.pipeline.injectors else DrivenClock(clock_us)
            pieces, units = self._frame(name, self.pipeline, self._inputs, clock)
            self._stages[name] = self._start(name, pieces, units, clock)

    def _frame(
        self, name: str, pipeline: Pipeline, inputs: Inputs, clock: DrivenClock | None
    ) -> tuple[DataFrame, tuple[str, ...]]:
        """Return what a stage computes, and the units that report low watermarks. Refuse whatever Spark cannot run."""
        if name not in pipeline.injectors:
            return self._computation_frame(name, pipeline, inputs, clock)
        given, sources = inputs[name], sources_of(inputs)
        plan = injector_plan(pipeline, name, sources, history=self._settings.history)
        pieces = injector_pieces(
            prepared_input(pipeline, name, given), plan, self._log(name), kept_ids_us=sources.kept_ids_us,
            delay_us=delay_of(given),
        )  # fmt: skip
        return pieces, (name,)

    def _computation_frame(
        self,
        name: str,
        pipeline: Pipeline,
        inputs: Inputs,
        clock: DrivenClock | None,
        *,
        closed: bool = False,
    ) -> tuple[DataFrame, tuple[str, ...]]:
        settings, plan, begin = self._settings, self._plan(name, pipeline, inputs), self._beginnings(name)
        reading = Reading(
            directory=str(settings.directory),
            begin={sender: begin.get(sender, -1) for sender in pipeline.senders(name)},
            tasks=settings.spark.sparkContext.defaultParallelism,
            max_records=settings.max_records,
            clock=None if clock is None else clock.clock,
            followed=name in plan.followers,
            division=self.division,
            closed=closed,
        )
        produced = level_operator(parcels_of(settings.spark, reading, plan), plan, 0, streaming=True)
        return logged(produced, plan, self._log(name)), plan.groups[name]

    def _plan(self, name: str, pipeline: Pipeline, inputs: Inputs) -> JobPlan:
        settings = self._settings
        return computation_plan(
            with_skips(settings.directory, pipeline), name, sources_of(inputs), intervals=settings.intervals,
            clock=settings.clock_us is not None, history=settings.history, partitions=settings.partitions,
            splits=settings.splits, reshard=self._change,
        )  # fmt: skip

    def _start(
        self, name: str, pieces: DataFrame, units: tuple[str, ...], clock: DrivenClock | None
    ) -> Running:
        settings = self._settings
        checkpoint = settings.checkpoint(file_name(name))
        log = self._log(name)
        committed = log.entry(last_committed(checkpoint))
        is_followed = name in self.pipeline.computations and name in followers_of(self.pipeline)
        writer = LogWriter(
            self,
            log,
            units,
            Fed(name, self.pipeline.senders(name)) if is_followed else None,
            outlet(with_skips(settings.directory, self.pipeline), name),
            replace(settings, sinks=with_dead_letters(settings.directory, settings.sinks)),
            dict(committed.taken) if committed else {},
            clock,
        )
        self._writers[name] = writer
        return Running(f"{settings.directory}: {name}", pieces, writer, checkpoint, settings)

    def _log(self, name: str) -> Log:
        return Log(self._directory, name)

    # Where a computation began to read its senders' logs. It must be the same whenever Spark asks.

    def _beginnings(self, name: str) -> dict[str, int]:
        return beginnings_of(self._directory, name)

    def _note_beginnings(self, name: str, senders: Iterable[str], *, from_now: bool) -> None:
        noted = self._beginnings(name)
        for sender in senders:
            log = self._log(sender)
            noted.setdefault(sender, log.last() if from_now else log.first() - 1)
        for sender in set(noted) - set(senders):
            # Its log was read to the end before it was removed; if it is added again, reading resumes there.
            noted[sender] = self._log(sender).last()
        replace_file(beginnings_path(self._directory, name), msgspec.json.encode(noted))

    # Waiting

    def _written(self, senders: Iterable[str]) -> dict[str, int]:
        """Return, by sender, the number of the latest entry that has anything for consumers."""
        logs = map(self._log, senders)
        return {log.stage: entry.news for log in logs if (entry := log.entry(log.last())) is not None}

    def _await_taken(self, name: str, upto: Mapping[str, int]) -> None:
        """Wait until a computation has processed its senders' logs up to given entries.

        Raises:
            HeadraceError: its query ended.
        """
        writer, begin = self._writers[name], self._beginnings(name)
        while not all(
            writer.finished.get(sender, begin.get(sender, -1)) >= number for sender, number in upto.items()
        ):
            self._stages[name].check_active()
            time.sleep(_LOOK_EVERY_S)

    def _retire(self, names: list[str]) -> None:
        """Remove stages, sources first: each processes what it was sent, and its consumers process what it sent."""
        before = self.pipeline
        for name in names:
            if name in before.computations:
                self._await_taken(name, self._written(before.senders(name)))
            self._stages.pop(name).stop()
        for name in names:
            for consumer in before.receivers(name):
                if consumer not in names:
                    self._await_taken(consumer, self._written([name]))

    # Shortening logs

    def shorten(self, name: str, retention_us: int) -> None:
        """Drop entries of a log that all its consumers have taken and that are older than the retention, microseconds."""
        log = self._log(name)
        with self._shortening:
            taken = [
                taken_for_good(name, self._log(consumer), self._beginnings(consumer).get(name, -1))
                for consumer in self.pipeline.receivers(name)
            ]
            log.shorten(min(taken, default=log.last()), before_us=time.time_ns() // 1_000 - retention_us)


@dataclass(slots=True)
class LogWriter:
    """Finishes the micro-batches of a stage: writes an entry to its log, then passes what the log has to the sinks.

    Attributes:
        host: the host, which knows the consumers.
        log: log of the stage.
        units: units that report low watermarks: its intervals, or the injector.
        fed: see `entry_of`.
        pipeline: see `outlet`.
        settings: settings of the deployment.
        finished: by sender, the last entry of its log that is fully processed, including the sinks.
        clock: clock of the stage, which takes its tallies; ``None``: it has none.
    """

    host: StagedHost
    log: Log
    units: tuple[str, ...]
    fed: Fed | None
    pipeline: Pipeline
    settings: Settings
    finished: dict[str, int]
    clock: DrivenClock | None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        describe(
            frame.sparkSession,
            [progress for progress in self.host.progress() if progress.name == self.log.stage],
        )
        before = self.log.following(number, query)
        pieces = [decode_piece(row["piece"]) for row in frame.collect()]
        now_us, division = time.time_ns() // 1_000, self.host.division
        entry = entry_of(before, number, query, now_us, pieces, self.units, self.fed, division)
        standing = self.log.append(entry)
        self._give_out(frame, standing)
        tallies = [tally for piece in pieces for tally in piece.tallies]
        self.host.board.take(tallies)
        if self.clock is not None:
            self.clock.take(tallies)
        self.finished = standing.taken
        retention_us = self.settings.retention_us
        if retention_us is not None and number % _SHORTEN_EVERY == 0:
            self.host.shorten(self.log.stage, retention_us)

    def _give_out(self, frame: DataFrame, entry: Entry) -> None:
        sinks = self.settings.sinks
        wanted = sinks.wanted({stream for part in entry.parts for stream in part.records})
        has_events = sinks.history is not None and any(part.events for part in entry.parts)
        if not wanted and not has_events:
            return
        rows = outputs_of(frame.sparkSession, self.log, [part.name for part in entry.parts])
        outputs = Outputs(rows, self.pipeline)
        for stream in wanted:
            sinks.write(outputs, stream, entry.number)
        if has_events and sinks.history is not None:
            sinks.history(outputs.history, entry.number)


def _order(pipeline: Pipeline) -> list[str]:
    """Return the names of all stages, sources first."""
    return [*pipeline.injectors, *pipeline.computations]


def _is_same(name: str, before: Pipeline, after: Pipeline) -> bool:
    """Return whether a stage can keep running when the pipeline changes."""
    return _needed_by(name, before) == _needed_by(name, after)


def _needed_by(name: str, pipeline: Pipeline) -> object:
    """Return all of a pipeline that a stage depends on; ``None``: the pipeline does not have the stage."""
    if name in pipeline.injectors:
        spec = pipeline.injectors[name]
        consumers = pipeline.receivers(name) if isinstance(spec.on_malformed, DeadLetter) else ()
        return spec, [(consumer, dict(pipeline.computations[consumer].inputs)) for consumer in consumers]
    if name not in pipeline.computations:
        return None
    streams = {sender: sorted(pipeline.streams_between(sender, name)) for sender in pipeline.senders(name)}
    return replace(pipeline.computations[name], output_codecs={}), streams, name in followers_of(pipeline)


def _producers(pipeline: Pipeline, stream: str) -> list[str]:
    return [
        name
        for name in _order(pipeline)
        if stream in (pipeline.injectors.get(name) or pipeline.computations[name]).all_outputs
    ]


def _check_nobody_left(before: Shape | None, now: Shape) -> None:
    """Refuse a pipeline that lacks stages of the deployment: they have to be removed while the deployment runs."""
    if before is None:
        return
    gone = sorted({*before.injectors, *before.computations} - {*now.injectors, *now.computations})
    if gone:
        problem = f"the deployment had {gone}, but the pipeline {now.pipeline!r} does not"
        raise SparkHostError(
            problem,
            "Deploy the pipeline unchanged, then remove them with Deployment.remove or Deployment.change",
        )
