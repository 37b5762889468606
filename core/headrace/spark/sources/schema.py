"""The rows of an injector on Spark (MillWheel 4.5, 5.2): one fixed schema for every source.

Rules of this file:

* **Data rows** are injected records: the value encoded with the stream's codec, ``record_id`` as any injector assigns it
  (``INJECTOR/P:OFFSET``), ``arrived`` the source's own stamp, which becomes the origin (docs/protocol.md).
* **Heartbeat rows** have no key and no value. They hold the injector's promise after the rows of this batch: its low watermark,
  and its horizon, before which no future record is stamped. Both are the minimum over its expected processes.
* Spark's watermark is the largest ``_injector_watermark`` that it has seen, and takes effect in the next batch. So the column
  must be null on data rows, and one heartbeat speaks for all processes.
* `headrace.spark.runtime.event_time` defines how times are written; a watermark that is not known yet is null.
"""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

WATERMARK_COLUMN = "_injector_watermark"
"""The column whose largest value becomes Spark's watermark."""

INJECTED_SCHEMA = StructType(
    [
        StructField("stream", StringType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("timestamp", LongType()),
        StructField("record_id", StringType()),
        StructField("arrived", LongType()),
        StructField(WATERMARK_COLUMN, TimestampType()),
        StructField("horizon", LongType()),
    ]
)
"""Schema of every injector's DataFrame, streaming or bounded."""

ARROW_SCHEMA: pa.Schema = to_arrow_schema(INJECTED_SCHEMA, timezone="UTC")
"""The same schema for Arrow, as a source has to write it."""
