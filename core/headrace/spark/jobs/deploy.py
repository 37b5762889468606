"""A pipeline as a running job on Spark, in one of two layouts (MillWheel 3, 6.1.2, 6.1.3).

Rules of this file: both layouts take the same pipeline, inputs and sinks, and give the same outputs. They differ in what is
durable between two computations, and so in latency, in cost, and in what can be changed while the job runs.
"""

import enum
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, Self

from pyspark.sql import DataFrame

from headrace.api.codecs import Codec
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
from headrace.spark.jobs.running import Running
from headrace.spark.jobs.staged import StagedHost
from headrace.spark.runtime.files import local_directory
from headrace.spark.runtime.session import has_driver
from headrace.spark.sinks.job_sinks import Sink, Sinks, TypedSink

_LOOK_EVERY_S = 0.1


class Layout(enum.Enum):
    """How a pipeline is laid out in Spark's queries."""

    PIPELINED = "pipelined"
    """One query. What a computation produces is delivered in the same micro-batch, before it is persisted (6.1.3)."""
    STAGED = "staged"
    """One query for each injector and each computation, and a durable, exactly-once log behind each (6.1.2): computations come
    and go while the others run, and a slow one does not hold back those beside it."""


class _Host(Protocol):
    pipeline: Pipeline

    def queries(self) -> list[Running]: ...

    def progress(self) -> tuple[ComputationProgress, ...]: ...

    def settle(self) -> None: ...

    def prepare(
        self,
        pipeline: Pipeline,
        inputs: Mapping[str, Input | DataFrame],
        sinks: Mapping[str, Sink | TypedSink | None],
        *,
        from_now: bool,
    ) -> Callable[[], None]: ...


