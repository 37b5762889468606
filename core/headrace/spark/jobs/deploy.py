"""A pipeline as a running job on Spark, in one of two layouts (MillWheel 3, 6.1.2, 6.1.3).

Rules of this file: both layouts take the same pipeline, inputs and sinks, and produce the same outputs. They differ in what is
durable between two computations, and therefore in latency, in cost, and in what can be changed while the job runs.
"""

import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from headrace.api.codecs import StateCodec
from headrace.api.computation import Computation
from headrace.api.errors import HeadraceError, OptionsError
from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.specs import FailurePolicy, KeyExtractor
from headrace.api.time import HOUR
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample
from headrace.spark.jobs.attach import Input, check_inputs, check_streaming, frame_of
from headrace.spark.jobs.job import Settings
from headrace.spark.jobs.pipelined import PipelinedHost
from headrace.spark.jobs.staged import StagedHost
from headrace.spark.runtime.hadoop import HadoopPath, Place, job_directory
from headrace.spark.runtime.session import has_driver
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

_LOOK_EVERY_S = 0.1


class Layout(enum.Enum):
    """How a pipeline is laid out in Spark's queries."""

    PIPELINED = "pipelined"
    """One query. Productions are delivered in the same micro-batch, before they are persisted (6.1.3)."""
    STAGED = "staged"
    """One query for each injector and each computation, each followed by a durable, exactly-once log (6.1.2): computations can be
    added and removed while the others run, and a slow one does not hold back its siblings."""


