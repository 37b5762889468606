"""A running query, and how it ended.

Rules of this file: the error that ended a query is reported as it was raised, wherever that was. Stopping a query lets its
current micro-batch finish first, because an interrupted one would be run again. A query that a busy machine failed to start is
restarted.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.errors import HeadraceError, UserCodeError
from headrace.api.time import MILLISECOND
from headrace.spark.host_errors import JobStoppedError, QueryStoppedError
from headrace.spark.jobs.deployment_settings import DeploymentSettings
from headrace.spark.runtime.failures import error_from
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.hadoop import Place
from headrace.spark.runtime.spark_session import files_managed, partitions_set

_LOOK_EVERY_S = 0.02
_MICRO_BATCH_S = 120.0
"""Maximum wait for the current micro-batch when a query is stopped."""
_TRIES = 8
_NOT_CONNECTED = "Python worker failed to connect back"
"""Spark's message if a busy machine takes more than ten seconds to start a Python process. Nothing has been processed then."""


Progress = Mapping[str, Any]
"""Spark's report of a micro-batch (``lastProgress``)."""


class RunningQuery:
    """A query that was started and has begun.

    Args:
        name: its name in messages.
        frame: the DataFrame that it computes.
        write: writes its micro-batches, each with its number.
        checkpoint: directory of its checkpoint.
        settings: settings of the deployment.
        began: called with Spark's query whenever it was started.

    Raises:
        StorageError: a file that it needs is missing or damaged.
        HeadraceError: it could not start.
    """

    def __init__(
        self,
        name: str,
        frame: DataFrame,
        write: Callable[[DataFrame, int], None],
        checkpoint: Place,
        settings: DeploymentSettings,
        began: Callable[[StreamingQuery], None] | None = None,
    ) -> None:
        self.name = name
        self._write, self._checkpoint, self._settings, self._began = write, checkpoint, settings, began
        self._tries = _TRIES
        self._failure: Exception | None = None
        stream = frame.writeStream.foreachBatch(self._write_batch).queryName(name)
        stream = stream.option("checkpointLocation", str(checkpoint))
        if settings.available_now:
            stream = stream.trigger(availableNow=True)
        elif settings.trigger_us is not None:
            stream = stream.trigger(
                processingTime=f"{max(1, settings.trigger_us // MILLISECOND)} milliseconds"
            )
        self._stream = stream
        self.query = self._started()
        while self.is_active and str(self.query.status["message"]).startswith("Initializing"):
            time.sleep(_LOOK_EVERY_S)
        self.check()

    def _write_batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._write(frame, number)
        except Exception as error:
            self._failure = error
            raise

    def _started(self) -> StreamingQuery:
        """Start it. Spark raises errors here if it cannot read the checkpoint."""
        spark, self._failure = self._settings.spark, None
        try:
            with (
                partitions_set(spark, self._settings.partitions),
                files_managed(spark, self._checkpoint),
            ):
                query = self._stream.start()
        except (PySparkException, Py4JJavaError) as error:
            storage_error = storage_error_of(str(error), self._checkpoint)
            if storage_error is None:
                raise
            raise storage_error from error
        if self._began is not None:
            self._began(query)
        return query

    @property
    def is_active(self) -> bool:
        """Whether it is running."""
        return bool(self.query.isActive)

    def error(self) -> HeadraceError | None:
        """Return the error that ended it, if any."""
        raised = self.query.exception()
        if raised is None:
            return None
        failure = self._failure
        if isinstance(failure, HeadraceError):
            return failure
        error = error_from(self.name, failure or raised, self._checkpoint)
        if type(error) is UserCodeError:
            stopped = JobStoppedError(
                error.computation, error.key, error.record_id, error.attempts, error.traceback, error.value,
                str(self._settings.directory),
            )  # fmt: skip
            stopped.__cause__ = None
            return stopped
        return error

    def check(self) -> None:
        """Raise the error that ended it, if any; if Spark could not start a Python process in time, restart the query instead.

        Raises:
            HeadraceError: an error of user code, of the engine or of a sink; `QueryFailedError` for anything else.
        """
        error = self.error()
        if error is None:
            return
        if self._tries == 0 or _NOT_CONNECTED not in str(self.query.exception()):
            raise error
        self._tries -= 1
        self.query = self._started()

    def check_active(self) -> None:
        """Raise an error unless the query runs.

        Raises:
            QueryStoppedError: it was stopped.
            HeadraceError: see `check`.
        """
        self.check()
        if not self.is_active:
            raise QueryStoppedError(self.name)

    def process_all_available(self) -> None:
        """Wait until everything that its sources had at the time of the call is processed.

        Raises:
            HeadraceError: see `check_active`.
        """
        while True:
            try:
                self.query.processAllAvailable()
            except StreamingQueryException:
                self.check()
            else:
                self.check_active()  # Spark returns also if the query was stopped
                return

    def await_progress(self, is_wanted: Callable[[Progress], bool]) -> Progress:
        """Wait for the progress report of a micro-batch, and return it.

        Raises:
            HeadraceError: see `check_active`.
        """
        while True:
            progress: Progress | None = self.query.lastProgress
            if progress is not None and is_wanted(progress):
                return progress
            self.check_active()
            time.sleep(_LOOK_EVERY_S)

    def await_end(self) -> None:
        """Wait until it has ended by itself.

        Raises:
            HeadraceError: see `check`.
        """
        while self.is_active:
            time.sleep(_LOOK_EVERY_S)
            self.check()
        self.check()

    def stop(self) -> None:
        """Let the current micro-batch finish, then stop."""
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
