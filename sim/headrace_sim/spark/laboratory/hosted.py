"""A Headrace pipeline in the laboratory: the query that a driver starts for it, and what a trial of it leaves.

Rules of this file:

* One operator hosts the whole pipeline, as in a pipelined job: each start of an operator costs two CPU seconds.
* Without a ``sink`` in its module, outputs and History go to one table through a `TableSink`, and states are read from the
  History. A ``sink`` of the module's gets the outputs alone, and what it leaves is compared.
"""

import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.streaming import DataStreamWriter

from headrace import Pipeline
from headrace.wire.effects import SourceEvent
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.laboratory.looks import called_in_laboratory
from headrace_sim.spark.plan.plan_splitter import PARAMETER
from headrace_sim.spark.refusals import definition_of
from headrace_sim.spark.spark_job import SparkJob, SparkSink, StreamSource

BATCHES = 2
"""Choice: how many micro-batches the input comes in; each has all crash points."""
SINK = "sink"
"""What a module calls the function of ``foreachBatch`` that writes the outputs of its pipelines."""
_DATABASE, _TABLE = "outputs.sqlite", "outputs"
_LOCKED_S = 1.0
"""How long a driver waits for the lock of one that hangs in a transaction, and only goes on behind it."""
OUTPUTS = f"{_DATABASE}: {_TABLE}"
"""Where outputs and History are, if the module has no sink."""


def query_of_pipeline(pipeline: Pipeline) -> SparkJob:
    """Return the query that hosts a pipeline, with a stream for each injector.

    Raise `HeadraceError` if an injector has a skew limit.
    """
    # Not every PySpark hosts pipelines:
    from headrace.spark.jobs.attach import check_followed  # noqa: PLC0415
    from headrace.spark.sources.schema import INJECTED_SCHEMA  # noqa: PLC0415

    check_followed(pipeline, {}, "a trial of the laboratory")
    sources = tuple(StreamSource(name, "", INJECTED_SCHEMA) for name in pipeline.injectors)
    several = t.StructType([t.StructField(source.name, source.schema) for source in sources])
    alone = INJECTED_SCHEMA if len(sources) == 1 else several
    meant = Declares(new_checkpoint=False)  # which begins with no state: nothing would be as it was
    return SparkJob(alone, sink=SparkSink(called_in_laboratory), sources=sources, declares=meant)


def place_of_sink(module: str) -> str:
    """Return where what writes the outputs of a module's pipelines is defined, ``file:line``."""
    loaded = sys.modules[module]
    return definition_of(getattr(loaded, SINK, None)) or f"{loaded.__file__}:1"


def rows_of_batches(
    pipeline: Pipeline, events: Sequence[tuple[str, SourceEvent]]
) -> list[list[tuple[Any, ...] | dict[str, tuple[Any, ...]]]]:
    """Return the rows of each micro-batch as Spark reads them; of several injectors, each with its injector's name."""
    from pyarrow import parquet  # noqa: PLC0415  as above

    from headrace.spark.jobs.recorded_input import Landing  # noqa: PLC0415  as above

    with tempfile.TemporaryDirectory() as folder:
        landing = Landing(pipeline, Path(folder, "landing"))
        for number in range(BATCHES):
            first, last = (part * len(events) // BATCHES for part in (number, number + 1))
            landing.put(events[first:last])
        batches: list[list[Any]] = [[] for _ in range(BATCHES)]
        for name in pipeline.injectors:
            for number, file in enumerate(sorted(Path(folder, "landing", name).glob("*.parquet"))):
                rows = [tuple(row.values()) for row in parquet.read_table(file).to_pylist()]
                batches[number] += rows if len(pipeline.injectors) == 1 else [{name: row} for row in rows]
        return batches


def writer_of_pipeline(pipeline: Pipeline, module: str, spark: SparkSession) -> DataStreamWriter:
    """Return what starts the query of a pipeline of a module in this process, a driver."""
    # Not every PySpark hosts pipelines:
    from headrace.spark import TableSink, prepare_session  # noqa: PLC0415
    from headrace.spark.hosting.history_sample import FULL  # noqa: PLC0415
    from headrace.spark.hosting.layout import JobPlan  # noqa: PLC0415
    from headrace.spark.hosting.outputs import unpacked  # noqa: PLC0415
    from headrace.spark.jobs.attach import attached  # noqa: PLC0415
    from headrace.spark.sources.schema import INJECTED_SCHEMA  # noqa: PLC0415

    prepare_session(spark)
    written = getattr(importlib.import_module(module), SINK, None)
    inputs = {
        name: spark.readStream.format(PARAMETER).schema(INJECTED_SCHEMA).option("name", name).load()
        for name in pipeline.injectors
    }
    plan = JobPlan(pipeline, 1, history=None if written else FULL, partitions=1, fused=True)
    outputs = unpacked(attached(pipeline, inputs, plan, clock=None), pipeline, tallies=False)
    frame = outputs.frame if written else outputs.everything
    sink = written or TableSink(_DATABASE, _TABLE, timeout_s=_LOCKED_S)
    return frame.writeStream.foreachBatch(sink).option("checkpointLocation", "/checkpoint")
