"""Running a recorded input through a pipeline on Spark, from beginning to end, for comparison with other hosts.

Choice: a run's checkpoint stays on disk until this process ends, because Spark maintains the state of a stopped query for a while
and logs errors if it is missing. The input, which is larger, is deleted at once.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.history import History
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.progress import Board
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.runtime.event_time import low_watermark_of
from headrace.spark.runtime.files import scratch
from headrace.wire.effects import SourceEvent

Output = tuple[str, str, bytes, int]
"""Stream, key, value as its codec writes it, and timestamp in microseconds."""


@dataclass(slots=True)
class RecordedRun:
    """The result of a run.

    Attributes:
        outputs: all outputs, in no particular order.
        history: the History, if it was asked for.
        batches: number of micro-batches.
        seconds: wall time from the start of the query to the end of its last micro-batch, seconds.
        events: number of input events processed: all, unless the run was asked to stop.
        progress: progress of each computation.
    """

    outputs: list[Output] = field(default_factory=list)
    history: History | None = None
    batches: int = 0
    seconds: float = 0.0
    events: int = 0
    progress: tuple[ComputationProgress, ...] = ()


def run_recorded(
    spark: SparkSession,
    pipeline: Pipeline,
    events: Sequence[tuple[str, SourceEvent]],
    *,
    batch_events: int = 8_000,
    intervals: int = 8,
    history: bool | Sample = False,
    on_batch: Callable[[RecordedRun], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> RecordedRun:
    """Run a pipeline over a recorded input, as a stream in micro-batches.

    Args:
        spark: a session.
        pipeline: the pipeline to run.
        events: (address of the injector's process, event) in order of arrival; the last of each address is a watermark of
            `MAX_TIME`.
        batch_events: number of events in one micro-batch.
        intervals: number of key intervals of each computation.
        history: record the History; a `Sample`: of some of the keys.
        on_batch: called with the result so far after each micro-batch of input.
        should_stop: called before each micro-batch of input; if it returns true, the run ends there.

    Raises:
        SparkHostError: the pipeline uses a feature that Spark does not support.
    """
    run, told, board = RecordedRun(), list[bytes](), Board()
    place = Path(tempfile.mkdtemp(prefix="recorded-", dir=scratch()))
    landing = Landing(pipeline, place / "landing")
    outputs = attach(
        pipeline,
        landed(spark, pipeline, place / "landing"),
        intervals=intervals,
        history=history,
        tallies=True,
    )
    writer = outputs.everything.writeStream.foreachBatch(lambda frame, _: _take(frame, run, told, board))
    began = time.monotonic()
    query = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    try:
        while run.events < len(events) and not should_stop():
            batch = events[run.events : run.events + batch_events]
            landing.put(batch)
            query.processAllAvailable()
            run.events += len(batch)
            run.progress = board.progress(pipeline, low_watermark_of(query.lastProgress))
            if on_batch is not None:
                on_batch(run)
    finally:
        query.stop()
        shutil.rmtree(place / "landing", ignore_errors=True)
    run.seconds = time.monotonic() - began
    run.history = history_of(pipeline, told) if history else None
    return run


def _take(frame: DataFrame, run: RecordedRun, told: list[bytes], board: Board) -> None:
    """Sort the rows of a micro-batch into outputs, tallies and History events."""
    tallies = []
    for stream, key, value, timestamp, _record_id in frame.collect():
        if stream is not None:
            run.outputs.append((stream, key, bytes(value), timestamp))
        elif key is not None:
            tallies.append(key)
        else:
            told.append(bytes(value))
    board.take_encoded(tallies)
    run.batches += 1
