"""A pipeline as a running job on Spark (MillWheel 3, 6.1.3)."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame

from headrace.api.codecs import StateCodec
from headrace.api.computation import Computation
from headrace.api.errors import HeadraceError, OptionsError
from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.specs import FailurePolicy, KeyExtractor
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample
from headrace.spark.jobs.attach import Input, check_inputs, check_streaming, frame_of
from headrace.spark.jobs.deployment_settings import DeploymentSettings
from headrace.spark.jobs.query import JobQuery
from headrace.spark.runtime.hadoop import job_directory
from headrace.spark.runtime.spark_session import has_driver
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

_LOOK_EVERY_S = 0.1


class Deployment:
    """A running job, created by `deploy`; used as a context manager it stops at the end."""

    def __init__(self, query: JobQuery) -> None:
        self._query = query
        self._failure: HeadraceError | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that runs now."""
        return self._query.pipeline

    @property
    def errors(self) -> tuple[HeadraceError, ...]:
        """The error that ended the query, if any: of user code, of the engine or of a sink, as it was raised.

        If a change of the job failed after it had stopped the query, it is that error.
        """
        error = self._query.running.error() or self._failure
        return () if error is None else (error,)

    def progress(self) -> tuple[ComputationProgress, ...]:
        """Return the progress of each computation as of its last micro-batch, also after `stop`.

        The counts are part of the job's state: they resume where the job resumes, and count each record once.
        """
        return self._query.progress()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def await_idle(self) -> None:
        """Wait until everything that the sources have now has reached the sinks, except what waits for a wall timer.

        Returns once no input has new data, so an input that never pauses keeps it waiting.

        Raises:
            QueryStoppedError: the job was stopped.
            HeadraceError: a query failed (see `errors`).
        """
        self._check_active()
        self._query.settle()

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the query ends.

        Args:
            timeout_s: maximum wait, seconds; ``None``: no limit.

        Returns:
            Whether it ended; ``False``: it still runs.

        Raises:
            HeadraceError: the query failed (see `errors`).
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._check()
            if not self._query.running.is_active:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """Finish the current micro-batch, and stop. `deploy` with the same directory resumes from there."""
        self._query.running.stop()

    def change(
        self,
        pipeline: Pipeline,
        inputs: Mapping[str, Input | DataFrame] | None = None,
        *,
        sinks: Mapping[str, Sink | TypedSink | None] | None = None,
    ) -> None:
        """Change to another version of the pipeline (3). New computations begin with what is read next.

        The query is restarted. If injectors, levels or sources change, it first finishes what it has read, and then its state
        moves to a new checkpoint; that of computations that the pipeline no longer has is discarded. The new version is checked
        first: if it is refused, the job runs on unchanged.

        Args:
            pipeline: the new version, made from the old one with `Pipeline.copy` and `Pipeline.without`.
            inputs: inputs of injectors that are new or read from another source.
            sinks: sinks of new streams, and new sinks of existing ones; ``None``: the stream has no sink. Other streams keep
                their sinks, and the sinks of removed streams are dropped.

        Raises:
            SparkHostError: inputs and injectors do not match.
            PipelineError: a computation's ``productions`` or ``exactly_once`` would change; both are fixed for its name.
            QueryStoppedError: the job was stopped.
            HeadraceError: the query failed (see `errors`).

        Warns:
            NoSinkWarning: a new output stream has no sink.
        """
        self._check_active()
        change = self._query.prepare(pipeline, inputs or {}, sinks or {})
        try:
            change()
        except BaseException as error:
            self._failure = error if isinstance(error, HeadraceError) else _broken_off(error)
            raise

    def add(
        self,
        computation: Computation,
        *,
        name: str,
        inputs: Mapping[str, KeyExtractor] | Iterable[str],
        outputs: Iterable[str] = (),
        exactly_once: bool = True,
        state_codec: StateCodec | None = None,
        migrate: Iterable[Callable[[Any], Any]] = (),
        on_failure: FailurePolicy | None = None,
        sinks: Mapping[str, Sink | TypedSink | None] | None = None,
    ) -> None:
        """Add a computation while the job runs: `Pipeline.add` and `change`, with the arguments of both.

        Raises:
            The errors of `Pipeline.add` and `change`.
        """
        changed = self.pipeline.copy()
        changed.add(
            computation, name=name, inputs=inputs, outputs=outputs, exactly_once=exactly_once, state_codec=state_codec,
            migrate=migrate, on_failure=on_failure,
        )  # fmt: skip
        self.change(changed, sinks=sinks)

    def remove(self, name: str) -> None:
        """Remove a computation and the sinks of its outputs while the job runs: `Pipeline.without` and `change`.

        Raises:
            The errors of `Pipeline.without` and `change`.
        """
        self.change(self.pipeline.without(name))

    def _check(self) -> None:
        self._query.running.check()
        if self._failure is not None:
            raise self._failure

    def _check_active(self) -> None:
        self._check()
        self._query.running.check_active()


def _broken_off(error: BaseException) -> SparkHostError:
    reason = str(error).partition("\n")[0]
    problem = f"a change of the job was interrupted by {type(error).__name__}" + (reason and f": {reason}")
    return SparkHostError(problem, "Stop the job, and deploy the pipeline in the same directory to resume")


