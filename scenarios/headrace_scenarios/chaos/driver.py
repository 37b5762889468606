"""The driver that `headrace chaos` starts, kills and pauses: ``python -m headrace_scenarios.chaos.driver JOB NUMBER``."""

import importlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace import Computation, Context, HeadraceError, Pipeline, Record
from headrace.spark.jobs import pipelined, resharding, staged
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.deploy import Layout, deploy
from headrace.spark.jobs.recorded_input import landed
from headrace.spark.jobs.state import JobState
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.hadoop import job_directory
from headrace.spark.runtime.session import session
from headrace.spark.sinks.database_sink import DatabaseSink
from headrace.spark.sinks.file_sink import FileSink, committed_files
from headrace_scenarios.chaos.job import (
    ADDED,
    TABLE,
    Added,
    BatchMoment,
    BatchWritten,
    Begun,
    ChaosJob,
    Ended,
    Idle,
    JobLayout,
    StoredRow,
    pass_moment,
    tell,
)

_LOOK_EVERY_S = 0.05
_CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (stream TEXT, key TEXT, value BLOB, timestamp INTEGER, record_id TEXT)"
_COLUMNS = ("stream", "key", "value", "timestamp", "record_id")
_APPEND = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?)"  # noqa: S608  our own name

_Batches = Iterator[pa.RecordBatch]
_Sink = Callable[[DataFrame, int], bool]


def main(job_file: str, number: int) -> int:
    """Run a job until its stop file exists or its query ends.

    Args:
        job_file: path of a `ChaosJob` as JSON.
        number: number of this driver, from 0.

    Returns:
        The exit code: 1 if the query failed.
    """
    job = _read(job_file)
    told = job.told(number)
    with session(job.master, "headrace chaos", log_level="WARN", config=job.config) as spark:
        if not _may_go(job.go_file(number)):
            return 0
        job = _read(job_file)
        running: _Query | _Job | None = None
        try:
            running = (_Query if job.layout is JobLayout.QUERY else _Job)(spark, job, told)
            _follow(running, job, told)
        except (StreamingQueryException, HeadraceError) as error:
            failure = error if running is None else running.cause_of(error)
            tell(told, Ended(type(failure).__name__, str(failure)))
            return 1
        running.stop()
        if job.outputs and job.stop_file.read_text():
            rows = spark.read.parquet(*committed_files(job.outputs, spark))
            _append(str(job.database), rows.select(*_COLUMNS), 0)
        tell(told, Ended("", ""))
    return 0


def _read(job_file: str) -> ChaosJob:
    return msgspec.json.decode(Path(job_file).read_bytes(), type=ChaosJob)


def _may_go(go_file: Path) -> bool:
    """Wait for a file; return whether it came before the parent process was gone."""
    parent = os.getppid()
    while not go_file.exists() and os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    return go_file.exists()


class _Query:
    """A query of its own on the outputs of `attach`, with a History."""

    def __init__(self, spark: SparkSession, job: ChaosJob, told: Path) -> None:
        self._checkpoint = job_directory(job.checkpoint, spark)
        outputs = attach(
            _pipeline(job), _inputs(spark, job), intervals=job.intervals, history=True
        ).everything
        passed = outputs.mapInArrow(partial(_passing, job.control, BatchMoment.WORKING), outputs.schema)
        self._writer = _Writer(_sink(job, spark=spark), told)
        stream = passed.writeStream.foreachBatch(_held_after(self._writer, job.control))
        self._query = stream.option("checkpointLocation", job.checkpoint).start()

    def settle(self) -> None:
        self._query.processAllAvailable()

    def add(self, additions: int) -> None:
        raise AssertionError(f"a query of its own has {additions} additional computations")

    def stop(self) -> None:
        self._query.stop()

    def cause_of(self, error: Exception) -> Exception:
        """Return what a query failed with, behind what Spark says."""
        said = f"{error} {self._writer.failure or ''}"
        return storage_error_of(said, self._checkpoint) or self._writer.failure or error


class _Job:
    """A job of `deploy`."""

    def __init__(self, spark: SparkSession, job: ChaosJob, told: Path) -> None:
        self._spark, self._job = spark, job
        _hold_before_shape(job.control)
        for writer in (
            pipelined.OutputWriter,
            staged.LogWriter,
        ):  # they are called also if no stream has a row
            writer.__call__ = _held_after(writer.__call__, job.control)  # type: ignore[method-assign]
        pipeline = _pipeline(job)
        sinks = {
            stream: _of_stream(stream, _Writer(_sink(job, stream, spark), told))
            for stream in pipeline.output_streams
        }
        self._deployment = deploy(
            pipeline,
            _inputs(spark, job),
            directory=job.home,
            sinks=sinks,
            intervals=job.intervals,
            splits=job.splits,
            layout=Layout(job.layout),
        )

    def settle(self) -> None:
        self._deployment.await_idle()

    def add(self, additions: int) -> None:
        self._deployment.change(_pipeline(msgspec.structs.replace(self._job, additions=additions)))

    def stop(self) -> None:
        """Stop, and write all states if that is asked for."""
        self._deployment.stop()
        if not self._job.stop_file.read_text():
            return
        state = JobState(self._spark, self._job.home)
        rows = [
            StoredRow(name, row.key, row.state)
            for name in _pipeline(self._job).computations
            for row in state.rows(name)
        ]
        self._job.states.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))

    @staticmethod
    def cause_of(error: Exception) -> Exception:
        """Return what the job failed with, which it says itself."""
        return error


