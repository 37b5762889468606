"""A session's settings, which have no effect but those that something here looks at."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace_sim.spark.columns.in_force import DEFAULTS, TIME_TYPE, ZONE
from headrace_sim.spark.columns.zones import zone_of
from headrace_sim.spark.pyspark_versions import NO_SUCH_SETTING, VERSION
from headrace_sim.spark.refusals import CannotFollowError, users_place

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
"""Names the store of the state. ``transformWithState`` starts with `ROCKSDB` only."""
_DEFAULTS = {
    **DEFAULTS,
    "spark.connect.session.planCompression.defaultAlgorithm": "NONE", "spark.connect.session.planCompression.threshold": "-1",
    "spark.sql.adaptive.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "10485760b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000", "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.execution.pandas.structHandlingMode": "legacy",
    "spark.sql.execution.pythonUDF.arrow.enabled": str(VERSION >= (4, 2)).lower(),
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": str(1 << 28),
    "spark.sql.session.localRelationCacheThreshold": str(1 << 30),
    "spark.sql.session.localRelationChunkSizeBytes": str(16 << 20), "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationSizeLimit": str(3 << 30),
    "spark.sql.shuffle.partitions": "200", "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    STATE_STORE:
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}  # fmt: skip
"""Spark's own values of settings that nothing has set; local relations are never sent apart."""
_ASKED_BY_CLIENT = (
    "spark.sql.pyspark.", "spark.sql.execution.pandas.", "spark.sql.execution.arrow.", "spark.sql.repl.",
    "spark.sql.session.", "spark.python.",
)  # fmt: skip
"""What PySpark's client asks for by itself: everything there is off."""


_FIXED = {
    "spark.sql.retainGroupColumns": ("true", "Drop the columns instead"),
    TIME_TYPE: (DEFAULTS[TIME_TYPE], "Say TIMESTAMP_NTZ where you mean it"),
}
"""Settings that have Spark's own value alone, and what to do instead."""


@dataclass(slots=True)
class Settings:
    """Settings by name."""

    values: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> None:
        """Store a setting, which columns are computed by from now on.

        Raise `CannotFollowError` if plans would mean something that they do not mean here, or `IllegalArgumentException` if
        there is no such time zone.
        """
        usual, remedy = _FIXED.get(key, (value, ""))
        if value.lower() != usual.lower():
            raise CannotFollowError(f"{key}={value}", users_place(), remedy)
        if key == ZONE:
            zone_of(value)
        self.values[key] = value

    def get(self, key: str, *default: str | None) -> str | None:
        """Return a setting that was made here, the default, or Spark's own where it is known.

        Raise `PySparkException` if there is none, or `CannotFollowError` if it is one of Spark's, whose value is not known.
        """
        if key in self.values or key in _DEFAULTS:
            return self.values.get(key, _DEFAULTS.get(key))
        if default:
            return default[0]
        if key.startswith(_ASKED_BY_CLIENT):
            return "false"
        if key.startswith("spark."):
            remedy = f"Set it before, or give a default: spark.conf.get({key!r}, ...)"
            raise CannotFollowError(f"spark.conf.get({key!r})", users_place(), remedy)
        message = f"[SQL_CONF_NOT_FOUND] The SQL config {key!r} cannot be found"
        raise NO_SUCH_SETTING(message=message)

    def unset(self, key: str) -> None:
        """Forget a setting."""
        self.values.pop(key, None)

    def all(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield those that were made here and begin with a prefix."""
        yield from ((key, value) for key, value in self.values.items() if key.startswith(prefix))

    def copy(self) -> "Settings":
        """Return a copy."""
        return Settings({**self.values})