def deploy(
    pipeline: Pipeline,
    inputs: Mapping[str, Input | DataFrame],
    *,
    directory: str | Path,
    sinks: Mapping[str, Sink | TypedSink | None],
    intervals: int = 16,
    clock_us: int | None = None,
    history: Sink | None = None,
    sample: Sample = FULL,
    trigger_us: int | None = None,
    available_now: bool = False,
    idle_us: Mapping[str, int] | None = None,
    splits: Mapping[str, Sequence[int]] | None = None,
) -> Deployment:
    """Start a pipeline as a job on Spark, or resume it where it stopped.

    Args:
        pipeline: the pipeline, unchanged from the simulated cluster.
        inputs: for each injector, its records: a streaming DataFrame from `injected`, or an `Input` for any other.
        directory: holds the checkpoint and what else the job keeps, a separate one for each job: a path or a ``file:`` URI on a
            file system that all machines mount, or a URI of any store where Spark can keep a checkpoint, such as
            ``hdfs://host/job``.
        sinks: for each output stream, a function of a DataFrame (``key``, ``timestamp``, ``record_id``, ``value``) and the number
            of its micro-batch, such as a `TableSink` or a `FileSink`; wrap it in a `TypedSink` to get the fields of the
            values. ``None`` discards the stream. So does leaving it out, but with a warning.
        intervals: key intervals of each computation, which bound its parallelism. With another number than before, a job
            first finishes what its inputs have, and then divides its keys anew; see docs/spark.md.
        clock_us: how often to check for due wall timers, microseconds; ``None``: there are no wall timers. A check costs nothing
            unless a timer is due.
        history: sink for the History events; ``None``: no History.
        sample: keys that the History includes; for what checkers can tell from it, see docs/spark.md.
        trigger_us: time from one micro-batch of a query to the next, microseconds; ``None``: as soon as possible.
        available_now: process what the inputs have now, in as many micro-batches as they ask for, and end:
            `Deployment.await_termination` waits for that. The next `deploy` in the directory resumes there. Without a clock or
            a trigger.
        idle_us: by injector, the time after which its input no longer holds the low watermark if it brings nothing, wall time in
            microseconds; see docs/spark.md for what happens when it comes back.
        splits: by computation, the numbers of hot key intervals to split in two, in this order; `headrace job state` shows how
            many records each has had. The first split moves half of an interval's keys to a new one, number ``intervals``, the
            second to the next. A change divides the keys anew, as one of ``intervals`` does.

    Raises:
        SparkHostError: inputs and injectors do not match, the directory belongs to another job, or the pipeline uses a feature
            that Spark does not support.
        PipelineError: a version deployed there had other ``productions`` or ``exactly_once`` for a computation.
        CheckpointDamagedError: the directory was moved or copied.
        OptionsError: an option is out of its range.

    Warns:
        NoSinkWarning: an output stream has no sink.
    """
    if intervals < 1:
        raise OptionsError("intervals", intervals, "at least 1")
    if available_now:
        _check_available_now(clock_us, trigger_us)
    pipeline.validate()
    _check_idle(idle_us or {}, pipeline)
    _check_splits(splits or {}, intervals, pipeline)
    check_inputs(pipeline, inputs)
    check_streaming(inputs)
    spark = frame_of(next(iter(inputs.values()))).sparkSession
    if not has_driver(spark):
        problem = "deploy needs the driver in this process for its sinks, but this is a Spark Connect session"
        remedy = "Use attach and write its outputs with Spark's own sinks, or run the script with headrace job submit"
        raise SparkHostError(problem, remedy)
    settings = DeploymentSettings(
        spark=spark,
        directory=job_directory(directory, spark),
        sinks=Sinks(dict(sinks), history),
        intervals=intervals,
        clock_us=clock_us,
        trigger_us=trigger_us,
        sample=sample,
        available_now=available_now,
        idle_us=dict(idle_us or {}),
        splits={name: tuple(numbers) for name, numbers in (splits or {}).items() if numbers},
    )
    return Deployment(JobQuery(settings, pipeline, inputs))


def _check_splits(splits: Mapping[str, Sequence[int]], intervals: int, pipeline: Pipeline) -> None:
    for name, numbers in splits.items():
        if name not in pipeline.computations:
            known = ", ".join(map(repr, pipeline.computations))
            raise OptionsError("splits", name, f"a computation of pipeline {pipeline.name!r}: {known}")
        if isinstance(numbers, (int, str)):
            raise OptionsError(f"splits[{name!r}]", numbers, f"a list of intervals, such as [{numbers}]")
        for there, number in enumerate(numbers, intervals):
            if type(number) is not int or not 0 <= number < there:
                raise OptionsError(f"splits[{name!r}]", number, f"one of the {there} intervals, from 0")


def _check_idle(idle_us: Mapping[str, int], pipeline: Pipeline) -> None:
    for name, timeout_us in idle_us.items():
        if name not in pipeline.injectors:
            known = ", ".join(map(repr, pipeline.injectors))
            raise OptionsError("idle_us", name, f"an injector of pipeline {pipeline.name!r}: {known}")
        if timeout_us < 1:
            raise OptionsError(f"idle_us[{name!r}]", timeout_us, "at least 1")


def _check_available_now(clock_us: int | None, trigger_us: int | None) -> None:
    """Refuse what a job cannot have that ends with its input."""
    for option, value in (("clock_us", clock_us), ("trigger_us", trigger_us)):
        if value is not None:
            raise OptionsError(
                option, value, "None together with available_now, which runs only while there is input"
            )
