"""What a query only shows (``console``, ``memory``, ``noop``): kept in a trial by batch, so that it can be compared.

A batch that is run again takes its own place: what differs then is what the query computes, and not that it is shown again.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import DataStreamWriter

from headrace_sim.spark.job import OutputMode, SparkSink
from headrace_sim.spark.sinks.streaming_sinks import BatchAgain, streaming_sink


def is_shown(sink: SparkSink) -> bool:
    """Return whether a sink of Spark's own only shows its rows."""
    row = streaming_sink(sink.format)
    return row is not None and row.again is BatchAgain.SHOWN


def keep_rows(sink: SparkSink, writer: DataStreamWriter, really_each_batch: Callable[..., Any]) -> str:
    """Let a query write what it would show to a directory, and return its path. ``really_each_batch``: PySpark's own."""
    spark, frame = writer._spark, writer._df
    view = sink.name if sink.format.lower() == "memory" else ""
    path = f"/{sink.format.lower()}"

    def keep(batch: Any, batch_id: int) -> None:
        batch._jdf.toJSON().write().mode("overwrite").text(f"{path}/batch={batch_id}")
        if view:
            there = batch_id if sink.output_mode is OutputMode.COMPLETE else "*"
            rows = spark._jsparkSession.read().schema(frame._jdf.schema()).json(f"{path}/batch={there}")
            rows.createOrReplaceTempView(view)

    if view:
        spark.createDataFrame([], frame.schema).createOrReplaceTempView(view)
    really_each_batch(writer, keep)
    return path
