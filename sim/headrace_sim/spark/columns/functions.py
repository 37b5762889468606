"""Spark's functions of one row's values, by name: what they take, what they return, and their meaning in Python.

Arguments are converted as Spark converts them. If one is null, so is the result.
"""

import calendar
import hashlib
import math
import operator
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, partial
from typing import Any

from pyspark.errors import ArithmeticException, DateTimeException
from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import in_range, saturated
from headrace_sim.spark.columns.in_force import TIME_PARSER, in_force, is_ansi
from headrace_sim.spark.columns.json_values import json_object
from headrace_sim.spark.columns.zones import instant, wall_time
from headrace_sim.spark.refusals import NotSimulatedError

_TEXT, _INT, _LONG, _DOUBLE = t.StringType(), t.IntegerType(), t.LongType(), t.DoubleType()
_DATE, _TIME, _BOOLEAN = t.DateType(), t.TimestampType(), t.BooleanType()


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Spark."""

    # the types of its arguments; the last ones may be left out if ``call`` has defaults for them
    takes: tuple[t.DataType, ...]
    returns: t.DataType  # the type of its result
    call: Callable[..., Any]  # the function of the arguments, none of which is None
    nullable: bool = False  # whether its result may be null though no argument is
    # whether only arguments that have these types as they are can be followed, because others give other types
    exact: bool = False


def _initials(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _padded(text: str, length: int, pad: str, *, left: bool) -> str:
    room = max(length - len(text), 0)
    filled = (pad * room)[:room]
    return (filled + text if left else text + filled)[: max(length, 0)]


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern of Java's as Python's, if it means the same there."""
    if "&&" in text or r"\Z" in text:
        raise NotSimulatedError(f"the pattern {text!r}, which means something else in Java than in Python")
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise NotSimulatedError(f"the pattern {text!r}, which is none in Python") from error


def _like(text: str, pattern: str) -> bool:
    parts = re.findall(r"\\(.)|(%)|(_)|(.)", pattern, re.DOTALL)
    regex = "".join(
        ".*" if many else "." if one else re.escape(quoted or plain) for quoted, many, one, plain in parts
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _replaced(text: str, pattern: str, replacement: str) -> str:
    escaped = replacement.replace("\\", r"\\")
    template = re.sub(r"\\\\(.)|\$(\d)", lambda part: part[1] or rf"\g<{part[2]}>", escaped)
    return _pattern(pattern).sub(template, text)


def _extracted(text: str, pattern: str, group: int = 1) -> str:
    match = _pattern(pattern).search(text)
    return (match[group] or "") if match else ""


def _split(text: str, pattern: str, limit: int = -1) -> list[str]:
    if not pattern:
        return [*text] or [text]
    return _pattern(pattern).split(text, maxsplit=max(limit - 1, 0)) if limit != 1 else [text]


def _sha2(data: bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, data).hexdigest() if name else None


def _rounded(value: float, digits: int = 0) -> float:
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)) + 0.0  # never -0.0


def _whole(call: Callable[[float], int], value: float) -> int:
    if not is_ansi():
        return saturated(call(value) if math.isfinite(value) else value, 64)
    if not math.isfinite(value):
        raise ArithmeticException(message=f"[ARITHMETIC_OVERFLOW] {value} does not fit BIGINT")
    return in_range(call(value), _LONG, "ARITHMETIC_OVERFLOW")


def _translated(text: str, old: str, new: str) -> str:
    table = {ord(char): new[place : place + 1] for place, char in reversed([*enumerate(old)])}
    return text.translate(table)


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _seconds(at: datetime, _form: str = "") -> int:
    return math.floor(at.timestamp())  # Spark looks at the pattern for text alone


_UNITS: dict[str, Callable[[datetime], datetime]] = {
    "year": lambda at: datetime(at.year, 1, 1), "quarter": lambda at: datetime(at.year, (at.month - 1) // 3 * 3 + 1, 1),
    "month": lambda at: datetime(at.year, at.month, 1),
    "week": lambda at: datetime(at.year, at.month, at.day) - timedelta(days=at.weekday()),
    "day": lambda at: datetime(at.year, at.month, at.day), "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "minute": lambda at: at.replace(second=0, microsecond=0), "second": lambda at: at.replace(microsecond=0),
}  # fmt: skip
_NAMES = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}


def _truncated(unit: str, at: datetime) -> datetime | None:
    name = unit.lower()
    cut = _UNITS.get(_NAMES.get(name, name))
    return None if cut is None else cut(at)


def _truncated_time(unit: str, at: datetime) -> datetime | None:
    cut = _truncated(unit, wall_time(at))
    return None if cut is None else instant(cut)


