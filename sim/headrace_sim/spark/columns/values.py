"""Convert values between Python and Spark by their declared schemas, as Spark does."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from math import copysign, isnan, nan
from struct import pack
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import BITS, cast_value, java_double, single_precision
from headrace_sim.spark.columns.held import held
from headrace_sim.spark.columns.in_force import ZONE, in_force
from headrace_sim.spark.pyspark_versions import arrow_table, arrow_type, batch_of, frame_of, rows_of

_AS_GIVEN = (t.LongType, t.StringType, t.DoubleType, t.BooleanType, t.IntegerType)
"""Types whose values Arrow returns unchanged."""


@dataclass(frozen=True, slots=True)
class Altered:
    """A value that the state store does not keep as it was given: an integer that wrapped, or a null for one of another type."""

    variable: str  # the state variable
    column: str  # its column, and the column's type: ``n, a TINYINT``
    given: Any  # what was given
    kept: Any  # what is kept instead
    place: str


_TELL: ContextVar[Callable[[Altered], object] | None] = ContextVar(
    "who is told of altered values", default=None
)
"""The state's calls are the user's, and find it here."""


def altered_told(tell: Callable[[Altered], object]) -> AbstractContextManager[Any]:
    """Tell of each value that the state does not keep as it was given in this block, of which Spark says nothing."""
    return held(_TELL, tell)


def note_altered(variable: str, schema: t.StructType, row: Any, kept: tuple[Any, ...], place: str) -> None:
    """Report the columns that do not hold what they were given, if `altered_told` is in force.

    ``variable``: the state variable. ``schema``: of its rows. ``row``: a row, as PySpark pickled it. ``kept``: the row that
    `stored` has made of it. ``place``: of the call.
    """
    tell = _TELL.get()
    if tell is None:
        return
    for field, value, cell in zip(schema.fields, row, kept, strict=True):
        if _altered(field.dataType, value, cell):
            kind = field.dataType.simpleString().upper()
            tell(Altered(variable, f"{field.name}, a {kind}", value, cell, place))


def _altered(kind: t.DataType, before: Any, kept: Any) -> bool:
    """Return whether a value, or a part of it, has wrapped or become null."""
    if before is None or kept is None:
        return kept is not before
    match kind:
        case t.ArrayType(elementType=element):
            return any(_altered(element, *both) for both in zip(before, kept, strict=True))
        case t.MapType(valueType=element):
            return any(_altered(element, *both) for both in zip(before.values(), kept.values(), strict=False))
        case t.StructType(fields=fields):
            parts = zip(fields, before, kept, strict=True)
            return any(_altered(field.dataType, value, cell) for field, value, cell in parts)
        case _:
            return type(kind) in BITS and bool(before != kept)


class ValueRefusedError(Exception):
    """A value that Spark's side of the state store cannot take, which ends the task. Fields: problem."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def stored(schema: t.StructType, internal: Any) -> tuple[Any, ...]:
    """Return the row that the state store keeps for a value pickled by PySpark.

    Raise `ValueRefusedError` if Spark cannot make a row of it.
    """
    if not isinstance(internal, (tuple, list)) or len(internal) != len(schema.fields):
        count = len(internal) if isinstance(internal, (tuple, list)) else 1
        problem = (
            "[STRUCT_ARRAY_LENGTH_MISMATCH] Input row doesn't have expected number of values required by the schema. "
            f"{len(schema.fields)} fields are required while {count} values are provided."
        )
        raise ValueRefusedError(problem)
    return tuple(_in_field(field, value) for field, value in zip(schema.fields, internal, strict=True))


def _in_field(field: t.StructField, value: Any) -> Any:
    """Convert a value; a null in a NOT NULL number becomes zero, as in the bytes of Spark's row."""
    converted = from_pickled(field.dataType, value)
    if converted is not None or field.nullable:
        return converted
    kind = field.dataType
    zero = 0 if type(kind) in BITS else False if isinstance(kind, t.BooleanType) else None
    return 0.0 if isinstance(kind, (t.FloatType, t.DoubleType)) else zero