def _held_after(write: Callable[..., None], control: Path) -> Callable[..., None]:
    """Let a micro-batch be held when the sinks have it."""

    def held(*args: Any) -> None:
        write(*args)
        pass_moment(control, BatchMoment.WRITTEN)

    return held


def _hold_before_shape(control: Path) -> None:
    """Let a change of a job be held after all that it needs is written, and before its shape makes that count."""
    for module in (pipelined, resharding, staged):
        write_shape = module.write_shape

        def held(*args: Any, write_shape: Callable[..., None] = write_shape) -> None:
            pass_moment(control, BatchMoment.CHANGING)
            write_shape(*args)

        module.write_shape = held  # type: ignore[attr-defined]


class _Addition(Computation):
    """Counts records, for itself."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        context.state += 1


def _inputs(spark: SparkSession, job: ChaosJob) -> dict[str, DataFrame]:
    return {
        name: frame.mapInArrow(partial(_passing, job.control, BatchMoment.READING), frame.schema)
        for name, frame in landed(spark, _pipeline(job), job.landing).items()
    }


def _pipeline(job: ChaosJob) -> Pipeline:
    module, _, attribute = job.target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, Pipeline), f"{job.target} was checked before the driver was started"
    if not job.additions:
        return found
    changed = found.copy()
    stream = next(iter(found.injectors.values())).outputs[0]
    for number in range(job.additions):
        changed.add(_Addition(), name=f"{ADDED}{number}", inputs=[stream])
    return changed


def _passing(control: Path, moment: BatchMoment, batches: _Batches) -> _Batches:
    """Pass on rows once their moment has passed."""
    pass_moment(control, moment)
    yield from batches


def _follow(running: _Query | _Job, job: ChaosJob, told: Path) -> None:
    """Report whenever all input is processed, until the stop file exists or the parent process is gone; add computations."""
    done, parent, additions = -1, os.getppid(), job.additions
    while not job.stop_file.exists() and os.getppid() == parent:
        files = sum(1 for _ in job.landing.glob("*/*.parquet"))
        running.settle()
        if files != done:
            done = files
            tell(told, Idle(files))
        wanted = int(job.additions_file.read_text()) if job.additions_file.exists() else 0
        if wanted > additions:
            running.add(wanted)
            additions = wanted
            tell(told, Added(wanted))
        time.sleep(_LOOK_EVERY_S)


class _Writer:
    """Writes the micro-batches.

    Attributes:
        failure: the error it failed with, if any.
    """

    def __init__(self, sink: _Sink, told: Path) -> None:
        self._sink = sink
        self._told = told
        self.failure: Exception | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch."""
        tell(self._told, Begun(number))
        try:
            is_new = self._sink(frame, number)
        except Exception as error:
            self.failure = error
            raise
        tell(self._told, BatchWritten(number, is_new))


def _of_stream(stream: str, writer: _Writer) -> Callable[[DataFrame, int], None]:
    """Return the sink of one stream of a job: its rows go to the table of all."""

    def write(frame: DataFrame, number: int) -> None:
        value, at = F.col("value").cast("binary"), F.unix_micros("timestamp")
        columns = (F.lit(stream), F.col("key"), value, at, F.col("record_id"))
        named = [column.alias(name) for column, name in zip(columns, _COLUMNS, strict=True)]
        writer(frame.select(*named), number)

    return write


def _sink(job: ChaosJob, stream: str = "", spark: SparkSession | None = None) -> _Sink:
    """Return what writes the rows of all streams, or of one."""
    if not job.fencing:
        return partial(_append, str(job.database))
    if job.outputs:
        return partial(_write, FileSink(job.outputs, writer=stream, spark=spark))
    return partial(_write, DatabaseSink(str(job.database), TABLE, writer=stream))


def _write(sink: DatabaseSink | FileSink, frame: DataFrame, number: int) -> bool:
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query is not None, "a streaming query has an id"
    return sink.write(frame, query, number)


def _append(database: str, frame: DataFrame, number: int) -> bool:  # noqa: ARG001  a sink without fencing ignores the batch number
    rows = [(row[0], row[1], bytes(row[2]), row[3], row[4]) for row in frame.collect()]
    connection = sqlite3.connect(database, timeout=30.0)
    with connection:
        connection.execute(_CREATE)
        connection.executemany(_APPEND, rows)
    connection.close()
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
