"""What a user names instead of a program, whose query a driver of the laboratory starts: a function, a `SparkJob`, a pipeline."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from headrace import Pipeline
from headrace_sim.spark.client.recording import built_with, take
from headrace_sim.spark.laboratory.hosted import place_of_sink, writer_of_pipeline
from headrace_sim.spark.plan.plan_splitter import PARAMETER
from headrace_sim.spark.refusals import definition_of
from headrace_sim.spark.spark_job import (
    ApplyWithState,
    Deduplicate,
    Limit,
    MapInPandas,
    SparkJob,
    SparkJobError,
    Step,
    StreamSource,
    TransformWithState,
    WatermarkStep,
)


@dataclass(frozen=True, slots=True)
class Called:
    """A function, a `SparkJob` or a pipeline that stands for a program."""

    target: Any
    # ``MODULE:NAME``, by which each driver imports what is no `SparkJob` anew. Without a module: each takes it as it is
    name: str
    schemas: Mapping[str, str] | str | None = None  # of its parameters
    job: SparkJob | None = None  # the query that it stands for; None: the function starts it

    def query(self, job: SparkJob) -> SparkJob:
        """Return its query, recorded as ``job``, with the streams and the place that it has in a driver."""
        streams = job.sources or (StreamSource("", "", job.input),)
        placed = (
            stream if stream.format else replace(stream, place=f"{PARAMETER} {stream.name}")
            for stream in streams
        )
        sink = replace(job.sink, place=job.sink.place or self._place)
        return replace(job, sources=tuple(placed), sink=sink)

    @property
    def _place(self) -> str:
        if isinstance(self.target, Pipeline):
            return place_of_sink(self.name.partition(":")[0])
        function = self.target.sink.function if isinstance(self.target, SparkJob) else self.target
        return definition_of(function) or "unknown:0"

    @property
    def file(self) -> Path:
        """Where it is defined."""
        return Path(self._place.rpartition(":")[0])

    def start(self, spark: SparkSession) -> None:
        """Start its query in this process, a driver.

        Raise `SparkJobError` if it is a `SparkJob` with a step that only the simulation computes.
        """
        target, (module, _, attribute) = self.target, self.name.partition(":")
        if attribute and not isinstance(target, SparkJob):
            target = getattr(importlib.import_module(module), attribute)
        if isinstance(target, Pipeline):
            returned = writer_of_pipeline(target, module, spark)
        elif self.job is None:
            with _started() as started:
                returned = built_with(target, self.schemas, spark)
            if started:
                return
        else:
            is_job = isinstance(target, SparkJob)
            sink = self.job.sink if is_job else replace(self.job.sink, function=target)
            returned = _written(replace(self.job, sink=sink), spark)
        file, _, line = self._place.rpartition(":")
        code = compile("\n" * (int(line) - 1) + "take(returned)", file, "exec")
        exec(code, {"take": take, "returned": returned})  # noqa: S102  so that it is started at its place


@contextmanager
def _started() -> Iterator[list[DataStreamWriter]]:
    """Note the writers that are started within."""
    started: list[DataStreamWriter] = []

    def noting(really: Callable[..., Any]) -> Callable[..., Any]:
        def start(self: DataStreamWriter, *args: Any, **options: Any) -> Any:
            started.append(self)
            return really(self, *args, **options)

        return start

    with (
        patch.object(DataStreamWriter, "start", noting(DataStreamWriter.start)),
        patch.object(DataStreamWriter, "toTable", noting(DataStreamWriter.toTable)),
    ):
        yield started


def _written(job: SparkJob, spark: SparkSession) -> DataStreamWriter:
    """Return the writer of a query."""
    frame = spark.readStream.format(PARAMETER).schema(job.input).load()
    for step in job.steps:
        frame = stepped(frame, step)
    sink = job.sink
    writer = frame.writeStream.outputMode(sink.output_mode.value).options(**dict(sink.options))
    if sink.writer is not None:
        return writer.foreach(sink.writer)
    if sink.function is not None:
        return writer.foreachBatch(sink.function)
    return writer.format(sink.format or "parquet").option("path", sink.target)


def stepped(frame: Any, step: Step) -> DataFrame:
    """Return a stream behind a step. Raise `SparkJobError` if only the simulation computes it."""
    match step:
        case WatermarkStep():
            return frame.withWatermark(step.column, f"{step.delay_us} microseconds")
        case MapInPandas():
            return frame.mapInPandas(step.function, step.output)
        case Limit():
            return frame.limit(step.count)
        case Deduplicate(within_watermark=True):
            return frame.dropDuplicatesWithinWatermark([*step.keys])
        case Deduplicate():
            return frame.dropDuplicates([*step.keys])
        case ApplyWithState():
            return frame.groupBy(*step.keys).applyInPandasWithState(
                step.function, step.output, step.state, step.output_mode.value, step.timeout
            )
        case TransformWithState(initial=None):
            groups = frame.groupBy(*step.keys)
            call = groups.transformWithStateInPandas if step.pandas else groups.transformWithState
            modes = step.output_mode.value, step.time_mode.value
            return call(step.processor, step.output, *modes, eventTimeColumnName=step.event_time)
        case _:
            problem = (
                f"the step {type(step).__name__} of a SparkJob is only what the simulation recorded of it"
            )
            raise SparkJobError(problem, step.place, "Name the function that builds the job: MODULE:FUNCTION")
