"""A session's settings, which have no effect but those that something here looks at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace_sim.spark.columns.ansi import SETTING as ANSI
from headrace_sim.spark.columns.ansi import set_ansi
from headrace_sim.spark.columns.time_texts import DEFAULT as TIME_DEFAULT
from headrace_sim.spark.columns.time_texts import SETTING as TIME_POLICY
from headrace_sim.spark.columns.time_texts import set_policy
from headrace_sim.spark.refusals import CannotFollowError, users_place
from headrace_sim.spark.versions import NO_SUCH_SETTING, VERSION

_DEFAULTS = {
    "spark.connect.session.planCompression.defaultAlgorithm": "NONE", "spark.connect.session.planCompression.threshold": "-1",
    "spark.sql.adaptive.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "10485760b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000", "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.execution.pandas.structHandlingMode": "legacy",
    "spark.sql.execution.pythonUDF.arrow.enabled": str(VERSION >= (4, 2)).lower(),
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": str(1 << 28),
    "spark.sql.session.localRelationCacheThreshold": str(1 << 30),
    "spark.sql.session.localRelationChunkSizeBytes": str(16 << 20), "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationSizeLimit": str(3 << 30), "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "200", "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.streaming.multipleWatermarkPolicy": "min", "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}  # fmt: skip
"""Spark's own values of settings that nothing has set; local relations are never sent apart."""
_SIZE_OF_NULL = ("spark.sql.legacy.sizeOfNull", "false")
_ASKED_BY_CLIENT = (
    "spark.sql.pyspark.", "spark.sql.execution.pandas.", "spark.sql.execution.arrow.", "spark.sql.repl.",
    "spark.sql.session.", "spark.python.",
)  # fmt: skip
"""What PySpark's client asks for by itself: everything there is off."""


@dataclass(frozen=True, slots=True)
class _InForce:
    put: Callable[[str], None]
    default: str


_IN_FORCE = {
    ANSI: _InForce(set_ansi, str(VERSION >= (4, 0))),
    TIME_POLICY: _InForce(set_policy, TIME_DEFAULT),
}
"""Settings that columns are computed by."""


@dataclass(slots=True)
class Settings:
    """Settings by name."""

    values: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> None:
        """Store a setting. ANSI mode, and how times are read from text, are in force from now on.

        Raise `CannotFollowError` if columns would mean something that they do not mean here.
        """
        if (key, value.lower()) == _SIZE_OF_NULL:
            raise CannotFollowError(f"{key}={value}", users_place(), "Leave it out, or set ANSI mode instead")
        self.values[key] = value
        if key in _IN_FORCE:
            _IN_FORCE[key].put(value)

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
        if key in _IN_FORCE:
            _IN_FORCE[key].put(_IN_FORCE[key].default)

    def all(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield those that were made here and begin with a prefix."""
        yield from ((key, value) for key, value in self.values.items() if key.startswith(prefix))

    def copy(self) -> "Settings":
        """Return a copy."""
        return Settings({**self.values})