class Deployment:
    """A running job, created by `deploy`; used as a context manager it stops at the end.

    Attributes:
        layout: its layout.
    """

    def __init__(self, layout: Layout, host: PipelinedHost | StagedHost) -> None:
        self.layout = layout
        self._host = host
        self._failure: HeadraceError | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that runs now."""
        return self._host.pipeline

    @property
    def errors(self) -> tuple[HeadraceError, ...]:
        """The errors that ended queries: those of user code, of the engine and of sinks, as they were raised.

        If a change of the job failed after it had stopped queries, its error is included.
        """
        found = [running.error() for running in self._host.queries()]
        errors = tuple(error for error in found if error is not None)
        return errors if errors or self._failure is None else (self._failure,)

    def progress(self) -> tuple[ComputationProgress, ...]:
        """Return the progress of each computation as of its last micro-batch, also after `stop`.

        The counts are part of the job's state: they resume where the job resumes, and count each record once.
        """
        return self._host.progress()

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
        self._host.settle()

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until a query ends.

        Args:
            timeout_s: maximum wait, seconds; ``None``: no limit.

        Returns:
            Whether a query ended; ``False``: all still run.

        Raises:
            HeadraceError: a query failed (see `errors`).
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._check()
            if not all(running.is_active for running in self._host.queries()):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """Finish the current micro-batches, and stop. `deploy` with the same directory resumes from there."""
        for running in self._host.queries():
            running.stop()

    def change(
        self,
        pipeline: Pipeline,
        inputs: Mapping[str, Input | DataFrame] | None = None,
        *,
        sinks: Mapping[str, Sink | TypedSink | None] | None = None,
        from_now: bool = False,
    ) -> None:
        """Change to another version of the pipeline (3).

        In the staged layout, unchanged computations keep running, except those whose pending work a percentile watermark begins
        to follow, or no longer does: they are restarted. A removed computation first processes what its senders had
        written when this was called, and its consumers process what it wrote; its remaining state and timers are discarded.
        In the pipelined layout the query is restarted. The new version is checked first: if it is refused, the job runs on
        unchanged.

        Args:
            pipeline: the new version, made from the old one with `Pipeline.copy` and `Pipeline.without`.
            inputs: inputs of injectors that are new or read from another source.
            sinks: sinks of new streams, and new sinks of existing ones; ``None``: the stream has no sink. Other streams keep
                their sinks, and the sinks of removed streams are dropped.
            from_now: new computations begin with what their senders write next. Default: with everything in the logs (see
                ``retention_us`` of `deploy`), so that nothing is left out.

        Raises:
            SparkHostError: this layout does not support the change, or inputs and injectors do not match.
            PipelineError: a computation's ``productions`` or ``exactly_once`` would change; both are fixed for its name.
            QueryStoppedError: the job was stopped.
            HeadraceError: a query failed (see `errors`).

        Warns:
            NoSinkWarning: a new output stream has no sink.
        """
        self._check_active()
        change = self._host.prepare(pipeline, inputs or {}, sinks or {}, from_now=from_now)
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
        from_now: bool = False,
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
        self.change(changed, sinks=sinks, from_now=from_now)

    def remove(self, name: str) -> None:
        """Remove a computation and the sinks of its outputs while the job runs: `Pipeline.without` and `change`.

        Raises:
            The errors of `Pipeline.without` and `change`.
        """
        self.change(self.pipeline.without(name))

    def _check(self) -> None:
        for running in self._host.queries():
            running.check()
        if self._failure is not None:
            raise self._failure

    def _check_active(self) -> None:
        self._check()
        for running in self._host.queries():
            running.check_active()


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
    layout: Layout = Layout.PIPELINED,
    intervals: int = 16,
    clock_us: int | None = None,
    history: Sink | None = None,
    sample: Sample = FULL,
    trigger_us: int | None = None,
    max_records: int = 1_000_000,
    retention_us: int | None = 24 * HOUR,
    available_now: bool = False,
    idle_us: Mapping[str, int] | None = None,
    splits: Mapping[str, Sequence[int]] | None = None,
) -> Deployment:
    """Start a pipeline as a job on Spark, or resume it where it stopped.

    Args:
        pipeline: the pipeline, unchanged from the simulated cluster.
        inputs: for each injector, its records: a streaming DataFrame from `injected`, or an `Input` for any other.
        directory: holds checkpoints and logs, a separate one for each job: a path or a ``file:`` URI on a file system that all
            machines mount. In the pipelined layout also a URI of any store where Spark can keep a checkpoint, such as
            ``hdfs://host/job``.
        sinks: for each output stream, a function of a DataFrame (``key``, ``timestamp``, ``record_id``, ``value``) and the number
            of its micro-batch, such as a `DatabaseSink` or a `FileSink`; wrap it in a `TypedSink` to get the fields of the
            values. ``None`` discards the stream. So does leaving it out, but with a warning. In the staged layout any stream can
            have a sink, even one with consumers.
        layout: the layout. It cannot change later.
        intervals: key intervals of each computation, which bound its parallelism. With another number than before, a job
            first finishes what its inputs have (staged: what its queries have begun), and then divides its keys anew; see
            docs/spark.md.
        clock_us: how often to check for due wall timers, microseconds; ``None``: there are no wall timers. A check costs nothing
            unless a timer is due.
        history: sink for the History events; ``None``: no History.
        sample: keys that the History includes; for what checkers can tell from it, see docs/spark.md.
        trigger_us: time from one micro-batch of a query to the next, microseconds; ``None``: as soon as possible.
        max_records: maximum records that a computation reads from its senders' logs in one micro-batch. Staged only.
        retention_us: minimum time that a log keeps entries that all consumers have read, wall time in microseconds, for
            computations that are added later; ``None``: for ever. Staged only.
        available_now: process what the inputs have now, in as many micro-batches as they ask for, and end:
            `Deployment.await_termination` waits for that. The next `deploy` in the directory resumes there. Pipelined only, and
            without a clock or a trigger.
        idle_us: by injector, the time after which its input no longer holds the low watermark if it brings nothing, wall time in
            microseconds; see docs/spark.md for what happens when it comes back. Pipelined only. The injectors with one cannot
            change later.
        splits: by computation, the numbers of hot key intervals to split in two, in this order; `headrace state` shows how many
            records each has had. The first split moves half of an interval's keys to a new one, number ``intervals``, the second
            to the next. A change divides the keys anew, as one of ``intervals`` does.

    Raises:
        SparkHostError: inputs and injectors do not match, the directory belongs to another job, or the pipeline uses a feature
            that Spark does not support.
        PipelineError: a version deployed there had other ``productions`` or ``exactly_once`` for a computation.
        CheckpointDamagedError: the directory was moved or copied.
        OptionsError: an option is out of its range.

    Warns:
        NoSinkWarning: an output stream has no sink.
    """
    for option, value, least in (
        ("intervals", intervals, 1),
        ("max_records", max_records, 1),
        ("retention_us", retention_us or 0, 0),
    ):
        if value < least:
            raise OptionsError(option, value, f"at least {least}")
    if available_now:
        _check_available_now(layout, clock_us, trigger_us)
    pipeline.validate()
    _check_idle(idle_us or {}, pipeline, layout)
    _check_splits(splits or {}, intervals, pipeline)
    check_inputs(pipeline, inputs)
    check_streaming(inputs)
    spark = frame_of(next(iter(inputs.values()))).sparkSession
    if not has_driver(spark):
        problem = "deploy needs the driver in this process for its sinks and logs, but this is a Spark Connect session"
        remedy = "Use attach and write its outputs with Spark's own sinks, or run the script with headrace spark-submit"
        raise SparkHostError(problem, remedy)
    settings = Settings(
        spark=spark,
        directory=_checked_directory(directory, spark, layout),
        sinks=Sinks(dict(sinks), history),
        intervals=intervals,
        clock_us=clock_us,
        trigger_us=trigger_us,
        max_records=max_records,
        retention_us=retention_us,
        sample=sample,
        available_now=available_now,
        idle_us=dict(idle_us or {}),
        splits={name: tuple(numbers) for name, numbers in (splits or {}).items() if numbers},
    )
    host = PipelinedHost if layout is Layout.PIPELINED else StagedHost
    return Deployment(layout, host(settings, pipeline, inputs))


def _checked_directory(directory: str | Path, spark: SparkSession, layout: Layout) -> Place:
    """Return a job's directory, if its layout can use it."""
    place = job_directory(directory, spark)
    if isinstance(place, HadoopPath) and layout is Layout.STAGED:
        problem = f"in the staged layout Spark's Python workers write the logs, and they cannot reach {str(directory)!r}"
        raise SparkHostError(
            problem,
            "Deploy with Layout.PIPELINED, or give a directory on a file system that all machines mount",
        )
    return place


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


