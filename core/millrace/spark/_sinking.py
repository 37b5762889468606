"""Where outputs go (MillWheel 4.1): a function that takes each micro-batch, as ``foreachBatch`` would call it, for each stream.

Rules of this file: a sink gets the same rows again if a micro-batch has to be finished after a crash, under the same number and
the same query's identity (Spark's local property ``sql.streaming.queryId``); what it makes of that decides whether its effects
are exactly-once. `FileSink` is: a batch that comes again replaces its own directory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from millrace._errors import OptionsError
from millrace._pipeline import Pipeline
from millrace.spark._attach import Outputs
from millrace.spark._errors import SparkHostError

Sink = Callable[[DataFrame, int], object]
"""Takes a micro-batch's rows of one stream, and its number: a function, a ``DatabaseSink``, a `FileSink`."""

FORMATS = ("json", "parquet", "csv", "orc")


class FileSink:
    """Writes files, each micro-batch to a directory of its own, ``PATH/query=ID/batch=NUMBER``; read them all as ``PATH``.

    Args:
        path: of a directory, as Spark writes it.
        format: ``json``, ``parquet``, ``csv`` or ``orc``.

    Raises:
        OptionsError: another format.
    """

    def __init__(self, path: str | Path, format: str = "parquet") -> None:  # noqa: A002  Spark's word
        if format not in FORMATS:
            raise OptionsError("format", format, f"one of {', '.join(FORMATS)}")
        self.path, self.format = str(path), format

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a micro-batch."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        target = f"{self.path}/query={query}/batch={batch}"
        frame.write.mode("overwrite").format(self.format).save(target)


@dataclass(frozen=True, slots=True)
class TypedSink:
    """A sink that gets the fields of the values as columns (see `Outputs.table`).

    Attributes:
        sink: which.
        columns: names and types, in Spark's words: ``"count long, city string"``.
    """

    sink: Sink
    columns: StructType | str


@dataclass(frozen=True, slots=True)
class Sinks:
    """All of a deployment's.

    Attributes:
        by_stream: output stream to sink.
        history: of the events of the History, in a column ``value``.
    """

    by_stream: Mapping[str, Sink | TypedSink]
    history: Sink | None = None

    def check(self, pipeline: Pipeline, streams: Sequence[str]) -> None:
        """Refuse sinks for other streams than these.

        Raises:
            SparkHostError: there is one.
        """
        strange = [stream for stream in self.by_stream if stream not in streams]
        if strange:
            problem = (
                f"sinks are given for {strange}, and out of pipeline {pipeline.name!r} come {list(streams)}"
            )
            raise SparkHostError(problem, "Give sinks for these only")

    def wanted(self, streams: Mapping[str, int]) -> list[str]:
        """Of these streams, those that there are sinks for."""
        return [stream for stream in self.by_stream if streams.get(stream)]

    def write(self, outputs: Outputs, stream: str, number: int) -> None:
        """Give a stream's sink its rows of a micro-batch."""
        sink = self.by_stream[stream]
        if isinstance(sink, TypedSink):
            sink.sink(outputs.table(stream, sink.columns), number)
        else:
            sink(outputs.table(stream), number)
