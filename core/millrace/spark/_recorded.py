"""Running a recorded input through a pipeline on Spark, from beginning to end: to be compared with other hosts."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from millrace._effects import SourceEvent
from millrace._pipeline import Pipeline
from millrace.history import History
from millrace.spark._attach import attach
from millrace.spark._export import history_of
from millrace.spark._landing import Landing, landed
from millrace.spark._sample import Sample

Output = tuple[str, str, bytes, int]
"""Stream, key, value as its codec writes it, and timestamp in microseconds."""


@dataclass(slots=True)
class RecordedRun:
    """What a run came to.

    Attributes:
        outputs: all of them, in no particular order.
        history: of the run, if it was asked for.
        batches: how many micro-batches it took.
        seconds: wall time, from the start of the query to the end of its last micro-batch.
    """

    outputs: list[Output] = field(default_factory=list)
    history: History | None = None
    batches: int = 0
    seconds: float = 0.0


def run_recorded(
    spark: SparkSession,
    pipeline: Pipeline,
    events: Sequence[tuple[str, SourceEvent]],
    *,
    batch_events: int = 8_000,
    intervals: int = 8,
    history: bool | Sample = False,
    on_batch: Callable[[int, int], None] | None = None,
) -> RecordedRun:
    """Run a pipeline over a recorded input, as a stream in micro-batches.

    Args:
        spark: a session.
        pipeline: to run.
        events: (address of the injector's process, event) in the order of arrival; the last of each address is a watermark of
            `MAX_TIME`.
        batch_events: so many go into one micro-batch.
        intervals: key intervals of each computation.
        history: keep the History; a `Sample`: of some of the keys.
        on_batch: is told (events done, events in all) after each micro-batch of input.

    Raises:
        SparkHostError: the pipeline asks for what Spark can not do.
    """
    run, told = RecordedRun(), list[bytes]()

    def take(frame: DataFrame, _number: int) -> None:
        for stream, key, value, timestamp, _record_id in frame.collect():
            if stream is None:
                told.append(bytes(value))
            else:
                run.outputs.append((stream, key, bytes(value), timestamp))
        run.batches += 1

    with tempfile.TemporaryDirectory(prefix="millrace-") as place:
        landing = Landing(pipeline, Path(place, "landing"))
        outputs = attach(
            pipeline, landed(spark, pipeline, Path(place, "landing")), intervals=intervals, history=history
        )
        writer = outputs.everything.writeStream.foreachBatch(take)
        began = time.monotonic()
        query = writer.option("checkpointLocation", str(Path(place, "checkpoint"))).start()
        try:
            for first in range(0, len(events), batch_events):
                landing.put(events[first : first + batch_events])
                query.processAllAvailable()
                if on_batch is not None:
                    on_batch(min(first + batch_events, len(events)), len(events))
        finally:
            query.stop()
        run.seconds = time.monotonic() - began
    run.history = history_of(pipeline, told) if history else None
    return run
