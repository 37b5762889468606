"""Feeds as files that Spark reads batch by batch, and what comes out."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from headrace import Pipeline
from headrace.spark import Deployment, Layout, deploy
from headrace.spark.hosting.outputs import Outputs
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import Landing, landed, landed_bounded
from headrace_properties.reference import Emitted
from headrace_sim import Feed


def by_day(layout: Layout) -> list[object]:
    """Return the parameters of a test of both layouts, of which the other one runs only by night: each starts Spark jobs."""
    return [one if one is layout else pytest.param(one, marks=pytest.mark.nightly) for one in Layout]


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
    return emitted(
        attach(pipeline, landed_bounded(spark, pipeline, place / "landing"), intervals=2).frame.collect()
    )


def run_staged(
    spark: SparkSession,
    pipeline: Pipeline,
    feed: Feed,
    place: Path,
    *,
    parts: int = 2,
    restart_after: int | None = None,
) -> Counter[Emitted]:
    """Run a feed in parts through a job of a query for each computation; after some of them stop it, and let it go on."""
    landing = Landing(pipeline, place / "landing")
    taken: dict[object, list[tuple[object, ...]]] = {}

    def sink(stream: str) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, number: int) -> None:
            rows = frame.select("key", "value", F.unix_micros("timestamp")).collect()
            made: list[tuple[object, ...]] = [(stream, row[0], row[1].encode(), row[2]) for row in rows]
            # Each computation's query numbers its batches; a batch that is run again gives the same rows.
            taken[stream, number, repr(sorted(made, key=repr))] = made

        return take

    sinks = {stream: sink(stream) for stream in pipeline.output_streams}

    def start() -> Deployment:
        inputs = landed(spark, pipeline, place / "landing")
        return deploy(
            pipeline, inputs, directory=place / "job", sinks=sinks, layout=Layout.STAGED, intervals=2
        )

    job = start()
    entries = [(entry.address, entry.event) for entry in feed.entries]
    size = -(-len(entries) // parts)
    try:
        for number in range(parts):
            landing.put(entries[number * size : (number + 1) * size])
            job.await_idle()
            if number == restart_after:
                job.stop()
                job = start()
        job.await_idle()
    finally:
        job.stop()
    return emitted(row for rows in taken.values() for row in rows)
