"""Feeds as files that Spark reads batch by batch, and what comes out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace import Pipeline
from headrace.spark.hosting.outputs import Outputs
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.sources.schema import INJECTED_SCHEMA
from headrace_properties.reference import Emitted
from headrace_sim import Feed


@dataclass
class Collected:
    """What has come out of a query, batch by batch; a batch that is written again replaces what it wrote before."""

    batches: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)

    def take(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [tuple(row) for row in frame.collect()]

    def outputs(self) -> Counter[Emitted]:
        return emitted(row for rows in self.batches.values() for row in rows if row[0] is not None)

    def events(self) -> list[bytes]:
        return [bytes(row[2]) for rows in self.batches.values() for row in rows if row[0] is None]  # type: ignore[call-overload]


def emitted(rows: Iterable[Sequence[object]]) -> Counter[Emitted]:
    """Count output rows."""
    found: Counter[Emitted] = Counter()
    for stream, key, value, timestamp, *_ in rows:
        found[Emitted(stream, key, bytes(value), timestamp)] += 1  # type: ignore[arg-type, call-overload]
    return found


def begin(
    outputs: Outputs, collected: Collected, checkpoint: Path, *, history: bool = False
) -> StreamingQuery:
    """Start the query."""
    frame = outputs.everything if history else outputs.frame
    return (
        frame.writeStream.foreachBatch(collected.take).option("checkpointLocation", str(checkpoint)).start()
    )


def run_streaming(
    spark: SparkSession,
    pipeline: Pipeline,
    feed: Feed,
    place: Path,
    *,
    parts: int = 3,
    restart_after: int | None = None,
    history: bool = False,
) -> Collected:
    """Run a feed in parts, each a file; after some of them stop the query and start it again from its checkpoint."""
    landing, collected = Landing(pipeline, place / "landing"), Collected()
    inputs = landed(spark, pipeline, place / "landing")
    query = begin(
        attach(pipeline, inputs, intervals=2, history=history),
        collected,
        place / "checkpoint",
        history=history,
    )
    entries = [(entry.address, entry.event) for entry in feed.entries]
    size = -(-len(entries) // parts)
    try:
        for number in range(parts):
            landing.put(entries[number * size : (number + 1) * size])
            query.processAllAvailable()
            if number == restart_after:
                query.stop()
                outputs = attach(
                    pipeline, landed(spark, pipeline, place / "landing"), intervals=2, history=history
                )
                query = begin(outputs, collected, place / "checkpoint", history=history)
        query.processAllAvailable()
    finally:
        query.stop()
    return collected


def run_bounded(spark: SparkSession, pipeline: Pipeline, feed: Feed, place: Path) -> Counter[Emitted]:
    """Run a feed as one bounded batch."""
    landing = Landing(pipeline, place / "landing")
    landing.put((entry.address, entry.event) for entry in feed.entries)
    reader = spark.read.schema(INJECTED_SCHEMA)
    inputs = {name: reader.parquet(str(place / "landing" / name)) for name in pipeline.injectors}
    return emitted(attach(pipeline, inputs, intervals=2).frame.collect())
