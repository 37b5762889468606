"""What differs between the releases of PySpark that Headrace takes: 3.5 to 4.3. No other file asks for the version.

What a release lacks has a stand-in here that nothing reaches, because PySpark refuses it first or `expect_stateful` does.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import errors
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from headrace.api.errors import HeadraceError

INSTALLED: str = pyspark.__version__
"""``4.3.0``."""
RELEASE = ".".join(INSTALLED.split(".")[:2])
"""``4.3``."""
VERSION = tuple(map(int, RELEASE.split(".")))
"""``(4, 3)``."""


def _member(module: str, name: str = "", otherwise: Any = None) -> Any:
    """Return a module of PySpark's, or what it holds; something else where this release lacks it."""
    try:
        whole = import_module(f"pyspark.{module}")
    except ImportError:
        return otherwise
    return getattr(whole, name, otherwise) if name else whole


VARIANTS: tuple[type[t.DataType], ...] = (t.VariantType,) if hasattr(t, "VariantType") else ()
"""VARIANT, which 3.5 does not have."""
NO_SUCH_SETTING: Any = _member("errors", "SparkNoSuchElementException", errors.UnsupportedOperationException)
"""What ``spark.conf.get`` raises for a name without a value."""
rdd: Any = _member("core.rdd") or _member("rdd")
"""The module of RDDs."""
PythonEvalType: Any = _member("util" if VERSION >= (4, 0) else "rdd", "PythonEvalType")
_CONVERSION = "sql.conversion" if VERSION >= (4, 0) else "sql.connect.conversion"
_LocalDataToArrow = _member(_CONVERSION, "LocalDataToArrowConversion")
_ArrowToRows = _member(_CONVERSION, "ArrowTableToRowsConversion")

# Java's own classes, in the laboratory.

_STREAMING = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_FILES = (
    f"{_STREAMING}{'.checkpointing' * (VERSION >= (4, 1))}.FileSystemBasedCheckpointFileManager"
)
"""The class that writes a checkpoint's files without a second file for each checksum."""


def java_sessions(jvm: Any) -> Any:
    """Return Java's package that has the class of classic sessions. ``jvm``: that of a gateway."""
    package = jvm.org.apache.spark.sql
    return package.classic if VERSION >= (4, 0) else package


# Stateful processors: 3.5 has none, and the worker of 4.0 drives them by another protocol.

_PHASES = "PRE_INIT CREATED INITIALIZED DATA_PROCESSED TIMER_PROCESSED CLOSED"
_PROCESSOR, _CLIENT = "sql.streaming.stateful_processor", "sql.streaming.stateful_processor_api_client"
state_messages = _member("sql.streaming.proto.StateMessage_pb2")
StatefulProcessorApiClient = _member(_CLIENT, "StatefulProcessorApiClient", object)
StatefulProcessorHandleState = _member(_CLIENT, "StatefulProcessorHandleState", Enum("Phases", _PHASES))
FuncMode = _member("sql.streaming.stateful_processor_util", "TransformWithStateInPandasFuncMode")
UdfUtils = _member("sql.streaming.stateful_processor_util", "TransformWithStateInPandasUdfUtils")
_STATE_CLASSES = ("ListState", "MapState", "StatefulProcessorHandle", "ValueState")
PROCESSOR_STATE = tuple(kind for name in _STATE_CLASSES if (kind := _member(_PROCESSOR, name)))
"""The classes of PySpark's by which a stateful processor reaches its state."""


class PySparkTooOldError(HeadraceError):
    """A feature that needs a newer PySpark than the installed one. Fields: feature, needed."""

    def __init__(self, feature: str, needed: str) -> None:
        super().__init__(feature, needed)
        self.feature, self.needed = feature, needed

    def __str__(self) -> str:
        """Name the feature, both versions, and the remedy."""
        return (
            f"{self.feature} is followed with PySpark {self.needed} or newer, and {pyspark.__version__} is installed. "
            f"Install it: pip install 'pyspark>={self.needed}'"
        )


def expect_stateful() -> None:
    """Expect a PySpark whose stateful processors can run here.

    Raise `PySparkTooOldError` if it has none, or that of 4.0, which speaks another protocol.
    """
    if UdfUtils is None:
        raise PySparkTooOldError("transformWithState", "4.1")


def versions() -> dict[str, str]:
    """Return what judges a Spark job, by name, as a replay file has it."""
    return {"PySpark": INSTALLED, "Python": platform.python_version()}


JARS = "jars"
"""What a replay file calls the jars that PySpark does not bring; they have no release."""
LET_THROUGH = "let through"
"""What it calls what trials did outside them."""


def differing(recorded: Mapping[str, str], today: Mapping[str, str]) -> dict[str, str]:
    """Say what is of another release today, by its name.

    ``recorded``: as `versions` returned it. ``today``: as it returns it now.
    """

    def release(name: str, version: str) -> Sequence[str]:
        return version if name in {JARS, LET_THROUGH} else version.split(".")[:2]

    return {
        name: f"Recorded with {name} {version or 'none'}; this is {today.get(name) or 'none'}"
        for name, version in recorded.items()
        if release(name, version) != release(name, today.get(name, ""))
    }


