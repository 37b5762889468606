"""The settings of a session that change values, where columns are bound and computed.

Rules of this file:

* What the evaluator heeds is read here by name. A call that a setting changes and the evaluator does not heed is left to the
  real Spark (`expect_followed`), which is given all of these settings with each question.
* A setting that is not here is not known to change a value; one that is of Spark's past (``spark.sql.legacy.``) and is not
  here is told (`unheeded`).
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from pyspark.errors import PySparkException

from headrace_sim.spark.columns.held import held
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.refusals import CannotFollowError

ANSI = "spark.sql.ansi.enabled"
CORRUPT = "spark.sql.columnNameOfCorruptRecord"
ESCAPES = "spark.sql.parser.escapedStringLiterals"
CASES = "spark.sql.caseSensitive"
MAP_KEYS = "spark.sql.mapKeyDedupPolicy"
NO_NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
SIZE_OF_NULL = "spark.sql.legacy.sizeOfNull"
TIME_PARSER = "spark.sql.legacy.timeParserPolicy"
TIME_TYPE = "spark.sql.timestampType"
STORE = "spark.sql.storeAssignmentPolicy"
ZONE = "spark.sql.session.timeZone"
DEFAULTS = {
    ANSI: str(VERSION >= (4, 0)).lower(), CASES: "false", CORRUPT: "_corrupt_record", ESCAPES: "false", MAP_KEYS: "EXCEPTION",
    NO_NULL_FIELDS: "true", SIZE_OF_NULL: "true", STORE: "ANSI", TIME_PARSER: "CORRECTED" if VERSION >= (4, 0) else "EXCEPTION",
    TIME_TYPE: "TIMESTAMP_LTZ", ZONE: "UTC",
}  # fmt: skip
"""Spark's own values of the settings that are heeded."""
_ARITHMETIC = frozenset({"divide", "minus", "mod", "multiply", "plus"})
_LEFT: dict[str, tuple[str, frozenset[str]]] = {
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", _ARITHMETIC),
    "spark.sql.json.enablePartialResults": ("true", frozenset({"from_json"})),
    "spark.sql.json.enableExactStringParsing": ("true", frozenset({"from_json"})),
}
"""Settings that the evaluator does not heed: their values in Spark, and the calls that they change."""
_ASKED_WITH = re.compile(r"spark\.sql\.(legacy|ansi|parser|json)\.")
"""Which further settings the real Spark is given."""
_VALUES: ContextVar[Mapping[str, str]] = ContextVar("settings", default=MappingProxyType({}))


def settings_in_force(values: Mapping[str, str]) -> AbstractContextManager[Mapping[str, str]]:
    """Compute columns in this block by a session's settings. What is set within counts from then on."""
    return held(_VALUES, values)


def ansi_mode() -> AbstractContextManager[Mapping[str, str]]:
    """Compute columns in this block in ANSI mode, and else by the settings in force."""
    return settings_in_force({**_VALUES.get(), ANSI: "true"})


def in_force(name: str) -> str:
    """Return the value of a setting that is heeded, as it is set or as Spark has it."""
    return _VALUES.get().get(name, DEFAULTS[name])


def all_in_force() -> dict[str, str]:
    """Return a copy of all that the session sets."""
    return {**_VALUES.get()}


def is_on(name: str) -> bool:
    """Return whether a setting is ``true``."""
    return in_force(name).lower() == "true"


def is_set(name: str) -> bool:
    """Return whether the session sets it."""
    return name in _VALUES.get()


def folded(name: str) -> str:
    """Return a name as names are compared: in lower case, unless the session tells cases apart."""
    return name if is_on(CASES) else name.lower()


def expect_followed(call: str, place: str) -> None:
    """Expect a call that no setting in force changes in a way that is not heeded.

    Raise `CannotFollowError` if only the real Spark computes it.
    """
    values = _VALUES.get()
    for name, (usual, calls) in _LEFT.items():
        if call in calls and values.get(name, usual).lower() != usual.lower():
            raise CannotFollowError(f"{call}() under {name}={values[name]}", place, "Leave the setting out")


def asked_with() -> dict[str, str]:
    """Return the settings in force that the real Spark is asked with."""
    values = _VALUES.get()
    return {
        name: value for name, value in sorted(values.items())
        if name in DEFAULTS or name in _LEFT or _ASKED_WITH.match(name)
    }  # fmt: skip


def unheeded(values: Mapping[str, str]) -> list[str]:
    """Return the session's settings whose effect on values is unknown."""
    return [
        f"{name}={value}" for name, value in values.items()
        if name.startswith("spark.sql.legacy.") and name not in DEFAULTS and name not in _LEFT
    ]  # fmt: skip


_ERRORS = (
    "[ARITHMETIC_OVERFLOW", "[CANNOT_PARSE_TIMESTAMP", "[CAST_INVALID_INPUT", "[CAST_OVERFLOW", "[DIVIDE_BY_ZERO",
    "[INVALID_ARRAY_INDEX", "[MAP_KEY_DOES_NOT_EXIST", "[NUMERIC_VALUE_OUT_OF_RANGE", "[REMAINDER_BY_ZERO",
)  # fmt: skip
"""How the messages begin of what is an error in ANSI mode only."""


def is_ansi() -> bool:
    """Return whether columns are computed in ANSI mode: a value that does not fit is an error, and else null, or wraps."""
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
