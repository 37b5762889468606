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
from headrace.spark.jobs import migration, query
from headrace.spark.jobs.deploy import deploy
from headrace.spark.jobs.deployment_settings import Shape, read_shape, seal, write_shape
from headrace.spark.jobs.recorded_input import landed
from headrace.spark.jobs.stored_state import JobState
from headrace.spark.runtime.hadoop import Place
from headrace.spark.runtime.spark_session import session
from headrace.spark.sinks.file_sink import FileSink, committed_files
from headrace.spark.sinks.table_sink import TableSink
from headrace_scenarios.chaos.chaos_job import (
    ADDED,
    TABLE,
    Added,
    BatchMoment,
    ChaosJob,
    Ended,
    Idle,
    SavedState,
    pass_moment,
)
from headrace_sim.spark.sinks.sink_effects import Ledger

_LOOK_EVERY_S = 0.05
_CREATE = f"CREATE TABLE IF NOT EXISTS {TABLE} (stream TEXT, key TEXT, value BLOB, timestamp INTEGER, record_id TEXT)"
_COLUMNS = ("stream", "key", "value", "timestamp", "record_id")
_APPEND = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?)"  # noqa: S608  our own name

_Batches = Iterator[pa.RecordBatch]
_Sink = Callable[[DataFrame, int], object]


def main(job_file: str, number: int) -> int:
    """Run a job until its stop file exists or its query ends.

    Args:
        job_file: path of a `ChaosJob` as JSON.
        number: number of this driver, from 0.

    Returns:
        The exit code: 1 if the query failed.
    """
    job = _read(job_file)
    report = Ledger(job.reports_file(number)).append
    with session(job.master, "headrace chaos", log_level="WARN", config=job.config) as spark:
        if not _may_go(job.go_file(number)):
            return 0
        job = _read(job_file)
        try:
            running = _Job(spark, job)
            _follow(running, job, report)
        except (StreamingQueryException, HeadraceError) as error:
            report(Ended(type(error).__name__, str(error)))
            return 1
        running.stop()
        if job.outputs and job.stop_file.read_text():
            rows = spark.read.parquet(*committed_files(job.outputs, spark))
            _append(str(job.database), rows.select(*_COLUMNS), 0)
        report(Ended("", ""))
    return 0


def _read(job_file: str) -> ChaosJob:
    return msgspec.json.decode(Path(job_file).read_bytes(), type=ChaosJob)


def _may_go(go_file: Path) -> bool:
    """Wait for a file; return whether it came before the parent process was gone."""
    parent = os.getppid()
    while not go_file.exists() and os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    return go_file.exists()


class _Job:
    """The job, deployed."""

    def __init__(self, spark: SparkSession, job: ChaosJob) -> None:
        self._spark, self._job = spark, job
        _hold_before_shape(job.control)
        # It is called also if no stream has a row.
        write = _held_after(query.OutputWriter.__call__, job.control)
        query.OutputWriter.__call__ = write  # type: ignore[method-assign]
        pipeline = _pipeline(job)
        sinks = {stream: _of_stream(stream, _sink(job, stream, spark)) for stream in pipeline.output_streams}
        self._deployment = deploy(
            pipeline,
            _inputs(spark, job),
            directory=job.home,
            sinks=sinks,
            intervals=job.intervals,
            splits=job.splits,
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
            SavedState(name, row.key, row.state)
            for name in _pipeline(self._job).computations
            for row in state.rows(name)
        ]
        self._job.states.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def _held_after(write: Callable[..., None], control: Path) -> Callable[..., None]:
    """Let a micro-batch be held when the sinks have it."""

    def held(*args: Any) -> None:
        write(*args)
        pass_moment(control, BatchMoment.WRITTEN)

    return held


def _hold_before_shape(control: Path) -> None:
    """Let a change of a job be held after all that it needs is written, and before its shape makes that count."""

    def held_seal(*args: Any) -> None:
        pass_moment(control, BatchMoment.CHANGING)
        seal(*args)

    def held_write(directory: Place, shape: Shape, pipeline: Pipeline) -> None:
        before = read_shape(directory)
        if before is not None and before.stages != shape.stages:
            pass_moment(control, BatchMoment.CHANGING)
        write_shape(directory, shape, pipeline)

    migration.seal, query.write_shape = held_seal, held_write  # type: ignore[assignment, attr-defined]


class _Relay(Computation):
    """Passes records on."""

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        context.produce(self._output, record.value)


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
    pipeline = getattr(importlib.import_module(module), attribute)
    assert isinstance(pipeline, Pipeline), f"{job.target} was checked before the driver was started"
    if not job.additions:
        return pipeline
    changed = pipeline.copy()
    for number in range(job.additions):
        stream = next(iter(pipeline.injectors.values())).outputs[0]
        # Every other one is on a level behind all others, so that the state moves to a new checkpoint.
        for place in range(len(changed.computations) if number % 2 else 0):
            relayed = f"{ADDED}{number}.{place}"
            changed.add(_Relay(relayed), name=relayed, inputs=[stream], outputs=[relayed])
            stream = relayed
        changed.add(_Addition(), name=f"{ADDED}{number}", inputs=[stream])
    return changed


def _passing(control: Path, moment: BatchMoment, batches: _Batches) -> _Batches:
    """Pass on rows once their moment has passed."""
    pass_moment(control, moment)
    yield from batches


def _follow(running: _Job, job: ChaosJob, report: Callable[[object], None]) -> None:
    """Report whenever all input is processed, until the stop file exists or the parent process is gone; add computations."""
    done, parent, additions = -1, os.getppid(), job.additions
    while not job.stop_file.exists() and os.getppid() == parent:
        files = sum(1 for _ in job.landing.glob("*/*.parquet"))
        running.settle()
        if files != done:
            done = files
            report(Idle(files))
        wanted = int(job.additions_file.read_text()) if job.additions_file.exists() else 0
        if wanted > additions:
            running.add(wanted)
            additions = wanted
            report(Added(wanted))
        time.sleep(_LOOK_EVERY_S)


def _of_stream(stream: str, sink: _Sink) -> _Sink:
    """Return the sink of one stream of a job: its rows go to the table of all."""

    def write(frame: DataFrame, number: int) -> None:
        value, at = F.col("value").cast("binary"), F.unix_micros("timestamp")
        columns = (F.lit(stream), F.col("key"), value, at, F.col("record_id"))
        named = [column.alias(name) for column, name in zip(columns, _COLUMNS, strict=True)]
        sink(frame.select(*named), number)

    return write


def _sink(job: ChaosJob, stream: str, spark: SparkSession) -> _Sink:
    """Return what writes the rows of a stream."""
    if not job.fencing:
        return partial(_append, str(job.database))
    if job.outputs:
        return FileSink(job.outputs, writer=stream, spark=spark)
    return TableSink(str(job.database), TABLE, writer=stream)


def _append(database: str, frame: DataFrame, number: int) -> None:  # noqa: ARG001  a sink without fencing ignores the batch number
    rows = [(row[0], row[1], bytes(row[2]), row[3], row[4]) for row in frame.collect()]
    connection = sqlite3.connect(database, timeout=30.0)
    with connection:
        connection.execute(_CREATE)
        connection.executemany(_APPEND, rows)
    connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
