"""A query that runs, and what has become of it.

Rules of this file: what ended a query is told as the error that it was, wherever it was raised; to stop a query is to let its
micro-batch end first, since one that is broken off is done again; a query that a busy machine could not start is started again.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.errors import HeadraceError, UserCodeError
from headrace.api.time import MILLISECOND
from headrace.spark.errors import JobStoppedError, QueryStoppedError
from headrace.spark.runtime.failures import error_from
from headrace.spark.runtime.file_errors import storage_error_of

_LOOK_EVERY_S = 0.02
_MICRO_BATCH_S = 120.0
"""How long a micro-batch may still take when it is asked to be the last."""
_TRIES = 8
_NOT_CONNECTED = "Python worker failed to connect back"
"""What Spark says when a machine is so busy that a Python process takes more than ten seconds to start; nothing was done yet."""


Progress = Mapping[str, Any]
"""Spark's report of a micro-batch (``lastProgress``)."""


class BatchWriter(Protocol):
    """Takes the micro-batches of a query.

    Attributes:
        failure: what it has failed with, if it has.
    """

    failure: Exception | None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Take one."""
        ...


class Running:
    """A query that was started.

    Args:
        name: that messages call it by.
        begin: starts it, anew or from where it was.
        writer: that takes its micro-batches.
        checkpoint: directory of its checkpoint, two below the job's (`Settings.checkpoint`).

    Raises:
        StorageError: a file that it needs is not as it should be.
    """

    def __init__(
        self, name: str, begin: Callable[[], StreamingQuery], writer: BatchWriter, checkpoint: Path
    ) -> None:
        self.name, self.writer = name, writer
        self._begin, self._checkpoint = begin, checkpoint
        self._tries = _TRIES
        self.query = self._started()

    def _started(self) -> StreamingQuery:
        """Start it. What its checkpoint is looked at for before it runs, Spark raises here."""
        try:
            return self._begin()
        except (PySparkException, Py4JJavaError) as error:
            mishap = storage_error_of(str(error), self._checkpoint)
            if mishap is None:
                raise
            raise mishap from error

    @property
    def is_active(self) -> bool:
        """It goes on."""
        return bool(self.query.isActive)

    def error(self) -> HeadraceError | None:
        """What has ended it, if anything has."""
        raised = self.query.exception()
        if raised is None:
            return None
        failure = self.writer.failure
        if isinstance(failure, HeadraceError):
            return failure
        found = error_from(self.name, failure or raised, self._checkpoint)
        if type(found) is UserCodeError:
            stopped = JobStoppedError(
                found.computation, found.key, found.record_id, found.attempts, found.traceback, str(self._checkpoint.parents[1])
            )  # fmt: skip
            stopped.__cause__ = None
            return stopped
        return found

    def check(self) -> None:
        """Raise what has ended it, if anything has; if Spark could not start a Python process in time, start it again.

        Raises:
            HeadraceError: user code's, the engine's, a sink's; `QueryFailedError` for anything else.
        """
        error = self.error()
        if error is None:
            return
        if self._tries == 0 or _NOT_CONNECTED not in str(self.query.exception()):
            raise error
        self._tries -= 1
        self.writer.failure = None
        self.query = self._started()

    def check_active(self) -> None:
        """Raise unless the query runs.

        Raises:
            QueryStoppedError: it was stopped.
            HeadraceError: see `check`.
        """
        self.check()
        if not self.is_active:
            raise QueryStoppedError(self.name)

    def process_all_available(self) -> None:
        """Wait until everything is worked on that its sources had when this was called.

        Raises:
            HeadraceError: see `check_active`.
        """
        while True:
            try:
                self.query.processAllAvailable()
            except StreamingQueryException:
                self.check()
            else:
                self.check_active()  # Spark also returns from a query that was stopped
                return

    def await_progress(self, is_wanted: Callable[[Progress], bool]) -> Progress:
        """Wait for the report of a micro-batch.

        Raises:
            HeadraceError: see `check_active`.
        """
        while True:
            progress: Progress | None = self.query.lastProgress
            if progress is not None and is_wanted(progress):
                return progress
            self.check_active()
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """Let the micro-batch end that is under way, and stop."""
        deadline, before = time.monotonic() + _MICRO_BATCH_S, self._finished()
        while self._is_busy() and self._finished() == before and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        self.query.stop()

    def _is_busy(self) -> bool:
        status = self.query.status
        return self.is_active and bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _finished(self) -> int:
        progress = self.query.lastProgress
        return -1 if progress is None else int(progress["batchId"])


def start(
    name: str, frame: DataFrame, writer: BatchWriter, checkpoint: Path, trigger_us: int | None
) -> Running:
    """Start a query, and wait until it has begun.

    Args:
        name: that messages call it by.
        frame: what it computes.
        writer: takes its micro-batches.
        checkpoint: directory of its checkpoint.
        trigger_us: time from one micro-batch to the next, microseconds; ``None``: one after the other.

    Raises:
        HeadraceError: it could not begin.
    """
    stream = (
        frame.writeStream.foreachBatch(writer).option("checkpointLocation", str(checkpoint)).queryName(name)
    )
    if trigger_us is not None:
        stream = stream.trigger(processingTime=f"{max(1, trigger_us // MILLISECOND)} milliseconds")
    running = Running(name, stream.start, writer, checkpoint)
    while running.is_active and str(running.query.status["message"]).startswith("Initializing"):
        time.sleep(_LOOK_EVERY_S)
    running.check()
    return running
