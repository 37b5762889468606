"""PySpark's classes for stateful processors. For 3.5, which has none, empty ones, as files have other jobs beside them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
else:
    from pyspark.sql import streaming

    StatefulProcessor = getattr(streaming, "StatefulProcessor", object)
    StatefulProcessorHandle = getattr(streaming, "StatefulProcessorHandle", object)

__all__ = ["StatefulProcessor", "StatefulProcessorHandle"]
