"""The sinks of a job (MillWheel 4.1): for each output stream, a function like those for ``foreachBatch``.

Rules of this file: if a micro-batch is finished only after a crash, a sink gets the same rows again, with the same batch number
and the same query id (Spark's local property ``sql.streaming.queryId``). Whether its effects are exactly-once depends on what it
does then. `TableSink` and `FileSink` recognize a repeated batch by these two, so each serves only one stream.
"""

import sys
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.api.pipeline import Pipeline
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.outputs import Outputs
from headrace.spark.sinks.file_sink import FileSink
from headrace.spark.sinks.table_sink import TableSink

Sink = Callable[[DataFrame, int], object]
"""Takes a micro-batch's rows of one stream, and its number: a function, a `TableSink`, a `FileSink`."""


@dataclass(frozen=True, slots=True)
class TypedSink:
    """A sink that gets the fields of the values as columns (see `Outputs.table`).

    Attributes:
        sink: the sink.
        columns: names and types of the fields, as a Spark schema: ``"count long, city string"``.
    """

    sink: Sink
    columns: StructType | str


class NoSinkWarning(UserWarning):
    """Output streams of a job have no sink. Fields: streams."""

    def __init__(self, streams: tuple[str, ...]) -> None:
        super().__init__(streams)
        self.streams = streams

    def __str__(self) -> str:
        """Name the streams and what to do."""
        names = ", ".join(map(repr, self.streams))
        example = f"sinks={{{self.streams[0]!r}: ...}}"
        return (
            f"no sink is given for {names}, so these outputs are discarded. Give each a sink, {example}, or None to discard it "
            "without this warning"
        )


@dataclass(frozen=True, slots=True)
class Sinks:
    """All sinks of a deployment.

    Attributes:
        by_stream: output stream to sink; ``None``: the stream is discarded on purpose.
        history: sink for the History events, in a column ``value``.
    """

    by_stream: Mapping[str, Sink | TypedSink | None]
    history: Sink | None = None

    def changed(self, pipeline: Pipeline, changes: Mapping[str, Sink | TypedSink | None]) -> "Sinks":
        """Return the sinks of a changed pipeline: these, except where others are given, and without those of removed streams.

        Args:
            pipeline: the new version.
            changes: output stream to sink; ``None``: the stream no longer has one.
        """
        known, outside = pipeline.streams, pipeline.output_streams
        kept = {
            stream: sink
            for stream, sink in {**self.by_stream, **changes}.items()
            if stream in outside
            or (stream in known and sink is not None)
            or (stream in changes and stream not in known)  # to be refused
        }
        return Sinks(kept, self.history)

    def warn_of_missing(self, pipeline: Pipeline, known: Sequence[str] = ()) -> None:
        """Warn of output streams that have no sink and are not discarded on purpose.

        Args:
            pipeline: the pipeline that will run.
            known: streams that need no warning, because an earlier version had them.
        """
        missing = [
            stream
            for stream in pipeline.output_streams
            if stream not in self.by_stream and stream not in known
        ]
        if missing:
            warnings.warn(NoSinkWarning(tuple(missing)), stacklevel=_depth_of_caller())

    def check(self, pipeline: Pipeline) -> None:
        """Refuse sinks for unknown streams, and a database or file sink for two streams, which it would confuse.

        Raises:
            SparkHostError: there is such a sink.
        """
        streams = pipeline.output_streams
        strange = [stream for stream in self.by_stream if stream not in streams]
        if strange:
            problem = f"sinks are given for {strange}, but the outputs of pipeline {pipeline.name!r} are {list(streams)}"
            raise SparkHostError(
                problem,
                "Give sinks only for these outputs; to remove a sink in a change, give sinks={stream: None}",
            )
        users: dict[int, str] = {}
        for stream, sink in [*self.by_stream.items(), ("the History", self.history)]:
            if sink is None:
                continue
            plain = sink.sink if isinstance(sink, TypedSink) else sink
            other = users.setdefault(id(plain), stream)
            if isinstance(plain, FileSink | TableSink) and other != stream:
                problem = f"one {type(plain).__name__} is given for both {other!r} and {stream!r}"
                raise SparkHostError(
                    problem, "Create one for each, with a separate writer= if they share a table or path"
                )

    def wanted(self, streams: Container[str | None]) -> list[str]:
        """Return those of the streams with rows that have a sink."""
        return [stream for stream, sink in self.by_stream.items() if sink is not None and stream in streams]

    def write(self, outputs: Outputs, stream: str, number: int) -> None:
        """Pass a stream's rows of a micro-batch to its sink."""
        sink = self.by_stream[stream]
        if isinstance(sink, TypedSink):
            sink.sink(outputs.table(stream, sink.columns), number)
        elif sink is not None:
            sink(outputs.table(stream), number)


def _depth_of_caller() -> int:
    """Return the number of frames between the caller and the user's own code."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("headrace.spark."):
        depth, frame = depth + 1, frame.f_back
    return depth
