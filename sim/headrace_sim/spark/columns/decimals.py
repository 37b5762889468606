"""DECIMAL in Spark: the types that results have, and their values."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from pyspark.errors import ArithmeticException
from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import BITS, cast_value

_MOST_DIGITS, _LEAST_SCALE = 38, 6
"""Of a DECIMAL; and what remains of a scale that is longer, where the digits do not suffice."""
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Of a whole number with so many bits, as a DECIMAL."""
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)


def as_decimal(kind: t.DataType, literal: int | None = None) -> t.DecimalType:
    """Return the DECIMAL that holds all values of a whole number's type, or just this one."""
    if isinstance(kind, t.DecimalType):
        return kind
    digits = _DIGITS[BITS[type(kind)]] if literal is None else len(str(abs(literal)))
    return t.DecimalType(digits, 0)


def wider(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """Return the type that holds all values of both, as far as a DECIMAL can."""
    scale = max(left.scale, right.scale)
    digits = scale + max(left.precision - left.scale, right.precision - right.scale)
    return t.DecimalType(min(digits, _MOST_DIGITS), scale)


def bounded(precision: int, scale: int) -> t.DecimalType:
    """Return the type with so many digits, or the one that Spark takes if those are too many."""
    if precision <= _MOST_DIGITS:
        return t.DecimalType(precision, scale)
    return t.DecimalType(_MOST_DIGITS, max(_MOST_DIGITS - (precision - scale), min(scale, _LEAST_SCALE)))


def _of_sum(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    scale = max(left.scale, right.scale)
    return bounded(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _of_product(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    return bounded(left.precision + right.precision + 1, left.scale + right.scale)


def _of_quotient(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
    return bounded(left.precision - left.scale + right.scale + scale, scale)


def _of_remainder(left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    scale = max(left.scale, right.scale)
    return bounded(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def _divided(dividend: Decimal, divisor: Decimal) -> Decimal:
    if not divisor:
        raise ArithmeticException(message="[DIVIDE_BY_ZERO] Division by zero")
    return _WIDE.divide(dividend, divisor)


def _remainder(dividend: Decimal, divisor: Decimal) -> Decimal:
    if not divisor:
        raise ArithmeticException(message="[REMAINDER_BY_ZERO] Remainder by zero")
    return _WIDE.remainder(dividend, divisor)


OPERATIONS: dict[
    str, tuple[Callable[[t.DecimalType, t.DecimalType], t.DecimalType], Callable[[Decimal, Decimal], Decimal]]
] = {
    "divide": (_of_quotient, _divided),
    "minus": (_of_sum, _WIDE.subtract),
    "mod": (_of_remainder, _remainder),
    "multiply": (_of_product, _WIDE.multiply),
    "plus": (_of_sum, _WIDE.add),
}
"""Arithmetic, by the names of Java's API: the type of its result, and its value before that is rounded to the type."""


def fitted(kind: t.DecimalType, function: Callable[..., Any]) -> Callable[..., Any]:
    """Round results to the type; raise the error of Spark if they do not fit."""
    fit = cast_value(t.StringType(), kind)
    assert fit is not None
    return lambda *values: fit(function(*values))


def average(values: list[Decimal]) -> Decimal:
    """Return the average, before it is rounded to its type."""
    return _WIDE.divide(sum(values, Decimal(0)), Decimal(len(values)))