def _check_idle(idle_us: Mapping[str, int], pipeline: Pipeline, layout: Layout) -> None:
    for name, timeout_us in idle_us.items():
        if name not in pipeline.injectors:
            known = ", ".join(map(repr, pipeline.injectors))
            raise OptionsError("idle_us", name, f"an injector of pipeline {pipeline.name!r}: {known}")
        if timeout_us < 1:
            raise OptionsError(f"idle_us[{name!r}]", timeout_us, "at least 1")
    if idle_us and layout is Layout.STAGED:
        problem = "in the staged layout an injector's query knows nothing of the other inputs, so idle_us does not work"
        raise SparkHostError(problem, "Deploy with Layout.PIPELINED, or let the input send heartbeats")


def _check_available_now(layout: Layout, clock_us: int | None, trigger_us: int | None) -> None:
    """Refuse what a job cannot have that ends with its input."""
    if layout is Layout.STAGED:
        problem = "in the staged layout a query cannot tell that its senders have ended, so available_now does not work"
        raise SparkHostError(problem, "Deploy with Layout.PIPELINED, or call await_idle and stop")
    for option, value in (("clock_us", clock_us), ("trigger_us", trigger_us)):
        if value is not None:
            raise OptionsError(
                option, value, "None together with available_now, which runs only while there is input"
            )
