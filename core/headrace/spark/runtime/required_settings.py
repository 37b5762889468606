"""Settings of a Spark session: those that Headrace's guarantees require, and defaults that are merely useful."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class RequiredSetting:
    """A setting that Headrace relies on. Each can be changed while a session runs, and applies to queries started afterwards.

    Attributes:
        name: Spark's name for it.
        value: the required value.
        why: what would go wrong.
        same: other ways to write the same value.
    """

    name: str
    value: str
    why: str
    same: tuple[str, ...] = ()

    def allows(self, value: str) -> bool:
        """Return whether a value is the required one."""
        return value.casefold() in {allowed.casefold() for allowed in (self.value, *self.same)}


REQUIRED: Final = (
    RequiredSetting(
        "spark.sql.streaming.stateStore.providerClass",
        ROCKSDB,
        "transformWithState supports only RocksDB for its state",
    ),
    RequiredSetting(
        "spark.sql.streaming.multipleWatermarkPolicy",
        "min",
        "the low watermark is the minimum over all injectors (MillWheel 4.5); with 'max', records become late",
    ),
    RequiredSetting(
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "true",
        "without it a due timer waits until a record arrives",
    ),
    RequiredSetting(
        "spark.sql.streaming.statefulOperator.allowMultiple",
        "true",
        "each computation is a stateful operator, and a pipeline has several",
    ),
    RequiredSetting(
        "spark.sql.session.timeZone",
        "UTC",
        "Python gets timestamps as local times, and zones with daylight saving time repeat an hour each year",
        same=("Etc/UTC", "Z", "+00:00"),
    ),
)

DEFAULTS: Final = MappingProxyType(
    {
        # A commit uploads only what has changed, not a snapshot of the whole store.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Each attempt at a batch writes separate state files, and the commit log says which count. Otherwise a driver that was
        # presumed dead overwrites its successor's files before its batch is refused.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        # For toPandas() and similar calls; Python operators use Arrow anyway.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
)
"""Defaults of `session`."""
