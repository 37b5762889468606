"""Feeds as files that Spark reads batch by batch, and what comes out."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millrace import MIN_TIME, Pipeline
from millrace._effects import SourceRecord
from millrace.spark._attach import Outputs, attach
from millrace.spark._clock import to_spark
from millrace_properties.reference import Emitted
from millrace_sim import Feed
from millrace_sim.feed import FeedEntry

_SCHEMA = pa.schema([
    ("stream", pa.string()), ("key", pa.string()), ("value", pa.binary()), ("timestamp", pa.int64()), ("record_id", pa.string()),
    ("arrived", pa.int64()), ("horizon", pa.int64()), ("_injector_watermark", pa.timestamp("us", "UTC")),
])  # fmt: skip
_COLUMNS = (
    "stream string, key string, value binary, timestamp long, record_id string, arrived long, horizon long,"
    " _injector_watermark timestamp"
)


class Landing:
    """A directory for each injector, into which a feed's entries fall, a file at a time."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        self.pipeline = pipeline
        self.directory = directory
        self._count = 0
        self._progress = {a: MIN_TIME for spec in pipeline.injectors.values() for a in spec.addresses()}
        self._horizons = dict(self._progress)
        for name in pipeline.injectors:
            (directory / name).mkdir(parents=True)

    def put(self, entries: Iterable[FeedEntry]) -> None:
        """Let these fall: one file for each injector, with a heartbeat at its end."""
        entries = list(entries)
        for name, spec in self.pipeline.injectors.items():
            rows = [
                row for entry in entries if entry.address in spec.addresses() for row in self._rows(entry)
            ]
            low = min(self._progress[address] for address in spec.addresses())
            horizon = min(self._horizons[address] for address in spec.addresses())
            mark: dt.datetime | None = to_spark(low)
            if mark is not None:
                rows.append((None, None, None, None, None, None, horizon, mark))
            self._write(self.directory / name, rows)
        self._count += 1

    def _rows(self, entry: FeedEntry) -> list[tuple[object, ...]]:
        event, address = entry.event, entry.address
        self._horizons[address] = max(self._horizons[address], event.arrived_us)
        if isinstance(event, SourceRecord):
            name = f"{address}:{event.offset}"
            return [
                (event.stream, event.key, event.value, event.timestamp, name, event.arrived_us, None, None)
            ]
        self._progress[address] = max(self._progress[address], event.low_watermark)
        return []

    def _write(self, directory: Path, rows: list[tuple[object, ...]]) -> None:
        table = pa.Table.from_pylist(
            [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], schema=_SCHEMA
        )
        hidden = directory / f".{self._count:06d}"
        pq.write_table(table, hidden)
        hidden.rename(directory / f"{self._count:06d}.parquet")

    def stream(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The injectors, each file a micro-batch."""
        reader = spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1)
        return {name: reader.parquet(str(self.directory / name)) for name in self.pipeline.injectors}

    def read(self, spark: SparkSession) -> dict[str, DataFrame]:
        """All that has fallen, as bounded input."""
        return {
            name: spark.read.schema(_COLUMNS).parquet(str(self.directory / name))
            for name in self.pipeline.injectors
        }


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
    inputs = landing.stream(spark)
    query = begin(
        attach(pipeline, inputs, intervals=2, history=history),
        collected,
        place / "checkpoint",
        history=history,
    )
    entries = list(feed.entries)
    size = -(-len(entries) // parts)
    try:
        for number in range(parts):
            landing.put(entries[number * size : (number + 1) * size])
            query.processAllAvailable()
            if number == restart_after:
                query.stop()
                outputs = attach(pipeline, landing.stream(spark), intervals=2, history=history)
                query = begin(outputs, collected, place / "checkpoint", history=history)
        query.processAllAvailable()
    finally:
        query.stop()
    return collected


def run_bounded(spark: SparkSession, pipeline: Pipeline, feed: Feed, place: Path) -> Counter[Emitted]:
    """Run a feed as one bounded batch."""
    landing = Landing(pipeline, place / "landing")
    landing.put(feed.entries)
    return emitted(attach(pipeline, landing.read(spark), intervals=2).frame.collect())