def phase_numbers() -> dict[int, Any]:
    """Return the phases of a processor's handle by their numbers in the protocol."""
    if state_messages is None:
        return {}
    return {getattr(state_messages, phase.name): phase for phase in StatefulProcessorHandleState}


def error_of(kind: Any, condition: str, **parameters: str) -> Exception:
    """Return an error of PySpark's, of a class, by its condition, with the message of the installed release."""
    error: Exception
    names = ("error_class", "message_parameters") if VERSION < (4, 0) else ("errorClass", "messageParameters")
    try:
        error = kind(**dict(zip(names, (condition, parameters), strict=True)))
    except ValueError:  # the release calls it otherwise
        error = kind(message=f"[{condition}] {parameters}")
    return error


def spark_error(kind: Any, message: str, condition: str, parameters: dict[str, str]) -> Exception:
    """Return an error of Spark's, of a class of PySpark's, as its client makes it from what the server says."""
    error: Exception
    if VERSION < (4, 0):
        error = kind(
            message=f"[{condition}] {message}" if condition else message
        )  # it takes one or the other
    else:
        error = kind(message=message, errorClass=condition or None, messageParameters=parameters)
    return error


def condition_of(error: Any) -> str:
    """Return the condition of an error of PySpark's: ``UNRESOLVED_COLUMN``; ``""``: it has none."""
    return (error.getCondition() if VERSION >= (4, 0) else error.getErrorClass()) or ""


# Values


def arrow_type(kind: t.DataType, zone: str = "UTC") -> pa.DataType:
    """Return the Arrow type in which Spark and a Python worker exchange a type. ``zone``: that of times."""
    if VERSION >= (4, 2):
        return to_arrow_type(kind, timezone=zone, prefers_large_types=False)
    return to_arrow_type(kind)


def arrow_table(rows: list[Any], schema: t.StructType) -> pa.Table:
    """Return rows as Arrow, converted as PySpark does."""
    if not rows:
        return pa.schema(list(arrow_type(schema))).empty_table()
    if not schema.fields:  # whose number 4.0 and 4.1 lose
        return pa.Table.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    options = {"use_large_var_types": False} if VERSION >= (4, 0) else {}
    return _LocalDataToArrow.convert(rows, schema, **options)


def to_arrow(kind: t.DataType) -> Callable[[Any], Any]:
    """Return what makes a Python value fit for Arrow."""
    convert: Callable[[Any], Any] = _LocalDataToArrow._create_converter(kind)
    return convert


def rows_of(table: pa.Table, schema: t.StructType) -> list[Any]:
    """Return the ``Row`` values of an Arrow table."""
    return list(_ArrowToRows.convert(table, schema))


def frame_of(table: pa.Table, schema: t.StructType, zone: str) -> Any:
    """Return a pandas DataFrame of a table, as functions of the user get it, with times of a zone."""
    import pandas as pd  # noqa: PLC0415  slow to import, and only for the API that wants it

    if VERSION >= (4, 2):
        from pyspark.sql.conversion import ArrowBatchTransformer  # noqa: PLC0415

        (batch,) = table.cast(pa.schema(list(arrow_type(schema, zone)))).combine_chunks().to_batches()
        return pd.concat(ArrowBatchTransformer.to_pandas(batch, timezone=zone), axis=1)
    convert, columns = _serializer(zone).arrow_to_pandas, table.itercolumns()
    numbered = VERSION >= (4, 1)
    series = [convert(column, at) if numbered else convert(column) for at, column in enumerate(columns)]
    return pd.concat(series, axis=1, keys=schema.names)


def batch_of(frame: Any, schema: t.StructType, zone: str) -> pa.RecordBatch:
    """Return a batch of a pandas DataFrame that the user's function returned, by the names of its columns.

    ``zone``: that of its times.
    """
    if VERSION >= (4, 2):
        from pyspark.sql.conversion import PandasToArrowConversion  # noqa: PLC0415

        whole = t.StructType([t.StructField("_0", schema)])
        batch = PandasToArrowConversion.convert(
            [frame], whole, timezone=zone, arrow_cast=True, assign_cols_by_name=True
        )
    else:
        batch = _serializer(zone)._create_batch([(frame, arrow_type(schema))])
    return pa.RecordBatch.from_struct_array(batch.column(0))


def _serializer(zone: str) -> Any:
    """Return what the worker of 3.5 to 4.1 converts with."""
    from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer  # noqa: PLC0415

    newer = VERSION >= (4, 1)
    return ArrowStreamPandasUDFSerializer(zone, safecheck=newer, assign_cols_by_name=True, arrow_cast=newer)


def worker_schema(setting: str, schema: t.StructType) -> t.StructType:
    """Return a schema as PySpark's worker reads it: 4.3 has it in lower case, and finds no ``elementType`` in an ARRAY.

    ``setting``: ``state_value_schema`` or ``grouping_key_schema``. Raise `KeyError` if it cannot read it.
    """
    try:
        from pyspark.worker import EvalConf  # noqa: PLC0415
    except ImportError:  # before 4.2
        return schema
    read: t.StructType | None = getattr(EvalConf({setting: schema.json()}), setting)
    assert read is not None
    return read
