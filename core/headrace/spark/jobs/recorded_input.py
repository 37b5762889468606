"""Recorded input for Spark: source events as files, each the input of one micro-batch (MillWheel 5.2).

Rules of this file: a file ends with a heartbeat, the minimum watermark of the injector's processes as of its last event. The
names of the files in a directory sort in the order of arrival.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace.api.pipeline import Pipeline
from headrace.api.specs import InjectorSpec
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.runtime.event_time import to_spark
from headrace.spark.sources.schema import ARROW_SCHEMA, INJECTED_SCHEMA
from headrace.wire.effects import SourceEvent, SourceRecord


class Landing:
    """Writes recorded events to a directory for each injector.

    Args:
        pipeline: the pipeline with the injectors.
        directory: parent of these directories; if it exists, it must be empty.
    """

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        self._injectors = dict(pipeline.injectors)
        self._directory = directory
        self._count = 0
        self._progress = {
            address: MIN_TIME for spec in self._injectors.values() for address in spec.addresses()
        }
        self._arrived = dict(self._progress)
        for name in self._injectors:
            (directory / name).mkdir(parents=True)

    def put(self, events: Iterable[tuple[str, SourceEvent]]) -> None:
        """Write events, (address of the injector's process, event), as one file for each injector."""
        by_injector: dict[str, list[tuple[str, SourceEvent]]] = {name: [] for name in self._injectors}
        for address, event in events:
            by_injector[address.rpartition("/")[0]].append((address, event))
        for name, own in by_injector.items():
            rows = [row for address, event in own if (row := self._row(address, event)) is not None]
            rows += self._heartbeat(self._injectors[name])
            self._write(self._directory / name, rows)
        self._count += 1

    def _row(self, address: str, event: SourceEvent) -> tuple[object, ...] | None:
        self._arrived[address] = max(self._arrived[address], event.arrived_us)
        if isinstance(event, SourceRecord):
            name = f"{address}:{event.offset}"
            return event.stream, event.key, event.value, event.timestamp, name, event.arrived_us, None, None
        self._progress[address] = max(self._progress[address], event.low_watermark)
        return None

    def _heartbeat(self, spec: InjectorSpec) -> list[tuple[object, ...]]:
        low = min(self._progress[address] for address in spec.addresses())
        horizon = MAX_TIME if low == MAX_TIME else min(self._arrived[address] for address in spec.addresses())
        mark: dt.datetime | None = to_spark(low)
        return [(None, None, None, None, None, None, mark, horizon)] if mark is not None else []

    def _write(self, directory: Path, rows: list[tuple[object, ...]]) -> None:
        columns = zip(*rows, strict=True) if rows else [()] * len(ARROW_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
        hidden = directory / f".{self._count:06d}"
        pq.write_table(pa.table(arrays, schema=ARROW_SCHEMA), hidden)
        hidden.rename(directory / f"{self._count:06d}.parquet")


def landed(spark: SparkSession, pipeline: Pipeline, directory: Path) -> Mapping[str, DataFrame]:
    """Read a `Landing`'s directory as streaming inputs for `attach`: each file is a micro-batch."""
    reader = spark.readStream.schema(INJECTED_SCHEMA).option("maxFilesPerTrigger", 1)
    return {name: reader.parquet(str(directory / name)) for name in pipeline.injectors}
