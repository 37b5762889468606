"""Columns bound to a schema, and how Spark converts their values to a common type: its default ANSI mode."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import (
    BITS,
    FRACTIONAL,
    cast_value,
    in_range,
    is_number,
    single_precision,
)
from headrace_sim.spark.columns.decimals import as_decimal, fitted, wider
from headrace_sim.spark.columns.in_force import ANSI, is_ansi, or_null
from headrace_sim.spark.columns.recorded import Recorded, shown
from headrace_sim.spark.refusals import CannotFollowError, shown_place

Values = Any
"""A row, as a tuple; or, for aggregations, the rows of a group."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of a schema."""

    name: str
    type: t.DataType
    nullable: bool  # whether it can be null
    value: Callable[[Values], Any]  # returns its value for a row
    metadata: dict[str, Any] | None = None  # what is known of the frame that it is a column of

    @property
    def field(self) -> t.StructField:
        """The field that it is in a schema."""
        return t.StructField(self.name, self.type, self.nullable, self.metadata)


ALIAS, SHARED = "alias of its frame", "shared"
"""Where a field's metadata have that; and that a join has made one column of two."""


EVENT_TIME = "event time"
"""Where a field's metadata say that it has a stream's event time, with the delay of its watermark in microseconds."""


def time_kept(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the part of a column's metadata that it keeps under another name: that it has the event time."""
    return {key: value for key, value in (metadata or {}).items() if key == EVENT_TIME} or None


def frame_of(field: t.StructField) -> str:
    """Return the alias of the frame that a field came from, or an empty text."""
    return str((field.metadata or {}).get(ALIAS, ""))


def is_shared(field: t.StructField) -> bool:
    """Return whether a join on names has made this column of two."""
    return SHARED in (field.metadata or {})


def refused(node: Recorded, message: str) -> AnalysisException:
    """Return the error by which Spark refuses a column, with its place."""
    return AnalysisException(message=f"{message} (at {shown_place(node.place)})")


def literal(value: Any) -> Bound:
    """Return a plain value as a column."""
    if isinstance(value, bool):
        kind: t.DataType = t.BooleanType()
    elif isinstance(value, int):
        kind = t.IntegerType() if -(1 << 31) <= value < 1 << 31 else t.LongType()
    elif isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        kind = t.DecimalType(max(len(digits), scale), scale)
    elif type(value) in _LITERALS:
        kind = _LITERALS[type(value)]
    else:
        message = f"[UNSUPPORTED_FEATURE.LITERAL_TYPE] Literal for {value!r} of {type(value)}"
        raise AnalysisException(message=message)
    return Bound("NULL" if value is None else str(value), kind, value is None, lambda _row: value)


_LITERALS: dict[type, t.DataType] = {
    type(None): t.NullType(), float: t.DoubleType(), str: t.StringType(), bytes: t.BinaryType(), bytearray: t.BinaryType(),
    datetime: t.TimestampType(), date: t.DateType(), timedelta: t.DayTimeIntervalType(),
}  # fmt: skip


def lifted(
    node: Recorded, kind: t.DataType, function: Callable[..., Any], *children: Bound, nullable: bool = False
) -> Bound:
    """Return a function of non-null values: if any is null, so is the result."""
    values, function = [child.value for child in children], or_null(function)

    def value(row: Values) -> Any:
        arguments = [each(row) for each in values]
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return Bound(shown(node), kind, nullable or any(child.nullable for child in children), value)


def converted(inner: Bound, target: t.DataType, node: Recorded, name: str) -> Bound:
    """Return a column under a name, converted to a type. Raise `CannotFollowError` if the cast is not simulated."""
    cast = cast_value(inner.type, target)
    if cast is None:
        what = f"a cast of {inner.type.simpleString()} to {target.simpleString()}"
        raise CannotFollowError(what, node.place, "Convert it in Python instead")
    value, cast = inner.value, or_null(cast)
    return Bound(
        name, target, inner.nullable, lambda row: None if (item := value(row)) is None else cast(item)
    )


def _common(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """Return the type that values of both types are converted to, if Spark has one."""
    if left == right or isinstance(right, t.NullType):
        return left
    if isinstance(left, t.NullType):
        return right
    kinds = {type(left), type(right)}
    if kinds <= BITS.keys():
        return max(left, right, key=lambda kind: BITS[type(kind)])
    if kinds <= {*BITS, *FRACTIONAL}:
        return t.DoubleType()
    if t.DecimalType in kinds and kinds <= {*BITS, *FRACTIONAL, t.DecimalType}:
        return t.DoubleType() if kinds & {*FRACTIONAL} else wider(as_decimal(left), as_decimal(right))
    if kinds == {t.DateType, t.TimestampType}:
        return t.TimestampType()
    if t.StringType in kinds:
        other = right if isinstance(left, t.StringType) else left
        if type(other) in BITS:
            return t.LongType()
        if isinstance(other, (t.DecimalType, *FRACTIONAL)):
            return t.DoubleType()
        return other if isinstance(other, (t.BooleanType, t.DateType, t.TimestampType)) else None
    return None


def alike(left: Bound, right: Bound, node: Recorded) -> tuple[Bound, Bound]:
    """Convert two columns to their common type, as Spark does implicitly."""
    one, other = all_alike([left, right], node)
    return one, other


def all_alike(options: list[Bound], node: Recorded) -> list[Bound]:
    """Convert to the common type of all, as Spark does implicitly."""
    kind: t.DataType = t.NullType()
    for option in options:
        common = _common(kind, option.type) if is_ansi() else _common_without_ansi(kind, option.type, node)
        if common is None:
            kinds = f"{kind.simpleString().upper()} and {option.type.simpleString().upper()}"
            raise refused(node, f"[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] {shown(node)}: {kinds} differ")
        kind = common
    return [as_type(option, kind, node) for option in options]


_COMPARED = frozenset({"eqNullSafe", "equalTo", "geq", "gt", "leq", "lt", "notEqual"})
_CALCULATED = frozenset({"divide", "minus", "mod", "multiply", "plus"})


def _common_without_ansi(left: t.DataType, right: t.DataType, node: Recorded) -> t.DataType | None:
    """Return the type that values of both types are converted to without ANSI mode.

    Raise `CannotFollowError` if one is a text, and is neither compared nor calculated with.
    """
    if {type(left), type(right)} <= {*BITS, t.FloatType} and t.FloatType() in {left, right}:
        return t.FloatType()
    if isinstance(left, t.StringType) == isinstance(right, t.StringType) or t.NullType() in {left, right}:
        return _common(left, right)
    other = right if isinstance(left, t.StringType) else left
    if is_number(other) and (node.name in _CALCULATED or isinstance(other, t.DecimalType)):
        kind: t.DataType = t.DoubleType()
    else:
        kind = other
    if node.name in _COMPARED | _CALCULATED and _common(left, right) is not None:
        return kind
    raise _beside_text(node)


def _beside_text(node: Recorded) -> CannotFollowError:
    what = f"{shown(node)} of a text and another type without {ANSI}"
    return CannotFollowError(what, node.place, "Cast one to the type of the other")


def as_type(inner: Bound, kind: t.DataType, node: Recorded) -> Bound:
    """Return a column converted to a type, unless it has it. ``node``: what needs that."""
    return inner if inner.type == kind else converted(inner, kind, node, inner.name)


def boolean(inner: Bound, node: Recorded) -> Bound:
    """Return a column that is true or false, or raise the error by which Spark refuses another."""
    if isinstance(inner.type, (t.BooleanType, t.NullType)):
        return inner
    raise _mismatch(inner, node, "BOOLEAN")


def number(inner: Bound, node: Recorded) -> Bound:
    """Return a column of numbers, or raise the error by which Spark refuses another."""
    if is_number(inner.type) or isinstance(inner.type, t.NullType):
        return inner
    if isinstance(inner.type, t.StringType) and not is_ansi():
        raise _beside_text(node)
    raise _mismatch(inner, node, "a number")


def _mismatch(inner: Bound, node: Recorded, wanted: str) -> AnalysisException:
    problem = f"{inner.name} is {inner.type.simpleString().upper()}, not {wanted}"
    return refused(node, f"[DATATYPE_MISMATCH] {shown(node)}: {problem}")


def text(inner: Bound, node: Recorded) -> Bound:
    """Return a column as text."""
    return inner if isinstance(inner.type, t.StringType) else as_type(inner, t.StringType(), node)


def fitting(kind: t.DataType, function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert results to the type: round to FLOAT and DECIMAL, and raise an error if they do not fit."""
    if isinstance(kind, t.DecimalType):
        return fitted(kind, function)
    if type(kind) in BITS:
        return lambda *values: in_range(function(*values), kind, "ARITHMETIC_OVERFLOW")
    if isinstance(kind, t.FloatType):
        return lambda *values: single_precision(function(*values))
    return function


def ordered(value: Any) -> Any:
    """Return a sort key: NaN is greater than any other number, and equal to itself; a null within a struct is least."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, (tuple, list)):
        return [(item is not None, ordered(item)) for item in value]
    return (0, value) if isinstance(value, (int, Decimal)) else value


def hashable(value: Any) -> Any:
    """Return a key that is equal for equal values, including NaN, and -0.0 and 0.0."""
    if isinstance(value, float):
        return ordered(value)
    if isinstance(value, dict):
        return frozenset((key, hashable(item)) for key, item in value.items())
    return tuple(map(hashable, value)) if isinstance(value, (list, tuple)) else value
