"""What an injector's stream looks like on Spark (MillWheel 4.5, 5.2): one fixed schema for every source.

Rules of this file:

* **Data rows** are records on their way in: the value encoded with the stream's codec, ``record_id`` as any injector gives it
  (``INJECTOR/P:OFFSET``), ``arrived`` the source's own stamp, which becomes the origin (docs/protocol.md).
* **Heartbeat rows** have no key and no value. They say what the injector promises after the rows of this batch: its low
  watermark, and its horizon: no record still to come has a stamp before it. Both are the least over its expected processes.
* Spark's watermark is the largest ``_injector_watermark`` that it has seen, and takes effect in the batch after: so it must be
  null on data rows, and one heartbeat speaks for all processes.
* How times are written is said in `headrace.spark.runtime.event_time`; a watermark that is not known yet is null.
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
"""Of every injector's DataFrame, streaming or not."""

ARROW_SCHEMA: pa.Schema = to_arrow_schema(INJECTED_SCHEMA, timezone="UTC")
"""The same, as a source has to write it."""
