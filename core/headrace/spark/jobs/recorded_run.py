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
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.pipeline import Pipeline
from headrace.api.progress import ComputationProgress
from headrace.api.time import MAX_TIME, SECOND
from headrace.history import History
from headrace.spark.host_errors import QueryStoppedError
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.history_sample import Sample, sample_of
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.parcels import decode_parcel, decode_tally, is_tally
from headrace.spark.hosting.placement import partitions_for
from headrace.spark.hosting.progress_board import Board
from headrace.spark.jobs.attach import attached
from headrace.spark.jobs.driven_clock import DrivenClock, inputs_of
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.jobs.running_query import Progress
from headrace.spark.runtime.event_time import low_watermark_of
from headrace.spark.runtime.job_files import scratch
from headrace.spark.runtime.spark_session import files_managed, most_partitions, partitions_set
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
    clock_us: int | None = None,
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
        clock_us: how often to check for due wall timers, microseconds; ``None``: there are no wall timers. The clock is the
            machine's: the recorded times of arrival do not count. At its end, the run waits for wall timers as long as any holds
            a low watermark.
        history: record the History; a `Sample`: of some of the keys.
        on_batch: called with the result so far after each micro-batch of input.
        should_stop: called before each micro-batch of input is added; if it returns true, the run ends with what was added, and
            waits for no wall timer. The next micro-batch is added while one is processed.

    Raises:
        SparkHostError: the pipeline uses a feature that Spark does not support.
    """
    run, history_rows, board = RecordedRun(), list[bytes](), Board()
    driven = None if clock_us is None else DrivenClock(clock_us)
    place = Path(tempfile.mkdtemp(prefix="recorded-", dir=scratch()))
    landing = Landing(pipeline, place / "landing")
    partitions = partitions_for(intervals, most_partitions(spark))
    layout = JobPlan(
        pipeline, intervals, history=sample_of(history), partitions=partitions, fused=partitions == 1
    )
    parcels = attached(
        pipeline,
        landed(spark, pipeline, place / "landing"),
        layout,
        clock=None if driven is None else driven.clock,
    )
    writer = parcels.writeStream.foreachBatch(lambda frame, _: _take(frame, run, history_rows, board, driven))
    began = time.monotonic()
    with partitions_set(spark, partitions), files_managed(spark, place):
        query = writer.option("checkpointLocation", str(place / "checkpoint")).start()

    def tell(done: int) -> None:
        run.events = min(done * batch_events, len(events))
        run.progress = board.progress(pipeline, low_watermark_of(query.lastProgress))
        if on_batch is not None:
            on_batch(run)

    def is_held() -> bool:
        return board.wall_due() is not None and board.slowest(pipeline) < MAX_TIME and not should_stop()

    try:
        files = 0
        while files * batch_events < len(events) and not should_stop():
            landing.put(events[files * batch_events : (files + 1) * batch_events])
            files += 1
            # The next file is there before the last one is done: otherwise Spark would run a micro-batch without data between.
            if files > 1:
                _await(query, partial(_has_read, files - 1))
                tell(files - 1)
        _settle(query, driven, is_held)
        tell(files)
    finally:
        query.stop()
        shutil.rmtree(place / "landing", ignore_errors=True)
    run.seconds = time.monotonic() - began
    run.history = history_of(pipeline, history_rows) if history else None
    return run


def _settle(query: StreamingQuery, clock: DrivenClock | None, is_held: Callable[[], bool]) -> None:
    """Wait until all that has landed is processed, and nothing holds a low watermark until a wall timer is due."""
    if clock is None:
        query.processAllAvailable()
        return
    clock.settle(lambda is_wanted: _await(query, is_wanted))
    while is_held():
        time.sleep(clock.clock.every_us / SECOND)
        clock.settle(lambda is_wanted: _await(query, is_wanted))


def _await(query: StreamingQuery, is_wanted: Callable[[Progress], bool]) -> Progress:
    """Wait for the report of such a micro-batch, and return it."""
    while True:
        progress: Progress | None = query.lastProgress
        if progress is not None and is_wanted(progress):
            return progress
        if not query.isActive:
            query.processAllAvailable()  # raises the error that ended it
            raise QueryStoppedError(query.name or "recorded")
        time.sleep(_LOOK_EVERY_S)


def _has_read(files: int, progress: Progress) -> bool:
    """Return whether this number of files of each injector has been read."""
    return all(_offset(source) >= files - 1 for source in inputs_of(progress))


def _offset(source: Mapping[str, Any]) -> int:
    """Return the number of the last file that a source has read; -1: none."""
    end = source["endOffset"]
    offset = json.loads(end) if isinstance(end, str) else end
    return -1 if offset is None else int(offset["logOffset"])


def _take(
    frame: DataFrame, run: RecordedRun, history_rows: list[bytes], board: Board, clock: DrivenClock | None
) -> None:
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
        history_rows += parcel.events
    board.take(tallies)
    if clock is not None:
        clock.take(tallies)
    run.batches += 1
