"""Low watermarks of an input that the driver tells: a streaming source of a heartbeat for each (MillWheel 4.5).

Rules of this file: Spark's watermark is the minimum over a job's inputs. So an input whose low watermark Spark cannot derive is
united with this source, before Spark reads its watermark. What was told is in the offset: a micro-batch that is run again has the
same heartbeat.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from headrace.api.time import MIN_TIME
from headrace.spark.sources.data_source import Offset, read_stream

FORMAT = "headrace_heartbeats"

_decode = msgspec.json.Decoder(dict[str, int]).decode


def read_heartbeats(spark: SparkSession, injector: str, path: Path) -> DataFrame:
    """Return a streaming DataFrame with a row for each advance of an input's low watermark, event time in microseconds.

    Args:
        spark: the session.
        injector: name of the input.
        path: the file that the driver writes: by input, its low watermark.
    """
    return read_stream(spark, FORMAT, "low long", _reader, injector=injector, path=str(path))


def _reader(options: Mapping[str, str]) -> "HeartbeatReader":
    return HeartbeatReader(options["injector"], Path(options["path"]))


class HeartbeatReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the driver's heartbeats. An offset has the latest low watermark."""

    def __init__(self, injector: str, path: Path) -> None:
        self._injector = injector
        self._path = path
        self._is_stopped = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Tell no more: the query is to end."""
        self._is_stopped = True

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset at which a new query begins."""
        return {"low": MIN_TIME}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802  Spark's names
        """Return the latest low watermark received."""
        if self._is_stopped:
            return start
        try:
            told = _decode(self._path.read_bytes()).get(self._injector, MIN_TIME)
        except FileNotFoundError:  # nothing has been told yet
            return start
        return {"low": max(told, start["low"])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for a heartbeat."""
        return [] if start == end else [InputPartition(end["low"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the heartbeat."""
        yield pa.RecordBatch.from_arrays([pa.array([partition.value], pa.int64())], names=["low"])
