"""Injectors as Python data sources of Spark (MillWheel 5.2): one adapter for every source.

Rules of this file:

* **The offset is all the state.** A `Planner` keeps nothing between calls beyond the offset it returned, which Spark writes to
  the checkpoint before the batch runs. So the rows between two offsets are the same whenever they are read.
* **A batch has a heartbeat**: its last task adds one, for all processes, as of the end of the batch. If only the watermark has
  moved, the offset has changed too, and the batch is that heartbeat alone. If nothing has changed, there is no batch.
* A **restarted** query gets the last heartbeat of a source again, even if the source has nothing new. Spark keeps only the
  minimum watermark of all injectors, so it would know nothing of an injector that has ended, and would wait for it for ever.
* A bounded read is everything from the initial offset to the current end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
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
from headrace.spark.sources.injected_rows import InjectionPlan, heartbeat
from headrace.spark.sources.schema import INJECTED_SCHEMA
from headrace.wire.messages import Progress

Offset = dict[str, Any]
"""Offset of a source, which Spark writes to the checkpoint as JSON."""


def to_offset(offset: msgspec.Struct) -> Offset:
    """Return what Spark is to write of a planner's offset."""
    built: Offset = msgspec.to_builtins(offset)
    return built


_AGAIN = "again"
"""Field of an offset: how often the query was restarted at this point with nothing new to read."""


class Planner(Protocol):
    """Finds and reads the data of a source. It is sent to the workers, so it must be picklable."""

    @property
    def max_records(self) -> int | None:
        """Maximum records of one batch; ``None``: no limit."""

    def initial(self) -> Offset:
        """Return the offset at which a new query begins. It is always the same: Spark may ask again after a crash."""
        ...

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Return the end of a batch from ``start`` with at most ``limit`` records; ``start`` itself if nothing is new."""
        ...

    def all(self) -> Offset:
        """Return the end of the source for a bounded read."""
        ...

    def freeze(self) -> None:
        """Ignore data that arrives from now on (``trigger(availableNow=True)``)."""
        ...

    def tasks(self, start: Offset, end: Offset) -> list[Any]:
        """Divide what is between two offsets for parallel reading."""
        ...

    def progress(self, end: Offset) -> Progress:
        """Return the injector's promise after ``end``: the minimum over its processes."""
        ...

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        ...


class OutsideSource(Protocol):
    """Description of an outside source, as `injected` takes it."""

    def planner(self, entry: InjectionPlan) -> Planner:
        """Check the description, and return the planner that reads the source."""
        ...


def injected(
    spark: SparkSession, pipeline: Pipeline, injector: str, source: OutsideSource, *, bounded: bool = False
) -> DataFrame:
    """Read an outside source as an injector of a pipeline.

    Args:
        spark: the session.
        pipeline: the pipeline with the injector.
        injector: name of the injector.
        source: `Files`, `JsonLines`, `ParquetFiles` or `Generated`.
        bounded: read all current data as a batch DataFrame: the same job in one run.

    Returns:
        Rows of `INJECTED_SCHEMA`. Spark's watermark follows ``_injector_watermark``, with no delay.

    Raises:
        OptionsError: there is no such injector, an option is out of its range, or the source is not picklable.
        SourceMissingError: its directory does not exist.
    """
    planner = source.planner(InjectionPlan.of(pipeline, injector))
    try:
        cloudpickle.dumps(planner)
    except Exception as error:
        reason = f"a source whose functions and codecs pickle, to be sent to the workers ({error})"
        raise OptionsError("source", source, reason) from error
    name = f"headrace-{pipeline.name}-{injector}"
    # A separate class for each: Spark sends the class to the workers, and can pass only text options to its instances.
    _register(
        spark,
        name,
        INJECTED_SCHEMA,
        streamReader=lambda _options: InjectorStreamReader(planner),
        reader=lambda _options: InjectorBatchReader(planner),
    )
    reader = spark.read if bounded else spark.readStream
    return reader.format(name).load()


def read_stream(
    spark: SparkSession,
    name: str,
    schema: StructType | str,
    reader: Callable[[Mapping[str, str]], DataSourceStreamReader],
    **options: str,
) -> DataFrame:
    """Read a streaming source of ours that is no injector.

    Args:
        spark: the session.
        name: its name for ``readStream.format``.
        schema: of its rows.
        reader: makes its reader from the options.
        options: all that the reader has to know.
    """
    _register(spark, name, schema, streamReader=reader)
    return spark.readStream.format(name).options(**options).load()


def _register(
    spark: SparkSession,
    name: str,
    schema: StructType | str,
    **readers: Callable[[Mapping[str, str]], DataSourceReader | DataSourceStreamReader],
) -> None:
    """Register a data source of Spark's; its methods make readers from the options."""
    attributes: dict[str, Any] = {"name": classmethod(lambda _class: name), "schema": lambda _source: schema}
    for method, make in readers.items():
        attributes[method] = lambda source, schema, make=make: make(source.options)  # noqa: ARG005  Spark's names
    spark.dataSource.register(type("SourceOfHeadrace", (DataSource,), attributes))


@dataclass
class Part(InputPartition):
    """One of Spark's tasks: what to read, and the heartbeat to end with, if any."""

    tasks: list[Any]
    progress: Progress | None


class InjectorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a source in micro-batches. The names are Spark's."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._has_spoken = False

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset at which a new query begins."""
        return self._planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the source's own limit."""
        limit = self._planner.max_records
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Leave data that arrives later to the next run."""
        self._planner.freeze()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the end of the next batch."""
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
        """Yield the rows of a task."""
        return _rows(self._planner, partition)


class InjectorBatchReader(DataSourceReader):
    """Reads all of a source once."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def partitions(self) -> list[Part]:
        """Divide the whole source into tasks."""
        planner = self._planner
        return _parts(planner.tasks(planner.initial(), planner.all()), Progress(MAX_TIME, MAX_TIME))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return _rows(self._planner, partition)


def _planners(offset: Offset) -> Offset:
    """Return the planner's part of an offset."""
    return {name: value for name, value in offset.items() if name != _AGAIN}


def _parts(tasks: list[Any], progress: Progress) -> list[Part]:
    parts = [Part([task], None) for task in tasks] or [Part([], None)]
    parts[-1].progress = progress
    return parts


def _rows(planner: Planner, part: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(part, Part), f"not one of our tasks: {part}"
    for task in part.tasks:
        yield from planner.read(task)
    if part.progress is not None:
        yield heartbeat(part.progress.low_watermark, part.progress.horizon)
