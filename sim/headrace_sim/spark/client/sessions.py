"""The SparkSession that code gets without Spark: it makes frames of rows, and refuses other calls by name."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import pyspark
from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import Catalog, SparkSession
from pyspark.sql import types as t
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming import StreamingQuery, StreamingQueryManager

from headrace_sim.spark.client.contexts import Context
from headrace_sim.spark.columns.casts import cast_value, single_precision
from headrace_sim.spark.columns.ddl import parse_schema, parse_type
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded_columns import JavaContext
from headrace_sim.spark.refusals import CannotFollowError, refuse_the_rest, users_place
from headrace_sim.spark.tables import tables as model

_LEAVE_OUT = "Leave it out, or do it outside of the code that is tried"
_DEFAULTS = {
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
}
"""Spark's own values of settings that nothing has set."""


class Session(SparkSession):
    """A session without Spark.

    Args:
        writer: Makes what ``frame.write`` returns. Without it, writing is refused.
        tables: The tables that there are. Without it, the catalog is refused.

    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make one of ours."""
        return object.__new__(cls)

    def __init__(
        self, writer: Callable[[Rows], Any] | None = None, tables: model.Tables | None = None
    ) -> None:
        self._writer = writer
        self._tables = tables
        self._settings = Settings()
        self._jsparkSession = self  # where PySpark asks Java to parse a type
        self._sc: Any = JavaContext()  # where libraries look for Java
        self._jvm = JavaContext._jvm

    def writer(self, frame: Rows) -> Any:
        """Return the value of ``frame.write``."""
        if self._writer is None:
            raise CannotFollowError(
                "DataFrame.write", users_place(), "Write in the function given to foreachBatch()"
            )
        return self._writer(frame)

    def rows(self, schema: t.StructType, partitions: Sequence[Sequence[tuple[Any, ...]]]) -> Rows:
        """Return a frame of rows."""
        return Rows(self, schema, [tuple(part) for part in partitions])

    @staticmethod
    def parseDataType(text: str) -> t.DataType:
        """Return the type that PySpark wrote as JSON."""
        return t._parse_datatype_json_string(text)

    def createDataFrame(self, data: Any, schema: Any = None) -> Rows:
        """Return a frame of rows given as tuples, lists, dicts or `Row` values, with a schema, or names, or neither."""
        if isinstance(schema, str):
            schema = parse_schema(schema)
        if not isinstance(data, list | tuple):
            kind = f"createDataFrame() of a {type(data).__module__.partition('.')[0]} {type(data).__name__}"
            raise CannotFollowError(kind, users_place(), "Give a list of rows, and the schema: 'name STRING'")
        if schema is None or isinstance(schema, list | tuple):
            names = None if schema is None else list(schema)
            schema = self._inferSchemaFromList(data, names)
            data = [
                tuple(row.get(name) for name in schema.names) if isinstance(row, dict) else row
                for row in data
            ]
        if not isinstance(schema, t.StructType):
            raise CannotFollowError(
                "createDataFrame() with a schema of one type", users_place(), "Give the columns: 'value INT'"
            )
        return self.rows(schema, [[as_tuple(row, schema) for row in data]])

    @staticmethod
    def getConfs(names: Sequence[str]) -> list[str]:
        """Return what PySpark's inference of types asks for: that everything is as it is by default."""
        return ["TIMESTAMP_LTZ" if name == "spark.sql.timestampType" else "false" for name in names]

    @property
    def _jconf(self) -> "Session":
        return self  # where PySpark asks Java for settings

    @property
    def conf(self) -> "Settings":
        """Its settings."""
        return self._settings

    @property
    def version(self) -> str:
        """The version of PySpark."""
        return str(pyspark.__version__)

    @property
    def sparkContext(self) -> Context:
        """A Spark context, for jobs that set its log level or the pool of their jobs."""
        return Context(self.conf)

    @property
    def catalog(self) -> "Tables":
        """The tables that were written."""
        if self._tables is None:
            raise CannotFollowError(
                "SparkSession.catalog", users_place(), "Use it in the function given to foreachBatch()"
            )
        return Tables(self._tables)

    def table(self, tableName: str) -> Rows:
        """Return the rows of a table."""
        if self._tables is None:
            raise CannotFollowError("SparkSession.table", users_place(), "Use it in foreachBatch()")
        return self._tables.read(tableName)

    @property
    def streams(self) -> "Streams":
        """The queries, all of which have ended."""
        return Streams()

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    @staticmethod
    def _parse_ddl(text: str) -> t.DataType:
        return parse_type(text)


