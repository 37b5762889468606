"""The low watermark of an idle input: a streaming source of a heartbeat whenever the driver tells of it (MillWheel 4.5).

Rules of this file: Spark's watermark is the minimum over a job's inputs, and an input that brings nothing keeps its own. So the
input of a job that may be idle is united with this source, before Spark reads its watermark. What was told is in the offset: a
micro-batch that is run again has the same heartbeat.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from headrace.api.time import MIN_TIME

FORMAT = "headrace_idle"

Offset = dict[str, Any]

_decode = msgspec.json.Decoder(dict[str, int]).decode


def read_idle(spark: SparkSession, injector: str, path: Path) -> DataFrame:
    """Return a streaming DataFrame with a row for each advance of an idle input's low watermark, event time in microseconds.

    Args:
        spark: the session.
        injector: name of the input.
        path: the file that the driver writes: by input, its low watermark while it is idle.
    """
    spark.dataSource.register(IdleDataSource)
    return spark.readStream.format(FORMAT).options(injector=injector, path=str(path)).load()


class IdleDataSource(DataSource):
    """The source as Spark creates it."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``readStream.format``."""
        return FORMAT

    def schema(self) -> str:
        """Return the schema: the low watermark."""
        return "low long"

    def streamReader(self, schema: object) -> "IdleReader":  # noqa: ARG002, N802  Spark's names
        """Return a reader."""
        return IdleReader(self.options["injector"], Path(self.options["path"]))


class IdleReader(DataSourceStreamReader):
    """Reads what the driver tells. An offset has the low watermark as last told.

    Args:
        injector: name of the input.
        path: the file that the driver writes.
    """

    def __init__(self, injector: str, path: Path) -> None:
        self._injector = injector
        self._path = path

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which a new query begins."""
        return {"low": MIN_TIME}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802  Spark's names
        """Return the latest low watermark that was told."""
        try:
            told = _decode(self._path.read_bytes()).get(self._injector, MIN_TIME)
        except FileNotFoundError:  # nothing has been idle yet
            return start
        return {"low": max(told, start["low"])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for a heartbeat."""
        return [] if start == end else [InputPartition(end["low"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the heartbeat."""
        yield pa.RecordBatch.from_arrays([pa.array([partition.value], pa.int64())], names=["low"])
