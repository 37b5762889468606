"""Outputs of a pipeline on Spark (MillWheel 4.1): from the last operator's parcels to rows, and the DataFrames that users see."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.types import StructType

from headrace.api.codecs import writes_json
from headrace.api.pipeline import Pipeline
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.parcels import Batches, Parcel, decode_parcel, is_tally

OUTPUT_SCHEMA = "stream string, key string, value binary, timestamp long, record_id string"
"""Of a pipeline's outputs. A History event has neither stream nor key; a tally has no stream, and takes the place of the key."""

_OUTPUTS = pa.schema(
    [("stream", pa.string()), ("key", pa.string()), ("value", pa.binary()), ("timestamp", pa.int64()), ("record_id", pa.string())]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a pipeline.

    Attributes:
        everything: all outputs: ``stream``, ``key``, ``value`` (bytes, as the stream's codec writes them), ``timestamp`` (event
            time in microseconds), ``record_id``; History rows, if asked for, have no stream. Use it for one sink that takes both:
            writing two DataFrames makes two queries. Its streaming query has an observed metric for each computation in its
            progress reports (``query.lastProgress["observedMetrics"]``): see docs/spark.md.
        pipeline: the attached pipeline.
    """

    everything: DataFrame
    pipeline: Pipeline

    @property
    def frame(self) -> DataFrame:
        """All output records."""
        return self.everything.filter("stream is not null")

    @property
    def history(self) -> DataFrame:
        """The rows, with a column ``value``, from which `history_of` assembles a History; empty unless asked for."""
        return self.everything.filter("stream is null and key is null").select("value")

    @property
    def tally(self) -> Column:
        """The column of a row of ``everything`` that holds a tally for a `Board`; null in other rows."""
        return F.when(F.col("stream").isNull(), F.col("key"))

    def table(self, stream: str, columns: StructType | str | None = None) -> DataFrame:
        """Return one stream's records: ``key``, ``timestamp`` (a timestamp), ``record_id``, and the value's fields.

        Args:
            stream: one of the pipeline's output streams.
            columns: names and types of the values' fields, as a Spark schema (``"count long, city string"``); ``None``: one
                column ``value``, which is text if the codec writes JSON, else bytes.

        Raises:
            SparkHostError: there is no such output, or columns were given for values that are not JSON.
        """
        if stream not in self.pipeline.output_streams:
            known = ", ".join(map(repr, self.pipeline.output_streams))
            raise SparkHostError(f"the pipeline has no output {stream!r}", f"Its outputs are: {known}")
        rows = self.frame.filter(F.col("stream") == stream)
        is_json = writes_json(self.pipeline.codec(stream))
        if columns is not None and not is_json:
            problem = f"{self.pipeline.codec(stream)!r} does not write the values of {stream!r} as JSON"
            raise SparkHostError(problem, "Leave columns out, and decode the column value yourself")
        text = F.decode("value", "utf-8") if is_json else F.col("value")
        common: list[Column | str] = ["key", F.timestamp_micros("timestamp").alias("timestamp"), "record_id"]
        if columns is None:
            return rows.select(*common, text.alias("value"))
        return rows.select(*common, F.from_json(text, columns).alias("fields")).select(
            "key", "timestamp", "record_id", "fields.*"
        )


def unpacked(parcels: DataFrame, pipeline: Pipeline, *, tallies: bool) -> Outputs:
    """Return the outputs in the last operator's rows."""
    return Outputs(parcels.mapInArrow(partial(unpack, tallies), OUTPUT_SCHEMA), pipeline)


def outputs_here(
    spark: SparkSession, pipeline: Pipeline, parcels: Iterable[Parcel]
) -> dict[str | None, Outputs]:
    """Return the outputs in parcels that are in this process, by stream; under ``None`` the History."""
    rows = output_rows(parcels)
    streams = rows.column("stream")
    return {
        stream: Outputs(
            spark.createDataFrame(
                pa.Table.from_batches(
                    [rows.filter(pc.is_null(streams) if stream is None else pc.equal(streams, stream))]
                ),
                OUTPUT_SCHEMA,
            ),
            pipeline,
        )
        for stream in streams.unique().to_pylist()
    }


def unpack(tallies: bool, batches: Batches) -> Batches:  # noqa: FBT001  Spark maps with a partial of it
    """Turn the last operator's parcels, and its tallies if wanted, into rows of the outputs."""
    for batch in batches:
        rows = batch.column("parcel").to_pylist()
        parcels = [decode_parcel(data) for data in rows if not is_tally(data)]
        yield output_rows(parcels, [data for data in rows if tallies and is_tally(data)])


def output_rows(parcels: Iterable[Parcel], tallies: Iterable[bytes] = ()) -> pa.RecordBatch:
    """Return the outputs in parcels, and tallies, as rows of `OUTPUT_SCHEMA`."""
    rows: list[tuple[Any, ...]] = [(None, tally.decode(), None, None, None) for tally in tallies]
    for parcel in parcels:
        rows += [
            (stream, key, value, timestamp, name) for stream, name, key, value, timestamp, _ in parcel.records
        ]
        rows += [(None, None, event, None, None) for event in parcel.events]
    columns = zip(*rows, strict=True) if rows else [()] * len(_OUTPUTS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _OUTPUTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_OUTPUTS)
