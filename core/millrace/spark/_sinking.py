"""Where outputs go (MillWheel 4.1): a function that takes each micro-batch, as ``foreachBatch`` would call it, for each stream.

Rules of this file: a sink gets the same rows again if a micro-batch has to be finished after a crash, under the same number and
the same query's identity (Spark's local property ``sql.streaming.queryId``); what it makes of that decides whether its effects
are exactly-once. `DatabaseSink` and `FileSink` know a batch that comes again by these two, and so serve one stream each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from millrace._pipeline import Pipeline
from millrace.spark._attach import Outputs
from millrace.spark._errors import SparkHostError
from millrace.spark._file_sink import FileSink
from millrace.spark._sinks import DatabaseSink

Sink = Callable[[DataFrame, int], object]
"""Takes a micro-batch's rows of one stream, and its number: a function, a ``DatabaseSink``, a `FileSink`."""


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
        """Refuse sinks for other streams than these, and one that would take a second stream's rows for the first one's.

        Raises:
            SparkHostError: there is one.
        """
        strange = [stream for stream in self.by_stream if stream not in streams]
        if strange:
            problem = (
                f"sinks are given for {strange}, and out of pipeline {pipeline.name!r} come {list(streams)}"
            )
            raise SparkHostError(problem, "Give sinks for these only")
        users: dict[int, str] = {}
        for stream, sink in [*self.by_stream.items(), ("the History", self.history)]:
            plain = sink.sink if isinstance(sink, TypedSink) else sink
            other = users.setdefault(id(plain), stream)
            if isinstance(plain, FileSink | DatabaseSink) and other != stream:
                problem = f"one {type(plain).__name__} is given for both {other!r} and {stream!r}"
                raise SparkHostError(
                    problem, "Make one for each, with a writer= of its own if they share a place"
                )

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
