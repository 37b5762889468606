"""The driver that `headrace chaos` starts, kills and pauses: ``python -m headrace_scenarios.chaos.driver JOB NUMBER``."""

import importlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.pipeline import Pipeline
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import landed
from headrace.spark.runtime.file_errors import storage_error_of
from headrace.spark.runtime.session import session
from headrace.spark.sinks.database_sink import DatabaseSink
from headrace_scenarios.chaos.job import (
    TABLE,
    BatchMoment,
    BatchWritten,
    Begun,
    ChaosJob,
    Ended,
    Idle,
    pass_moment,
    tell,
)

_LOOK_EVERY_S = 0.05
_CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (stream TEXT, key TEXT, value BLOB, timestamp INTEGER, record_id TEXT)"
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
    job = msgspec.json.decode(Path(job_file).read_bytes(), type=ChaosJob)
    told = job.told(number)
    with session(job.master, "headrace chaos", log_level="WARN", config=job.config) as spark:
        query, writer = _start(spark, job, told)
        try:
            _follow(query, job, told)
        except StreamingQueryException as error:
            spoken = f"{error} {writer.failure or ''}"
            failure = storage_error_of(spoken, job.checkpoint) or writer.failure or error
            tell(told, Ended(type(failure).__name__, str(failure)))
            return 1
        query.stop()
        tell(told, Ended("", ""))
    return 0


def _start(spark: SparkSession, job: ChaosJob, told: Path) -> tuple[StreamingQuery, "_Writer"]:
    pipeline = _pipeline(job.target)
    inputs = {
        name: frame.mapInArrow(partial(_passing, job.control, BatchMoment.READING), frame.schema)
        for name, frame in landed(spark, pipeline, job.landing).items()
    }
    outputs = attach(pipeline, inputs, intervals=job.intervals, history=True).everything
    passed = outputs.mapInArrow(partial(_passing, job.control, BatchMoment.WORKING), outputs.schema)
    writer = _Writer(_sink(job), job.control, told)
    stream = passed.writeStream.foreachBatch(writer)
    return stream.option("checkpointLocation", str(job.checkpoint)).start(), writer


def _pipeline(target: str) -> Pipeline:
    module, _, attribute = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, Pipeline), f"{target} was checked before the driver was started"
    return found


def _passing(control: Path, moment: BatchMoment, batches: _Batches) -> _Batches:
    """Pass on rows once their moment has passed."""
    pass_moment(control, moment)
    yield from batches


def _follow(query: StreamingQuery, job: ChaosJob, told: Path) -> None:
    """Report whenever all input is processed, until the stop file exists or the parent process is gone."""
    done, parent = -1, os.getppid()
    while not job.stop_file.exists() and os.getppid() == parent:
        files = sum(1 for _ in job.landing.glob("*/*.parquet"))
        query.processAllAvailable()
        if files != done:
            done = files
            tell(told, Idle(files))
        time.sleep(_LOOK_EVERY_S)


class _Writer:
    """Writes the micro-batches.

    Attributes:
        failure: the error it failed with, if any.
    """

    def __init__(self, sink: _Sink, control: Path, told: Path) -> None:
        self._sink = sink
        self._control = control
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
        pass_moment(self._control, BatchMoment.WRITTEN)


def _sink(job: ChaosJob) -> _Sink:
    if not job.fencing:
        return partial(_append, str(job.database))
    sink = DatabaseSink(str(job.database), TABLE)
    return partial(_write, sink)


def _write(sink: DatabaseSink, frame: DataFrame, number: int) -> bool:
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
