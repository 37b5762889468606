"""What must hold in a Spark session for Headrace's guarantees to hold, and what is merely good to have."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that Headrace relies on. Each can be changed while a session runs, for the queries started after that.

    Attributes:
        name: as Spark calls it.
        value: what it has to be.
        why: what would go wrong.
        same: other ways to write the same value.
    """

    name: str
    value: str
    why: str
    same: tuple[str, ...] = ()

    def allows(self, value: str) -> bool:
        """Tell whether this value will do."""
        return value.casefold() in {one.casefold() for one in (self.value, *self.same)}


REQUIRED: Final = (
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        ROCKSDB,
        "transformWithState keeps its state in RocksDB only",
    ),
    Setting(
        "spark.sql.streaming.multipleWatermarkPolicy",
        "min",
        "the low watermark is the minimum over all injectors (MillWheel 4.5); with 'max', records become late",
    ),
    Setting(
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "true",
        "without it a timer that is due waits until some record arrives",
    ),
    Setting(
        "spark.sql.streaming.statefulOperator.allowMultiple",
        "true",
        "each computation is a stateful operator, and a pipeline has several",
    ),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "Python gets timestamps as local times, and in other zones an hour a year is there twice",
        same=("Etc/UTC", "Z", "+00:00"),
    ),
)

DEFAULTS: Final = MappingProxyType(
    {
        # A commit uploads what has changed, and not each time a snapshot of the whole store.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Each attempt at a batch writes state files of its own, and the log of commits says whose count. Otherwise a driver
        # that was taken for dead overwrites those of its successor, before anything refuses its batch.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        # For what leaves Spark as a pandas frame, toPandas() and the like; Python operators use Arrow anyway.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
)
"""What `session` sets if nobody has said otherwise."""
