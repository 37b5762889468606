"""Spark's CAST between simple types, on Python values in ANSI mode: a value that does not fit is an error, not a null."""

import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from pyspark.errors import (
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.sql import types as t

from headrace_sim.spark.columns.in_force import is_ansi
from headrace_sim.spark.columns.zones import instant, wall_time

Cast = Callable[[Any], Any]

BITS: dict[type, int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
"""The integral types."""
FRACTIONAL = (t.FloatType, t.DoubleType)
_WIDE = Context(prec=100)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?|[+-]?(?i:infinity|inf)|(?i:nan)")
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?")


def is_number(kind: t.DataType) -> bool:
    """Return whether a type is one of numbers."""
    return type(kind) in BITS or isinstance(kind, (*FRACTIONAL, t.DecimalType))


def cast_value(source: t.DataType, target: t.DataType) -> Cast | None:
    """Return the function that casts a non-null value, or None if the cast is not simulated."""
    if source == target or isinstance(source, t.NullType):
        return lambda value: value
    if isinstance(target, t.StringType):
        return _to_string(source)
    if type(target) in BITS:
        return _to_integral(source, target)
    if isinstance(target, FRACTIONAL):
        return _to_fractional(source, target)
    if isinstance(target, t.DecimalType):
        return _to_decimal(source, target)
    if isinstance(target, t.BooleanType):
        return _to_boolean(source)
    if isinstance(target, t.DateType):
        return {t.StringType: _string_to_date, t.TimestampType: lambda value: wall_time(value).date()}.get(
            type(source)
        )
    if isinstance(target, t.TimestampType):
        return _to_timestamp(source)
    return str.encode if isinstance(target, t.BinaryType) and isinstance(source, t.StringType) else None


def _to_string(source: t.DataType) -> Cast | None:
    if isinstance(source, t.DecimalType):
        return lambda value: format(value, "f")
    if isinstance(source, t.FloatType):
        return lambda value: java_double(value, single=True)
    shown: dict[type, Cast] = {
        t.BooleanType: lambda value: "true" if value else "false", t.DoubleType: java_double, t.DateType: date.isoformat,
        t.TimestampType: lambda at: _shown_timestamp(wall_time(at)), t.TimestampNTZType: _shown_timestamp,
        t.BinaryType: lambda value: bytes(value).decode(errors="replace"), **dict.fromkeys(BITS, str),
    }  # fmt: skip
    return shown.get(type(source))


def java_double(value: float, *, single: bool = False) -> str:
    """Return a number as Java's ``Double.toString`` (or ``Float.toString``) writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    digits = _shortest_single(value) if single else repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(digits), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, figures, exponent = Decimal(digits).as_tuple()
    written = "".join(map(str, figures)).rstrip("0") or "0"
    power = len(figures) + int(exponent) - 1
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def _shortest_single(value: float) -> str:
    single = single_precision(value)
    return next(
        text for digits in range(1, 10) if single_precision(float(text := f"{value:.{digits}g}")) == single
    )


def single_precision(value: float) -> float:
    """Return the nearest FLOAT."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shown_timestamp(value: datetime) -> str:
    whole = value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{whole}.{value.microsecond:06}".rstrip("0") if value.microsecond else whole


def in_range(value: int, target: t.DataType, problem: str) -> int:
    """Return the integer if it fits the type. Raise Spark's ``ArithmeticException`` otherwise; without ANSI mode it wraps."""
    limit = 1 << BITS[type(target)] - 1
    if not -limit <= value < limit:
        if not is_ansi() and problem != "CAST_INVALID_INPUT":
            return (value + limit) % (2 * limit) - limit
        raise ArithmeticException(message=f"[{problem}] {value} does not fit {target.simpleString().upper()}")
    return value


def _to_integral(source: t.DataType, target: t.DataType) -> Cast | None:
    if isinstance(source, (*FRACTIONAL, t.DecimalType)):
        return lambda value: in_range(_whole(value, target), target, "CAST_OVERFLOW")
    if isinstance(source, t.TimestampType):
        return lambda value: in_range(math.floor(value.timestamp()), target, "CAST_OVERFLOW")
    if isinstance(source, t.StringType):
        return lambda value: in_range(_parsed_integer(value, target), target, "CAST_INVALID_INPUT")
    if isinstance(source, t.BooleanType):
        return int
    return (lambda value: in_range(value, target, "CAST_OVERFLOW")) if type(source) in BITS else None


def _whole(value: float | Decimal, target: t.DataType) -> int:
    if isinstance(value, float) and not is_ansi():
        return saturated(value, BITS[t.LongType] if isinstance(target, t.LongType) else BITS[t.IntegerType])
    if not math.isfinite(value):
        raise ArithmeticException(message=f"[CAST_OVERFLOW] {value} does not fit an integral type")
    return math.trunc(value)


def saturated(value: float, bits: int) -> int:
    """Return the nearest integer towards zero that Java's int or long has; 0 for NaN."""
    limit = 1 << bits - 1
    return 0 if math.isnan(value) else math.trunc(max(-limit, min(value, limit - 1)))


def _invalid(
    value: str, target: str, kind: type[PySparkException] = NumberFormatException
) -> PySparkException:
    message = (
        f"[CAST_INVALID_INPUT] The value {value!r} of the type STRING cannot be cast to {target.upper()}"
    )
    return kind(message=message)


def _parsed_integer(value: str, target: t.DataType) -> int:
    text = value.strip()
    if not is_ansi():
        text = re.sub(r"(?<=\d)\.\d*$", "", text, flags=re.ASCII)
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise _invalid(value, target.simpleString())
    return int(text)


def _to_fractional(source: t.DataType, target: t.DataType) -> Cast | None:
    narrow: Cast = single_precision if isinstance(target, t.FloatType) else float
    if isinstance(source, t.StringType):
        return lambda value: narrow(_parsed_number(value, target))
    if isinstance(source, t.TimestampType):
        return lambda value: narrow(value.timestamp())
    known = isinstance(source, (*FRACTIONAL, t.DecimalType, t.BooleanType)) or type(source) in BITS
    return (lambda value: narrow(float(value))) if known else None


def _parsed_number(value: str, target: t.DataType) -> float:
    text = value.strip()
    if not _NUMBER.fullmatch(text):
        raise _invalid(value, target.simpleString())
    return float(text if text[-1] in "yYnN" else text.rstrip("dDfF") if text.lower()[-3:] != "inf" else text)


def _to_decimal(source: t.DataType, target: Any) -> Cast | None:
    known = isinstance(source, (t.StringType, t.DecimalType, *FRACTIONAL)) or type(source) in BITS
    if not known:
        return None
    limit = Decimal(10) ** (target.precision - target.scale)

    def cast(value: Any) -> Decimal | None:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        try:
            number = Decimal(str(value).strip()).quantize(
                Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, _WIDE
            )
        except InvalidOperation:
            raise _invalid(str(value), target.simpleString()) from None
        if number.is_nan():
            raise _invalid(str(value), target.simpleString())
        if abs(number) >= limit:
            problem = f"{value} does not fit {target.simpleString().upper()}"
            raise ArithmeticException(message=f"[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] {problem}")
        return _WIDE.plus(number)  # never -0

    return cast


def _to_boolean(source: t.DataType) -> Cast | None:
    if isinstance(source, t.StringType):
        return _parsed_boolean
    return bool if isinstance(source, (*FRACTIONAL, t.DecimalType)) or type(source) in BITS else None


def _parsed_boolean(value: str) -> bool:
    text = value.strip().lower()
    if text not in _TRUE | _FALSE:
        raise _invalid(value, "boolean", SparkRuntimeException)
    return text in _TRUE


def _string_to_date(value: str) -> date:
    matched = _DATE.fullmatch(value.strip())
    try:
        if matched:
            return date(int(matched[1]), int(matched[2] or 1), int(matched[3] or 1))
    except ValueError:
        pass
    raise _invalid(value, "date", DateTimeException)


def _to_timestamp(source: t.DataType) -> Cast | None:
    if isinstance(source, t.StringType):
        return _string_to_timestamp
    if isinstance(source, t.DateType):
        return lambda value: instant(datetime.combine(value, time()))
    return datetime.fromtimestamp if type(source) in BITS or isinstance(source, FRACTIONAL) else None


def _string_to_timestamp(value: str) -> datetime:
    text = value.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if not _DATE.fullmatch(text) or " " in text or "T" in text:
            raise _invalid(value, "timestamp", DateTimeException) from None
        return instant(datetime.combine(_string_to_date(text), time()))
    return instant(moment) if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
