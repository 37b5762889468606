"""Progress of a job on Spark by computation, as Spark's own metrics (MillWheel 4.5).

Rules of this file: each key interval that a micro-batch processes emits a `Tally`, one small row, and Spark adds them up. It
reads these rows and those of parcels, not records.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.api.pipeline import Pipeline
from headrace.api.time import MIN_TIME
from headrace.spark.hosting.parcels import TALLY_BEGINS

_SUMS = {
    "records": "new_records",
    "late_records": "new_late_records",
    "outputs": "new_outputs",
    "dropped": "new_dropped",
    "timers": "timers_here",
    "keys": "keys_here",
    "state_bytes": "state_bytes_here",
    "intervals": "intervals_here",
}
"""By metric, the field of a `Tally` that Spark adds up."""

_SCHEMA = ", ".join(
    ["computation string", *[f"{field} long" for field in (*_SUMS.values(), "low_watermark", "newest")]]
)


def observed(parcels: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Add an observed metric for each computation, by its name, to each progress report of the query.

    ``records``, ``late_records``, ``outputs`` and ``dropped`` are those of the micro-batch. ``low_watermark`` and ``newest``
    (event time in microseconds; null: not known), ``timers``, ``keys`` and ``state_bytes`` are those of the ``intervals`` that it
    processed.
    """
    text = F.when(is_tally_column(F.col("parcel")), F.col("parcel").cast("string"))
    tallied = parcels.select("*", F.from_json(text, _SCHEMA).alias("tally"))
    for name in pipeline.computations:
        tallied = tallied.observe(name, *_metrics(name))
    return tallied.select(*parcels.columns)


def is_tally_column(parcel: Column) -> Column:
    """Return the column that tells whether a row is a tally, not a parcel."""
    return F.substring(parcel, 1, 1) == F.lit(bytearray(TALLY_BEGINS))


def _metrics(computation: str) -> list[Column]:
    def of(field: str) -> Column:
        return F.when(F.col("tally.computation") == computation, F.col(f"tally.{field}"))

    return [
        *[F.coalesce(F.sum(of(field)), F.lit(0)).alias(shown) for shown, field in _SUMS.items()],
        _time(F.min(of("low_watermark"))).alias("low_watermark"),
        _time(F.max(of("newest"))).alias("newest"),
    ]


def _time(time_us: Column) -> Column:
    return F.when(time_us > MIN_TIME, time_us)
