"""Keeping a job running (MillWheel 6.2: a worker that fails is replaced): restarts by policy, and how the job is.

Rules of this file:

* A restart is always safe, because `deploy` resumes from the last committed micro-batch. But it is no use after an error that the
  next start would only repeat, and it does harm if another driver has taken over. Then the supervisor gives up.
* Each restart has a new Spark, since the old one's Java may be what failed.
* `status` can be called from any thread, and does not ask Spark.
"""

import enum
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyspark import SparkContext

from headrace.api.errors import OptionsError, PipelineError, UserCodeError
from headrace.api.progress import ComputationProgress
from headrace.api.time import MINUTE, SECOND
from headrace.spark.host_errors import (
    MissingPackageError,
    QueryStoppedError,
    SessionSettingsError,
    SparkHostError,
)
from headrace.spark.io_errors import CheckpointDamagedError, DriverReplacedError, FencedWriterError

_FINAL = (
    CheckpointDamagedError, DriverReplacedError, FencedWriterError, MissingPackageError, OptionsError, PipelineError,
    SessionSettingsError, SparkHostError, UserCodeError,
)  # fmt: skip
"""Errors after which a restart would only fail again, or would compete with the driver that has taken over."""

_LOOK_EVERY_S = 0.2


class SupervisedJob(Protocol):
    """What is supervised: a `Deployment`."""

    def progress(self) -> tuple[ComputationProgress, ...]:
        """See `Deployment.progress`."""
        ...

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """See `Deployment.await_termination`."""
        ...

    def stop(self) -> None:
        """See `Deployment.stop`."""
        ...


class SupervisorPhase(enum.Enum):
    """What a supervisor does."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to restart"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When to restart a job that failed, and when to give up.

    Attributes:
        most: number of restarts in a row after which the next failure is final.
        first_delay_us: time before the first of them, wall time in microseconds; each further delay is twice as long.
        longest_delay_us: longest time before a restart, wall time in microseconds.
        well_after_us: a job that ran for this long was well: its next failure is the first in a row. Wall time in microseconds.

    Raises:
        OptionsError: a value is out of its range.
    """

    most: int = 10
    first_delay_us: int = SECOND
    longest_delay_us: int = 5 * MINUTE
    well_after_us: int = 10 * MINUTE

    def __post_init__(self) -> None:
        """Check the ranges."""
        for option in ("most", "first_delay_us", "longest_delay_us", "well_after_us"):
            if getattr(self, option) < 0:
                raise OptionsError(option, getattr(self, option), "at least 0")

    def delay_us(self, restart: int) -> int:
        """Return the time before a restart, microseconds.

        >>> [RestartPolicy().delay_us(restart) // 1_000_000 for restart in (1, 2, 3, 9, 10, 1_000)]
        [1, 2, 4, 256, 300, 300]

        Args:
            restart: its number in a row, from 1.
        """
        return min(self.longest_delay_us, self.first_delay_us << min(restart - 1, 64))


@dataclass(frozen=True, slots=True)
class Status:
    """How a supervised job is.

    Attributes:
        phase: what the supervisor does.
        restarts: number of restarts so far.
        error: the last error; ``None``: there was none.
        progress: of each computation, as last known.
    """

    phase: SupervisorPhase = SupervisorPhase.STARTING
    restarts: int = 0
    error: Exception | None = None
    progress: tuple[ComputationProgress, ...] = ()


class Supervisor:
    """Starts a job, and restarts it when it fails.

    Args:
        start: starts Spark and the job, and returns the `Deployment`.
        policy: when to restart it.
        should_stop: tells whether the job is to stop for good.
        on_change: called with the status whenever the phase changes, and with the seconds until the next start, if it waits.
    """

    def __init__(
        self,
        start: Callable[[], SupervisedJob],
        policy: RestartPolicy,
        *,
        should_stop: Callable[[], bool],
        on_change: Callable[[Status, float], None] = lambda _status, _wait_s: None,
    ) -> None:
        self._start, self._policy = start, policy
        self._should_stop, self._on_change = should_stop, on_change
        self._status = Status()

    def status(self) -> Status:
        """Return how the job is now."""
        return self._status

    def run(self) -> Status:
        """Run the job until it is to stop or fails for good, and return the final status."""
        in_a_row = 0
        self._others = SparkContext._active_spark_context  # not this job's
        while True:
            began = time.monotonic()
            error = self._run_once()
            if error is None or self._should_stop():
                return self._change(SupervisorPhase.STOPPED, error=error or self._status.error)
            if (time.monotonic() - began) * SECOND >= self._policy.well_after_us:
                in_a_row = 0
            in_a_row += 1
            if isinstance(error, _FINAL) or in_a_row > self._policy.most:
                return self._change(SupervisorPhase.FAILED, error=error)
            wait_s = self._policy.delay_us(in_a_row) / SECOND
            self._change(SupervisorPhase.WAITING, error=error, wait_s=wait_s)
            self._wait(wait_s)
            if self._should_stop():
                return self._change(SupervisorPhase.STOPPED, error=error)
            self._change(SupervisorPhase.STARTING, error=error, restarts=self._status.restarts + 1)

    def _run_once(self) -> Exception | None:
        """Run the job until it ends; return the error that ended it, or ``None`` if it was to stop."""
        job = None
        try:
            job = self._start()
            self._change(SupervisorPhase.RUNNING)
            while not self._should_stop():
                ended = job.await_termination(_LOOK_EVERY_S)
                self._status = replace(self._status, progress=job.progress())
                if ended:
                    raise QueryStoppedError("of the served job")  # noqa: TRY301  nobody here has stopped it
            job.stop()
        except Exception as error:  # noqa: BLE001  the user's code and Spark may raise anything
            return error
        else:
            return None
        finally:
            self._end(job)

    def _end(self, job: SupervisedJob | None) -> None:
        """End what is left of the job and its Spark. Either may fail, because it may be what has failed before."""
        if job is not None:
            with suppress(Exception):
                job.stop()
        context = SparkContext._active_spark_context
        if context is not None and context is not self._others:
            with suppress(Exception):
                context.stop()
            SparkContext._active_spark_context = None  # PySpark leaves it there if Java is gone

    def _wait(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        while not self._should_stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY_S))

    def _change(self, phase: SupervisorPhase, *, wait_s: float = 0.0, **changes: Any) -> Status:
        self._status = replace(self._status, phase=phase, **changes)
        self._on_change(self._status, wait_s)
        return self._status
