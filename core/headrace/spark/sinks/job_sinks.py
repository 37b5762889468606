"""Where outputs go (MillWheel 4.1): a function that takes each micro-batch, as ``foreachBatch`` would call it, for each stream.

Rules of this file: a sink gets the same rows again if a micro-batch has to be finished after a crash, under the same number and
the same query's identity (Spark's local property ``sql.streaming.queryId``); what it makes of that decides whether its effects
are exactly-once. `DatabaseSink` and `FileSink` know a batch that comes again by these two, and so serve one stream each.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.api.pipeline import Pipeline
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.outputs import Outputs
from headrace.spark.sinks.database_sink import DatabaseSink
from headrace.spark.sinks.file_sink import FileSink

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


class NoSinkWarning(UserWarning):
    """Streams that come out of a job and go nowhere. Fields: streams."""

    def __init__(self, streams: tuple[str, ...]) -> None:
        super().__init__(streams)
        self.streams = streams

    def __str__(self) -> str:
        """Name them, and say what to do."""
        names = ", ".join(map(repr, self.streams))
        example = f"sinks={{{self.streams[0]!r}: ...}}"
        return (
            f"no sink is given for {names}: what comes out there is lost. Give a sink for each, {example}, or None in its "
            "place if that is what you want"
        )


@dataclass(frozen=True, slots=True)
class Sinks:
    """All of a deployment's.

    Attributes:
        by_stream: output stream to sink; ``None``: the stream comes out nowhere, as is wanted.
        history: of the events of the History, in a column ``value``.
    """

    by_stream: Mapping[str, Sink | TypedSink | None]
    history: Sink | None = None

    def changed(self, pipeline: Pipeline, given: Mapping[str, Sink | TypedSink | None]) -> "Sinks":
        """The sinks of a changed pipeline: these, and the given ones in their place. A stream that is gone takes its sink along.

        Args:
            pipeline: the new version.
            given: output stream to sink; ``None``: the stream has none any more.
        """
        kept = {
            stream: sink
            for stream, sink in {**self.by_stream, **given}.items()
            if stream in given or stream in pipeline.streams
        }
        outside = pipeline.output_streams
        return Sinks(
            {
                stream: sink
                for stream, sink in kept.items()
                if sink is not None or stream in outside or stream not in pipeline.streams
            },
            self.history,
        )

    def warn_of_missing(self, pipeline: Pipeline, known: Sequence[str] = ()) -> None:
        """Say which streams come out nowhere without anybody having said so.

        Args:
            pipeline: that will run.
            known: streams of which it was said before.
        """
        missing = [one for one in pipeline.output_streams if one not in self.by_stream and one not in known]
        if missing:
            warnings.warn(NoSinkWarning(tuple(missing)), stacklevel=_depth_of_caller())

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
            raise SparkHostError(
                problem, "Give sinks for these only; a change takes a sink away with sinks={stream: None}"
            )
        users: dict[int, str] = {}
        for stream, sink in [*self.by_stream.items(), ("the History", self.history)]:
            if sink is None:
                continue
            plain = sink.sink if isinstance(sink, TypedSink) else sink
            other = users.setdefault(id(plain), stream)
            if isinstance(plain, FileSink | DatabaseSink) and other != stream:
                problem = f"one {type(plain).__name__} is given for both {other!r} and {stream!r}"
                raise SparkHostError(
                    problem, "Make one for each, with a writer= of its own if they share a place"
                )

    def wanted(self, streams: Mapping[str, int]) -> list[str]:
        """Of these streams, those that there are sinks for."""
        return [stream for stream, sink in self.by_stream.items() if sink is not None and streams.get(stream)]

    def write(self, outputs: Outputs, stream: str, number: int) -> None:
        """Give a stream's sink its rows of a micro-batch."""
        sink = self.by_stream[stream]
        if isinstance(sink, TypedSink):
            sink.sink(outputs.table(stream, sink.columns), number)
        elif sink is not None:
            sink(outputs.table(stream), number)


def _depth_of_caller() -> int:
    """How many frames above whoever asks the user's own code stands."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("headrace.spark."):
        depth, frame = depth + 1, frame.f_back
    return depth