def _truncated_day(day: date, unit: str) -> date | None:
    coarse = _NAMES.get(unit.lower(), unit.lower()) in {"year", "quarter", "month", "week"}
    start = _truncated(unit, datetime(day.year, day.month, day.day)) if coarse else None
    return None if start is None else start.date()


_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def _formatted(at: datetime, form: str) -> str:
    parts = []
    for quoted, letters, _, other in re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", form):
        if letters and letters not in _LETTERS:
            known = ", ".join(_LETTERS)
            raise NotSimulatedError(
                f"{letters!r} in the pattern {form!r} (known are {known}, and text in '...')"
            )
        parts.append(at.strftime(_LETTERS[letters]) if letters else quoted or other)
    return "".join(parts)


def _of_day(call: Callable[[date], int]) -> Function:
    return Function((_DATE,), _INT, call)


def _of_time(name: str) -> Function:
    return Function((_TIME,), _INT, lambda at: getattr(wall_time(at), name))


FUNCTIONS: dict[str, Function] = {
    "contains": Function((_TEXT, _TEXT), _BOOLEAN, operator.contains),
    "endsWith": Function((_TEXT, _TEXT), _BOOLEAN, str.endswith),
    "get_json_object": Function((_TEXT, _TEXT), _TEXT, json_object, nullable=True),
    "initcap": Function((_TEXT,), _TEXT, _initials),
    "instr": Function((_TEXT, _TEXT), _INT, lambda text, part: text.find(part) + 1),
    "length": Function((_TEXT,), _INT, len),
    "like": Function((_TEXT, _TEXT), _BOOLEAN, _like),
    "lower": Function((_TEXT,), _TEXT, str.lower),
    "lpad": Function((_TEXT, _INT, _TEXT), _TEXT, lambda *args: _padded(*args, left=True)),
    "ltrim": Function((_TEXT,), _TEXT, lambda text: text.lstrip(" ")),
    "regexp_extract": Function((_TEXT, _TEXT, _INT), _TEXT, _extracted),
    "regexp_replace": Function((_TEXT, _TEXT, _TEXT), _TEXT, _replaced),
    "repeat": Function((_TEXT, _INT), _TEXT, operator.mul),
    "reverse": Function((_TEXT,), _TEXT, lambda text: text[::-1], exact=True),
    "rlike": Function((_TEXT, _TEXT), _BOOLEAN, lambda text, pattern: bool(_pattern(pattern).search(text))),
    "rpad": Function((_TEXT, _INT, _TEXT), _TEXT, lambda *args: _padded(*args, left=False)),
    "rtrim": Function((_TEXT,), _TEXT, lambda text: text.rstrip(" ")),
    "split": Function((_TEXT, _TEXT, _INT), t.ArrayType(_TEXT, containsNull=False), _split),
    "startsWith": Function((_TEXT, _TEXT), _BOOLEAN, str.startswith),
    "translate": Function((_TEXT, _TEXT, _TEXT), _TEXT, _translated),
    "trim": Function((_TEXT,), _TEXT, lambda text: text.strip(" ")),
    "upper": Function((_TEXT,), _TEXT, str.upper),
    "crc32": Function((_TEXT,), _LONG, lambda text: zlib.crc32(text.encode())),
    "md5": Function((_TEXT,), _TEXT, lambda text: hashlib.md5(text.encode()).hexdigest()),  # noqa: S324  as Spark
    "sha1": Function((_TEXT,), _TEXT, lambda text: hashlib.sha1(text.encode()).hexdigest()),  # noqa: S324  as Spark
    "sha2": Function((_TEXT, _INT), _TEXT, lambda text, bits: _sha2(text.encode(), bits), nullable=True),
    "add_months": Function((_DATE, _INT), _DATE, _months_later),
    "date_add": Function((_DATE, _INT), _DATE, lambda day, days: day + timedelta(days)),
    "date_format": Function((_TIME, _TEXT), _TEXT, lambda at, form: _formatted(wall_time(at), form)),
    "date_sub": Function((_DATE, _INT), _DATE, lambda day, days: day - timedelta(days)),
    "date_trunc": Function((_TEXT, _TIME), _TIME, _truncated_time, nullable=True),
    "datediff": Function((_DATE, _DATE), _INT, lambda end, start: (end - start).days),
    "dayofmonth": _of_day(lambda day: day.day),
    "dayofweek": _of_day(lambda day: day.isoweekday() % 7 + 1),
    "dayofyear": _of_day(lambda day: day.timetuple().tm_yday),
    "from_unixtime": Function(
        (_LONG, _TEXT), _TEXT, lambda at, form: _formatted(wall_time(datetime.fromtimestamp(at)), form)
    ),
    "hour": _of_time("hour"),
    "last_day": Function(
        (_DATE,), _DATE, lambda day: day.replace(day=calendar.monthrange(day.year, day.month)[1])
    ),
    "minute": _of_time("minute"),
    "month": _of_day(lambda day: day.month),
    "quarter": _of_day(lambda day: (day.month - 1) // 3 + 1),
    "second": _of_time("second"),
    "to_date": Function((_DATE,), _DATE, lambda day: day),
    "to_timestamp": Function((_TIME,), _TIME, lambda at: at),
    "trunc": Function((_DATE, _TEXT), _DATE, _truncated_day, nullable=True),
    "unix_timestamp": Function((_TIME, _TEXT), _LONG, _seconds, exact=True),
    "weekday": _of_day(date.weekday),
    "year": _of_day(lambda day: day.year),
    "ceil": Function((_DOUBLE,), _LONG, partial(_whole, math.ceil), exact=True),
    "exp": Function((_DOUBLE,), _DOUBLE, math.exp),
    "floor": Function((_DOUBLE,), _LONG, partial(_whole, math.floor), exact=True),
    "log": Function((_DOUBLE,), _DOUBLE, lambda value: math.log(value) if value > 0 else None, nullable=True),
    "pow": Function((_DOUBLE, _DOUBLE), _DOUBLE, math.pow),
    "round": Function((_DOUBLE, _INT), _DOUBLE, _rounded, exact=True),
    "sqrt": Function((_DOUBLE,), _DOUBLE, lambda value: math.sqrt(value) if value >= 0 else math.nan),
}
"""The functions, by the names of Java's API."""
PARSED = {
    "to_date": Function((_TEXT, _TEXT), _DATE, lambda text, form: time_of_text(text, form).date(), exact=True),
    "to_timestamp": Function((_TEXT, _TEXT), _TIME, lambda text, form: instant(time_of_text(text, form)), exact=True),
}  # fmt: skip
"""Functions that read text by a pattern, if they are given one."""


_DIGITS = {
    "yyyy": r"\d{4}", "MM": r"\d\d", "M": r"\d\d?", "dd": r"\d\d", "d": r"\d\d?", "HH": r"\d\d", "H": r"\d\d?", "mm": r"\d\d",
    "ss": r"\d\d", "SSS": r"\d{3}", "SSSSSS": r"\d{6}",
}  # fmt: skip
"""What a letter of a pattern takes when text is read by it."""
_OLD_DIGITS = r"\s*[-+]?\d+"
"""What any letter takes in Spark 2, which leaves alone what follows the last one."""


def time_of_text(text: str, form: str) -> datetime:
    """Return the time that a text has by a pattern of Java's.

    Raise `DateTimeException` if it has none, or `NotSimulatedError` if the policy asks the parser of Spark 2, which may read it.
    """
    match = _reader(form).fullmatch(text)
    parts = match.groupdict() if match is not None else {"M": "0"}  # there is no such month
    try:
        year, month, day = int(parts.get("y", 1970)), int(parts.get("M", 1)), int(parts.get("d", 1))
        hour, minute, second = (int(parts.get(letter, 0)) for letter in "Hms")
        return datetime(year, month, day, hour, minute, second, int(parts.get("S", "0").ljust(6, "0")))
    except ValueError as error:
        if (
            match is None
            and in_force(TIME_PARSER).upper() != "CORRECTED"
            and _reader(form, old=True).match(text)
        ):
            raise NotSimulatedError(
                f"the text {text!r}, which only the date parser of Spark 2 may read by {form!r} ({TIME_PARSER} is "
                f"{in_force(TIME_PARSER).upper()}; with CORRECTED that parser is not asked)"
            ) from error
        problem = f"Text {text!r} could not be parsed by {form!r}: use `try_to_timestamp`"
        raise DateTimeException(message=f"[CANNOT_PARSE_TIMESTAMP] {problem}") from error


@cache
def _reader(form: str, *, old: bool = False) -> re.Pattern[str]:
    """Return what reads text by a pattern of Java's, with a group for each letter; or all that Spark 2 may read, and more."""
    regex = []
    for quoted, letters, _, other in re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", form):
        if letters and (letters not in _DIGITS or "[" in form):
            raise NotSimulatedError(f"{letters!r} in the pattern {form!r} (known are {', '.join(_DIGITS)})")
        digits = _OLD_DIGITS if old else _DIGITS.get(letters)
        regex.append(f"(?P<{letters[0]}>{digits})" if letters else re.escape(quoted or other))
    return re.compile("".join(regex), re.ASCII)
