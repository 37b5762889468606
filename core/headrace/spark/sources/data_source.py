"""Injectors as Python data sources of Spark (MillWheel 5.2): one adapter for every source.

Rules of this file:

* **Offsets say everything.** A `Planner` keeps nothing between calls that is not in the offset it has returned, which Spark
  writes to the checkpoint before the batch runs: the rows between two offsets are the same whenever they are read.
* **A batch has a heartbeat**: its last task adds one, for all processes, as of the end of the batch. When only the watermark has
  moved, the offset has changed, and the batch is that heartbeat. When nothing has, there is no batch.
* A query that is **started again** asks a source that has nothing new, and gets its last heartbeat once more. Spark keeps only
  the least watermark of all injectors: of one that has ended it would know nothing, and wait for it for ever.
* A bounded read is everything from the initial offset on, and then the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.api.errors import OptionsError
from headrace.api.pipeline import Pipeline
from headrace.api.time import MAX_TIME
from headrace.spark.sources.rows import Entry, heartbeat
from headrace.spark.sources.schema import INJECTED_SCHEMA
from headrace.wire.messages import Progress

Offset = dict[str, Any]
"""Of a source, as Spark writes it to the checkpoint: JSON."""


_AGAIN = "again"
"""In an offset: how often the query was started again here, with nothing new to read."""


class Planner(Protocol):
    """Knows what a source has, and reads it. Sent to the workers: it must pickle."""

    max_records: int | None
    """Of one batch; ``None``: no limit."""

    def initial(self) -> Offset:
        """Where a new query begins. Always the same: Spark may ask again after a crash."""
        ...

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """How far a batch may go from ``start``, with at most so many records; equal to ``start`` if there is nothing new."""
        ...

    def all(self) -> Offset:
        """The end of a source that is read as a bounded one."""
        ...

    def freeze(self) -> None:
        """From now on only what is there now counts (``trigger(availableNow=True)``)."""
        ...

    def tasks(self, start: Offset, end: Offset) -> list[Any]:
        """What is between two offsets, divided for parallel reading."""
        ...

    def progress(self, end: Offset) -> Progress:
        """What the injector promises after ``end``: the least over its processes."""
        ...

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Read one task's rows."""
        ...


class Source(Protocol):
    """What `injected` takes: a description of an outside source."""

    def planner(self, entry: Entry) -> Planner:
        """Check it, and make what reads it into the pipeline."""
        ...


def injected(
    spark: SparkSession, pipeline: Pipeline, injector: str, source: Source, *, bounded: bool = False
) -> DataFrame:
    """Read an outside source as an injector of a pipeline.

    Args:
        spark: the session.
        pipeline: whose injector it is.
        injector: its name.
        source: `Files`, `JsonLines`, `ParquetFiles` or `Generated`.
        bounded: read what is there now, to its end, as a batch DataFrame: the same job in one go.

    Returns:
        Rows of `INJECTED_SCHEMA`. Spark's watermark follows ``_injector_watermark``, with no delay.

    Raises:
        OptionsError: there is no such injector, an option is out of its range, or something does not pickle.
        SourceMissingError: there is no such directory.
    """
    planner = source.planner(Entry.of(pipeline, injector))
    try:
        cloudpickle.dumps(planner)
    except Exception as error:
        reason = f"a source whose functions and codecs pickle, to be sent to the workers ({error})"
        raise OptionsError("source", source, reason) from error
    name = f"headrace-{pipeline.name}-{injector}"
    # A class of its own for each: Spark sends classes to the workers, and gives their instances text options only.
    attributes = {"planner": planner, "name": classmethod(lambda _class: name)}
    spark.dataSource.register(type("InjectorOfPipeline", (InjectorDataSource,), attributes))
    reader = spark.read if bounded else spark.readStream
    return reader.format(name).load()


class InjectorDataSource(DataSource):
    """A source as Spark sees it; `injected` makes a subclass for each injector."""

    planner: ClassVar[Planner]

    def schema(self) -> StructType:
        """Always the same."""
        return INJECTED_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's
        """Read micro-batches."""
        return InjectorStreamReader(self.planner)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  Spark's
        """Read all of it once."""
        return InjectorBatchReader(self.planner)


@dataclass
class Part(InputPartition):
    """A task of Spark: what to read, and whether to end with a heartbeat."""

    tasks: list[Any]
    progress: Progress | None


class InjectorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a source in micro-batches. The names are Spark's."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._has_spoken = False

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query begins."""
        return self._planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The source's own limit."""
        limit = self._planner.max_records
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes later is for the next run."""
        self._planner.freeze()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next batch goes."""
        planner, known = self._planner, _planners(start)
        end = planner.latest(known, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        if end == known:
            must_speak = not self._has_spoken and known != planner.initial()
            end = {**known, _AGAIN: start.get(_AGAIN, 0) + 1} if must_speak else start
        self._has_spoken = True
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        """Divide a batch into tasks."""
        if start == end:
            return []
        return _parts(
            self._planner.tasks(_planners(start), _planners(end)), self._planner.progress(_planners(end))
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task."""
        return _rows(self._planner, partition)


class InjectorBatchReader(DataSourceReader):
    """Reads a source in one go."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def partitions(self) -> list[Part]:
        """Divide all of it into tasks."""
        planner = self._planner
        return _parts(planner.tasks(planner.initial(), planner.all()), Progress(MAX_TIME, MAX_TIME))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task."""
        return _rows(self._planner, partition)


def _planners(offset: Offset) -> Offset:
    """What of an offset is the planner's."""
    return {name: value for name, value in offset.items() if name != _AGAIN}


def _parts(tasks: list[Any], progress: Progress) -> list[Part]:
    parts = [Part([task], None) for task in tasks] or [Part([], None)]
    parts[-1].progress = progress
    return parts


def _rows(planner: Planner, part: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(part, Part), f"a task of somebody else: {part}"
    for task in part.tasks:
        yield from planner.read(task)
    if part.progress is not None:
        yield heartbeat(part.progress.low_watermark, part.progress.horizon)