def from_pickled(kind: t.DataType, value: Any) -> Any:
    """Convert as ``EvaluatePython.makeFromJava`` does: a value of another type is null, an integer wraps.

    Raise `ValueRefusedError` if a decimal number is out of range, or a row has another number of values.
    """
    if value is None:
        return None
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if type(kind) in BITS:
        limit = 1 << BITS[type(kind)] - 1
        return (value + limit) % (2 * limit) - limit if is_integer else None
    if isinstance(kind, t.BooleanType):
        return value if isinstance(value, bool) else None
    if isinstance(kind, t.FractionalType):
        return _fraction(kind, value)
    if isinstance(kind, t.StringType):
        return _text(value)
    if isinstance(kind, t.BinaryType):
        value = value.encode() if isinstance(value, str) else value
        return bytes(value) if isinstance(value, (bytes, bytearray)) else None
    if isinstance(kind, (t.DateType, t.TimestampType, t.TimestampNTZType, t.DayTimeIntervalType)):
        return kind.fromInternal(value) if is_integer else None
    if isinstance(kind, t.ArrayType):
        items = value if isinstance(value, (list, tuple)) else None
        return None if items is None else [from_pickled(kind.elementType, item) for item in items]
    if isinstance(kind, t.MapType):
        pairs = value.items() if isinstance(value, dict) else ()
        return {from_pickled(kind.keyType, key): from_pickled(kind.valueType, item) for key, item in pairs}
    if isinstance(kind, t.StructType):
        return t._create_row(kind.names, stored(kind, value))
    return value


def _fraction(kind: t.DataType, value: Any) -> Any:
    if isinstance(kind, t.DecimalType):
        if not isinstance(value, Decimal):
            return None
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
        if abs(rounded) < Decimal(10) ** (kind.precision - kind.scale):
            return rounded
        problem = f"The {rounded} rounded half up from {value} cannot be represented as {kind.simpleString()}"
        raise ValueRefusedError(f"[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] {problem}.")
    if not isinstance(value, float):
        return None
    if isnan(value):
        return nan  # the canonical NaN, so that it is found again as a key
    return single_precision(value) if isinstance(kind, t.FloatType) else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return java_double(value) if isinstance(value, float) else str(value)


class NegativeZero(float):
    """-0.0 in a key of the state store, which compares bytes: it is not 0.0 there."""

    def __eq__(self, other: object) -> bool:
        """Return whether the other one is a negative zero, too."""
        return isinstance(other, NegativeZero)

    __hash__ = float.__hash__


class KeyPart:
    """An array, a map, or a struct with one, in a key: by its text it can be hashed."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same text."""
        return isinstance(other, KeyPart) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Show the value."""
        return repr(self.value)


def key_part(value: Any) -> Any:
    """Return a value of a key so that it can be hashed."""
    try:
        hash(value)
    except TypeError:
        return KeyPart(value)
    return value


def kept_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as the state store tells keys apart."""
    return tuple(NegativeZero(value) if _is_negative_zero(value) else key_part(value) for value in key)


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and copysign(1, value) < 0


def shown_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as the user's code gets it."""
    return tuple(map(_shown, key))


def _shown(value: Any) -> Any:
    return -0.0 if isinstance(value, NegativeZero) else value.value if isinstance(value, KeyPart) else value


def shuffled_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as a shuffle hashes it: both zeros alike."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in key)


