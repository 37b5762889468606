"""ANSI mode: a value that does not fit is an error, as Spark has it from 4.0 on. Without it, it is null, or wraps."""

from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from headrace_sim.spark.columns.in_force import ANSI, is_on

_ERRORS = (
    "[ARITHMETIC_OVERFLOW", "[CANNOT_PARSE_TIMESTAMP", "[CAST_INVALID_INPUT", "[CAST_OVERFLOW", "[DIVIDE_BY_ZERO",
    "[INVALID_ARRAY_INDEX", "[MAP_KEY_DOES_NOT_EXIST", "[NUMERIC_VALUE_OUT_OF_RANGE", "[REMAINDER_BY_ZERO",
)  # fmt: skip
"""How the messages begin of what is an error in ANSI mode only."""


def is_ansi() -> bool:
    """Return whether columns are computed in ANSI mode."""
    return is_on(ANSI)


def or_null(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns null where ANSI mode would have an error, if columns are computed without it."""
    if is_ansi():
        return function

    def value(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except PySparkException as error:
            if str(error).startswith(_ERRORS):
                return None
            raise

    return value