class ModuleSession(Session):
    """The session that a module gets when it is imported: for its functions, the one that is in force when they are called."""

    def __getattribute__(self, name: str) -> Any:
        """Ask the session that is in force."""
        current = SparkSession._instantiatedSession
        if isinstance(current, Session) and current is not self:
            return getattr(current, name)
        return super().__getattribute__(name)


class Settings(RuntimeConfig):
    """A session's settings, which have no effect but those that something here looks at."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def set(self, key: str, value: Any) -> None:
        """Store a setting."""
        self._values[key] = str(value).lower() if isinstance(value, bool) else str(value)

    def get(self, key: str, *default: str | None) -> str | None:
        """Return a setting that was made here, the default, or Spark's own where it is known."""
        if key in self._values or default:
            return self._values.get(key, *default)
        if key in _DEFAULTS or not key.startswith("spark."):
            return self._known(key)
        remedy = f"Set it before, or give a default: spark.conf.get({key!r}, ...)"
        raise CannotFollowError(f"spark.conf.get({key!r})", users_place(), remedy)

    @staticmethod
    def _known(key: str) -> str:
        if key not in _DEFAULTS:
            message = f"[SQL_CONF_NOT_FOUND] The SQL config {key!r} cannot be found"
            raise SparkNoSuchElementException(message=message)
        return _DEFAULTS[key]

    def unset(self, key: str) -> None:
        """Forget a setting."""
        self._values.pop(key, None)


class Tables(Catalog):
    """Replaces ``spark.catalog``: knows the tables that were written.

    Args:
        tables: The model of them.

    """

    def __init__(self, tables: model.Tables) -> None:
        self._tables = tables

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        """Return whether a table was written under this name."""
        name = (tableName if dbName is None else f"{dbName}.{tableName}").replace("`", "").lower()
        written = self._tables.versions()
        if name not in written and (alike := [other for other in written if _tail(other) == _tail(name)]):
            remedy = "Call the table by the same name everywhere"
            raise CannotFollowError(
                f"tableExists({name!r}) behind a write to {alike[0]!r}", users_place(), remedy
            )
        return self._tables.exists(name)

    def refreshTable(self, tableName: str) -> None:
        """Do nothing: nothing is cached."""

    clearCache = cacheTable = uncacheTable = refreshTable


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


class Streams(StreamingQueryManager):
    """Replaces ``spark.streams``: every query that was started has ended."""

    def __init__(self) -> None:
        """Make it: it has nothing."""

    @property
    def active(self) -> list[StreamingQuery]:
        """No query."""
        return []

    def awaitAnyTermination(self, timeout: int | None = None) -> bool | None:
        """Return at once."""
        return None if timeout is None else True

    def resetTerminated(self) -> None:
        """Do nothing."""

    def addListener(self, listener: Any) -> None:
        """Do nothing: nothing happens that it could be told of."""

    removeListener = addListener


def as_tuple(row: Any, schema: t.StructType) -> tuple[Any, ...]:
    """Return a row, given as a tuple, list, dict or ``Row``, as the tuple that Spark would give back.

    Raises:
        PySparkTypeError: If a value is not of its column's type. PySpark's own verifier judges it.

    """
    t._make_type_verifier(schema)(row)
    whole = schema.fromInternal(schema.toInternal(row))
    return tuple(_as_kept(value, field.dataType) for field, value in zip(schema.fields, whole, strict=True))


def _as_kept(value: Any, kind: t.DataType) -> Any:
    """Return a value as a column keeps it: PySpark lets any value pass for FLOAT, and for STRING."""
    if isinstance(kind, t.FloatType) and value is not None:
        return single_precision(value)
    if isinstance(kind, t.StringType) and isinstance(value, (int, float)):
        cast = cast_value(t._infer_type(value), kind)
        assert cast is not None
        return cast(value)
    return value


refuse_the_rest(Session, SparkSession, "Use the DataFrame that the function is given")
refuse_the_rest(Settings, RuntimeConfig, _LEAVE_OUT)
refuse_the_rest(Tables, Catalog, "Use the DataFrame that the function is given")
refuse_the_rest(Streams, StreamingQueryManager, _LEAVE_OUT)
