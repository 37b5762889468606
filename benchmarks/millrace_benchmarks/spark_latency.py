"""How long the smallest micro-batch takes: one record, through one counting computation, in both layouts.

Measured from the moment that the record's file is there until its count is at the sink, and, by Spark's own account, how long the
micro-batches that it went through took. Between two records the job comes to rest.
"""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from millrace import SECOND, Computation, Context, Pipeline, Record
from millrace.spark import Deployment, Input, Layout, deploy

_PATIENCE_S = 60.0
_WARM_UP = 5


@dataclass(frozen=True, slots=True)
class BatchLatency:
    """What records have taken.

    Attributes:
        layout: in which.
        records: how many, one after the other.
        median_us: from its file to the sink, microseconds.
        longest_us: likewise, the worst.
        batches_us: the micro-batches on a record's way, together, by Spark's account; median, microseconds.
    """

    layout: Layout
    records: int
    median_us: int
    longest_us: int
    batches_us: int


class _Count(Computation):
    """Counts, and says so."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """One more."""
        context.state = context.state + 1
        context.produce("counts", context.state)


class _Sink:
    """Says when it has got something."""

    def __init__(self) -> None:
        self.got = threading.Event()

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        frame.collect()
        self.got.set()


def batch_latency(spark: SparkSession, layout: Layout, place: Path, records: int = 20) -> BatchLatency:
    """Send records, one at a time.

    Args:
        spark: a session.
        layout: of the job.
        place: an empty directory.
        records: how many, after a few for warming up.
    """
    landing, sink = place / "landing", _Sink()
    landing.mkdir(parents=True)
    pipeline = Pipeline("latency")
    pipeline.injector("records")
    pipeline.add(_Count(), name="count", inputs=["records"], outputs=["counts"])
    frame = spark.readStream.schema("key string, timestamp long").parquet(str(landing))
    given = {"records": Input(frame, key="key", timestamp="timestamp", value="timestamp")}
    with deploy(pipeline, given, directory=place / "job", sinks={"counts": sink}, layout=layout) as job:
        for number in range(_WARM_UP):
            _send(landing, number, sink)
            job.await_idle()
        ways, batches = [], []
        for number in range(_WARM_UP, _WARM_UP + records):
            ways.append(_send(landing, number, sink))
            job.await_idle()
            batches.append(_last_batches_us(job))
    return BatchLatency(layout, records, int(median(ways)), max(ways), int(median(batches)))


def _send(landing: Path, number: int, sink: _Sink) -> int:
    """Let a record fall; tell how long its count took, microseconds."""
    sink.got.clear()
    draft = landing / f".{number}"
    table = pa.table({"key": ["anna"], "timestamp": pa.array([(number + 1) * SECOND], pa.int64())})
    pq.write_table(table, draft)
    began_us = time.perf_counter_ns() // 1_000
    draft.rename(landing / f"{number}.parquet")
    assert sink.got.wait(_PATIENCE_S), "the record does not come out"
    return time.perf_counter_ns() // 1_000 - began_us


def _last_batches_us(job: Deployment) -> int:
    """Of each query, the last micro-batch that had input, added up."""
    total_ms = 0
    for running in job._host.queries():
        busy = [one for one in running.query.recentProgress if one["numInputRows"]]
        total_ms += busy[-1]["durationMs"]["triggerExecution"]
    return total_ms * 1_000