class Deployment:
    """A running job. Made by `deploy`; as a context manager it is stopped at the end.

    Attributes:
        layout: which.
    """

    def __init__(self, layout: Layout, host: _Host) -> None:
        self.layout = layout
        self._host = host
        self._failure: HeadraceError | None = None

    @property
    def pipeline(self) -> Pipeline:
        """As it runs now."""
        return self._host.pipeline

    @property
    def errors(self) -> tuple[HeadraceError, ...]:
        """What has ended queries, if anything has: the errors of user code, of the engine and of sinks, as they were raised.

        What a change of the job failed with is one of them, if queries had been stopped for it.
        """
        found = [running.error() for running in self._host.queries()]
        errors = tuple(error for error in found if error is not None)
        return errors if errors or self._failure is None else (self._failure,)

    def progress(self) -> tuple[ComputationProgress, ...]:
        """How far each computation has come: as of its last micro-batch, and also after `stop`.

        What it counts belongs to the job's state: it goes on where the job goes on, and counts each record once.
        """
        return self._host.progress()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def await_idle(self) -> None:
        """Wait until all that the sources have by now has come out at the sinks. What waits for a wall timer is not waited for.

        It returns when no input has news; so an input that never pauses keeps it waiting.

        Raises:
            QueryStoppedError: the job was stopped.
            HeadraceError: a query has failed (see `errors`).
        """
        self._check_active()
        self._host.settle()

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until a query ends.

        Args:
            timeout_s: for how long, seconds; ``None``: as long as it takes.

        Returns:
            Whether one has; ``False``: they run on.

        Raises:
            HeadraceError: it has failed (see `errors`).
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
        """Let the micro-batches end that are under way, and stop. `deploy` with the same directory goes on from there."""
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
        """Go over to another version of the pipeline (3).

        Staged, what did not change runs on. A computation that is no longer there first works off what its senders had written
        when this was called; its consumers work off what it has written; what it still kept in state and timers is given up.
        Pipelined, the query is started again. The new version is checked first: if it is refused, the job runs on as it was.

        Args:
            pipeline: the new version, made of the old one with `Pipeline.copy` and `Pipeline.without`.
            inputs: of injectors that are new or read something else.
            sinks: of streams that are new, or have another sink from now on; ``None``: the stream comes out nowhere. Other
                streams keep their sinks, and those that are gone take theirs along.
            from_now: new computations begin with what their senders write next. Default: with all that is in the logs (see
                ``retention_us`` of `deploy`), so that nothing is left out.

        Raises:
            SparkHostError: it can not be done in this layout, or inputs and injectors do not fit.
            PipelineError: a computation's ``productions`` or ``exactly_once`` would change, which belong to its name for good.
            QueryStoppedError: the job was stopped.
            HeadraceError: a query has failed (see `errors`).

        Warns:
            NoSinkWarning: a new stream comes out nowhere.
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
        state_codec: Codec | None = None,
        on_failure: FailurePolicy | None = None,
        sinks: Mapping[str, Sink | TypedSink | None] | None = None,
        from_now: bool = False,
    ) -> None:
        """Add a computation while the job runs: `Pipeline.add` and `change`.

        Args:
            computation: see `Pipeline.add`, as all but the last two.
            name: likewise.
            inputs: likewise.
            outputs: likewise.
            exactly_once: likewise.
            state_codec: likewise.
            on_failure: likewise.
            sinks: see `change`.
            from_now: see `change`.

        Raises:
            As both of these.
        """
        changed = self.pipeline.copy()
        changed.add(
            computation, name=name, inputs=inputs, outputs=outputs, exactly_once=exactly_once, state_codec=state_codec,
            on_failure=on_failure,
        )  # fmt: skip
        self.change(changed, sinks=sinks, from_now=from_now)

    def remove(self, name: str) -> None:
        """Remove a computation while the job runs: `Pipeline.without` and `change`. The sinks of its outputs go with it.

        Raises:
            As both of these.
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
    problem = f"a change of the job was broken off by {type(error).__name__}" + (reason and f": {reason}")
    return SparkHostError(problem, "Stop the job, and deploy the pipeline in the same directory to go on")


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
) -> Deployment:
    """Start a pipeline as a job on Spark, or let it go on where it stopped.

    Args:
        pipeline: the very one that is verified in the simulated cluster.
        inputs: for each injector, its records: a streaming DataFrame of `injected`, or an `Input` for any other.
        directory: holds checkpoints and logs; one for each job. On a file system that all machines mount: a path or a ``file:``
            URI. Other schemes are refused.
        sinks: where outputs go: stream to a function of a DataFrame (``key``, ``timestamp``, ``record_id``, ``value``) and the
            number of its micro-batch, such as a `DatabaseSink` or a `FileSink`; in a `TypedSink`, to get the values' fields.
            ``None``: a stream comes out nowhere, as one that is left out, of which there is a warning. Staged, any stream can
            have one, also one with consumers.
        layout: which. Can not change later.
        intervals: key intervals of each computation: how far it can be spread over cores. Can not change later.
        clock_us: wall timers are looked at this often, microseconds; ``None``: there are none. A look costs nothing unless one is
            due.
        history: where the events of the History go; ``None``: it is not written.
        sample: of which keys the History is; what checkers may say of it is in docs/spark.md.
        trigger_us: time from one micro-batch of a query to the next, microseconds; ``None``: one after the other.
        max_records: that a computation takes from its senders' logs in one micro-batch. Staged only.
        retention_us: a log keeps for at least this long what all consumers have taken, microseconds of wall time, for
            computations that are added later; ``None``: for ever. Staged only.

    Raises:
        SparkHostError: inputs and injectors do not fit together, the directory belongs to another job, or the pipeline asks for
            what Spark can not do.
        PipelineError: a version that was deployed there had other ``productions`` or ``exactly_once`` for a computation.
        CheckpointDamagedError: the directory was moved or copied.
        OptionsError: an option is out of its range.

    Warns:
        NoSinkWarning: a stream comes out nowhere.
    """
    for option, value, least in (
        ("intervals", intervals, 1),
        ("max_records", max_records, 1),
        ("retention_us", retention_us or 0, 0),
    ):
        if value < least:
            raise OptionsError(option, value, f"at least {least}")
    pipeline.validate()
    check_inputs(pipeline, inputs)
    check_streaming(inputs)
    spark = frame_of(next(iter(inputs.values()))).sparkSession
    if not has_driver(spark):
        problem = (
            "deploy was given a Spark Connect session, and its sinks and logs need the driver in this process"
        )
        remedy = (
            "Use attach and write its outputs with Spark's own sinks, or run the script with spark-submit"
        )
        raise SparkHostError(problem, remedy)
    settings = Settings(
        spark=spark,
        directory=local_directory("directory", directory),
        sinks=Sinks(dict(sinks), history),
        intervals=intervals,
        clock_us=clock_us,
        trigger_us=trigger_us,
        max_records=max_records,
        retention_us=retention_us,
        sample=sample,
    )
    host = PipelinedHost if layout is Layout.PIPELINED else StagedHost
    return Deployment(layout, host(settings, pipeline, inputs))