def key_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what Spark sorts grouping keys by: nulls first, texts by their bytes."""
    return tuple((value is not None, _orderly(_shown(value))) for value in key)


def _orderly(value: Any) -> Any:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return key_order(tuple(value))
    return value.encode() if isinstance(value, str) else value or 0


def byte_order(row: tuple[Any, ...]) -> bytes:
    """Return the bytes of a row as the state store orders them: Spark's UnsafeRow, in which numbers are little-endian."""
    width = 8 * ((len(row) + 63) // 64)
    nulls = sum(1 << place for place, value in enumerate(row) if value is None).to_bytes(width, "little")
    words, tail = [], b""
    start = width + 8 * len(row)
    for part in row:
        value = part.encode() if isinstance(part, str) else part
        if not isinstance(value, (bytes, bytearray, tuple)):
            words.append(_word(value))
        else:
            data = byte_order(value) if isinstance(value, tuple) else bytes(value)
            words.append(len(data).to_bytes(4, "little") + (start + len(tail)).to_bytes(4, "little"))
            tail += data + b"\0" * (-len(data) % 8)
    return nulls + b"".join(words) + tail


def _word(value: Any) -> bytes:
    if isinstance(value, datetime):
        value = t.TimestampType().toInternal(value)
    elif isinstance(value, date):
        value = t.DateType().toInternal(value)
    if isinstance(value, int):
        return (value % (1 << 64)).to_bytes(8, "little")
    if isinstance(value, float):
        return pack("<d", value)
    return repr(value).encode() if value is not None else bytes(8)


class InputRows:
    """The rows of a partition as processors get them: read from Arrow, as the worker reads them."""

    def __init__(self, schema: t.StructType) -> None:
        self.schema = schema
        self._plain = all(isinstance(field.dataType, _AS_GIVEN) for field in schema.fields)

    def rows(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return ``Row`` values."""
        names = self.schema.names
        if self._plain:
            return [t._create_row(names, row) for row in rows]
        if not rows:
            return []
        columns = [column.to_pylist() for column in self._table(rows).columns]
        return [t._create_row(names, row) for row in zip(*columns, strict=True)]

    def frames(self, rows: Sequence[tuple[Any, ...]], most: int | None = None) -> Iterator[Any]:
        """Return pandas DataFrames of at most so many rows each, as ``transformWithStateInPandas`` makes them of single rows."""
        import pandas as pd  # noqa: PLC0415  slow to import, and only for the API that wants it

        return (pd.DataFrame(list(frame.itertuples(index=False))) for frame in self.slices(rows, most))

    def slices(self, rows: Sequence[tuple[Any, ...]], most: int | None = None) -> Iterator[Any]:
        """Return pandas DataFrames of at most so many rows each, whose columns have the types of their schema."""
        size = most or len(rows) or 1
        return (self._frame(rows[start : start + size]) for start in range(0, len(rows), size))

    def empty_frame(self) -> Any:
        """Return a DataFrame without rows that has the columns."""
        import pandas as pd  # noqa: PLC0415  as above

        return pd.DataFrame(columns=self.schema.names)

    def _frame(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        return frame_of(self._table(rows), self.schema, in_force(ZONE))

    def _table(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        return arrow_table(list(rows), self.schema)


class OutputRows:
    """The rows that a processor yields, as Spark takes them. Errors are PyArrow's and PySpark's own."""

    def __init__(self, schema: t.StructType) -> None:
        self.schema = schema
        self._arrow = pa.schema(list(arrow_type(schema)))

    def from_rows(self, rows: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Convert ``Row`` values by the names of their fields: missing ones are null, extra ones are ignored."""
        dicts = [row.asDict(True) for row in rows]
        return self._collected(pa.RecordBatch.from_pylist(dicts, schema=self._arrow)) if dicts else []

    def from_frames(self, frames: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Convert pandas frames by the names of their columns."""
        rows: list[tuple[Any, ...]] = []
        for frame in frames:
            _expect_frame(frame)
            rows += self._collected(batch_of(frame, self.schema, in_force(ZONE)))
        return rows

    def _collected(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in rows_of(pa.Table.from_batches([batch]), self.schema)]


def _expect_frame(frame: Any) -> None:
    import pandas as pd  # noqa: PLC0415

    if not isinstance(frame, pd.DataFrame):
        from pyspark.errors import PySparkValueError  # noqa: PLC0415

        message = (
            "Invalid return type. Please make sure that the UDF returns a "
            "pandas.DataFrame when the specified return type is StructType."
        )
        raise PySparkValueError(message)


def as_tuple(row: Any, schema: t.StructType) -> tuple[Any, ...]:
    """Return a row, given as a tuple, list, dict or ``Row``, as the tuple that Spark would give back.

    Raise `PySparkTypeError` if a value is not of its column's type. PySpark's own verifier judges it.
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
