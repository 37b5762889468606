"""Running a recorded input through a pipeline on Spark, from beginning to end, for comparison with other hosts.

Choice: a run's checkpoint stays on disk until this process ends, because Spark maintains the state of a stopped query for a while
and logs errors if it is missing. The input, which is larger, is deleted at once.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.history import History
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.parcels import decode_parcel, decode_tally, is_tally
from headrace.spark.hosting.placement import partitions_for
from headrace.spark.hosting.progress import Board
from headrace.spark.jobs.attach import attached
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.runtime.event_time import low_watermark_of
from headrace.spark.runtime.files import scratch
from headrace.spark.runtime.session import files_managed, most_partitions, partitions_set
from headrace.wire.effects import SourceEvent

_LOOK_EVERY_S = 0.02

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
        intervals: number of key intervals of each computation. With one, a single operator hosts the whole pipeline.
        history: record the History; a `Sample`: of some of the keys.
        on_batch: called with the result so far after each micro-batch of input.
        should_stop: called before each micro-batch of input is added; if it returns true, the run ends with what was added. The
            next micro-batch is added while one is processed.

    Raises:
        SparkHostError: the pipeline uses a feature that Spark does not support.
    """
    run, told, board = RecordedRun(), list[bytes](), Board()
    place = Path(tempfile.mkdtemp(prefix="recorded-", dir=scratch()))
    landing = Landing(pipeline, place / "landing")
    partitions = partitions_for(intervals, most_partitions(spark))
    parcels = attached(
        pipeline,
        landed(spark, pipeline, place / "landing"),
        intervals=intervals,
        clock=None,
        history=history,
        partitions=partitions,
        fused=partitions == 1,
    )
    writer = parcels.writeStream.foreachBatch(lambda frame, _: _take(frame, run, told, board))
    began = time.monotonic()
    with partitions_set(spark, partitions), files_managed(spark, place):
        query = writer.option("checkpointLocation", str(place / "checkpoint")).start()

    def tell(done: int) -> None:
        run.events = min(done * batch_events, len(events))
        run.progress = board.progress(pipeline, low_watermark_of(query.lastProgress))
        if on_batch is not None:
            on_batch(run)

    try:
        files = 0
        while files * batch_events < len(events) and not should_stop():
            landing.put(events[files * batch_events : (files + 1) * batch_events])
            files += 1
            # The next file is there before the last one is done: otherwise Spark would run a micro-batch without data between.
            if files > 1:
                _await_file(query, files - 2)
                tell(files - 1)
        query.processAllAvailable()
        tell(files)
    finally:
        query.stop()
        shutil.rmtree(place / "landing", ignore_errors=True)
    run.seconds = time.monotonic() - began
    run.history = history_of(pipeline, told) if history else None
    return run


def _await_file(query: StreamingQuery, number: int) -> None:
    """Wait until the micro-batch of a file of each injector is done."""
    while True:
        progress = query.lastProgress
        if progress is not None and all(_offset(source) >= number for source in progress["sources"]):
            return
        if not query.isActive:
            query.processAllAvailable()  # raises the error that ended it
            return
        time.sleep(_LOOK_EVERY_S)


def _offset(source: Mapping[str, Any]) -> int:
    """Return the number of the last file that a source has read; -1: none."""
    found = source["endOffset"]
    offset = json.loads(found) if isinstance(found, str) else found
    return -1 if offset is None else int(offset["logOffset"])


def _take(frame: DataFrame, run: RecordedRun, told: list[bytes], board: Board) -> None:
    """Sort the last operator's rows of a micro-batch into outputs, tallies and History events."""
    tallies = []
    for (data,) in frame.select("parcel").collect():
        if is_tally(data):
            tallies.append(decode_tally(data))
            continue
        parcel = decode_parcel(data)
        run.outputs += [
            (stream, key, value, timestamp) for stream, _, key, value, timestamp, _ in parcel.records
        ]
        told += parcel.events
    board.take(tallies)
    run.batches += 1
