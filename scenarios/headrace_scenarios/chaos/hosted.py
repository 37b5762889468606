"""A pipeline on Spark as a program: ``headrace verify -m headrace_scenarios.chaos.hosted --on spark -- MODULE:PIPELINE``.

It runs the pipeline on the input that its module makes from seed 0, and writes all outputs through a `DatabaseSink`. With
``--append`` as a second argument the sink adds the rows of any driver, as one without fencing does.
"""

import importlib
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace import Pipeline
from headrace.spark import DatabaseSink, attach, prepare_session
from headrace.spark.jobs.recorded_input import Landing, landed

BATCHES = 2
"""Choice: how many micro-batches the input comes in; each has all crash points."""
_DATABASE, _TABLE = "outputs.sqlite", "outputs"


def landed_rows(pipeline: Pipeline, entries: Any) -> list[list[Any]]:
    """Return the rows of each micro-batch as Spark reads them; where there are several injectors, each with its own name."""
    with tempfile.TemporaryDirectory() as made:
        landing = Landing(pipeline, Path(made, "landing"))
        events = [(entry.address, entry.event) for entry in entries]
        for number in range(BATCHES):
            first, last = (part * len(events) // BATCHES for part in (number, number + 1))
            landing.put(events[first:last])
        batches: list[list[Any]] = [[] for _ in range(BATCHES)]
        for name in pipeline.injectors:
            for number, file in enumerate(sorted(Path(made, "landing", name).glob("*.parquet"))):
                rows = [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
                batches[number] += rows if len(pipeline.injectors) == 1 else [{name: row} for row in rows]
        return batches


def append(frame: DataFrame, _batch: int) -> None:
    """Add the rows of a micro-batch, whoever writes it."""
    rows = [(row[0], row[1], bytes(row[2])) for row in frame.collect()]
    with sqlite3.connect(_DATABASE) as database:
        database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (stream TEXT, key TEXT, value BLOB)")
        database.executemany(f"INSERT INTO {_TABLE} VALUES (?, ?, ?)", rows)  # noqa: S608  our own name


if __name__ == "__main__":
    module, _, attribute = sys.argv[1].partition(":")
    loaded = importlib.import_module(module)
    pipeline = getattr(loaded, attribute)
    feed = landed_rows(pipeline, loaded.feed(0).entries)
    spark = SparkSession.builder.getOrCreate()
    prepare_session(spark)
    outputs = attach(pipeline, landed(spark, pipeline, Path("/landing")), intervals=1).everything
    sink = append if "--append" in sys.argv else DatabaseSink(_DATABASE, _TABLE)
    outputs.writeStream.foreachBatch(sink).option(
        "checkpointLocation", "/checkpoint"
    ).start().awaitTermination()
