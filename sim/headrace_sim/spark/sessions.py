"""The SparkSession that code gets without Spark: it makes frames of rows, and refuses other calls by name."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from headrace_sim.spark.casts import single_precision
from headrace_sim.spark.ddl import parse_schema, parse_type
from headrace_sim.spark.frames import Rows
from headrace_sim.spark.recorded_columns import JavaContext
from headrace_sim.spark.refusals import CannotFollowError, refuse_the_rest, users_place


class Session(SparkSession):
    """A session without Spark.

    Args:
        writer: Makes what ``frame.write`` returns. Without it, writing is refused.

    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make one of ours."""
        return object.__new__(cls)

    def __init__(self, writer: Callable[[Rows], Any] | None = None) -> None:
        self._writer = writer
        self._settings = {"spark.sql.execution.pythonUDF.arrow.enabled": "true"}
        self._jsparkSession = self  # where PySpark asks Java to parse a type
        self._sc: Any = JavaContext()  # where libraries look for Java

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
        """Return a frame of rows given as tuples, lists, dicts or `Row` values, with a schema."""
        if isinstance(schema, str):
            schema = parse_schema(schema)
        if not isinstance(schema, t.StructType):
            raise CannotFollowError(
                "createDataFrame() without a schema", users_place(), "Give the schema: 'name STRING, age INT'"
            )
        return self.rows(schema, [[as_tuple(row, schema) for row in data]])

    @property
    def conf(self) -> "Session":
        """Its settings."""
        return self

    def set(self, key: str, value: Any) -> None:
        """Store a setting, which has no effect."""
        self._settings[key] = str(value)

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return a setting that was made here, or the default."""
        return self._settings.get(key, default)

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    @staticmethod
    def _parse_ddl(text: str) -> t.DataType:
        return parse_type(text)


def as_tuple(row: Any, schema: t.StructType) -> tuple[Any, ...]:
    """Return a row, given as a tuple, list, dict or ``Row``, as the tuple that Spark would give back.

    Raises:
        PySparkTypeError: If a value is not of its column's type. PySpark's own verifier judges it.

    """
    t._make_type_verifier(schema)(row)
    whole = schema.fromInternal(schema.toInternal(row))
    return tuple(
        single_precision(value) if isinstance(field.dataType, t.FloatType) and value is not None else value
        for field, value in zip(schema.fields, whole, strict=True)
    )


refuse_the_rest(Session, SparkSession, "Use the DataFrame that the function is given")
