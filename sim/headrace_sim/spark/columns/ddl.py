"""Spark's types from their text: ``"word STRING, count INT NOT NULL"``, ``"array<struct<a: int>>"``, ``"decimal(10, 2)"``.

PySpark asks Java to parse these. Its types themselves are plain Python.
"""

import re
from typing import Any

from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_sim.spark.pyspark_versions import VARIANTS

Schema = t.StructType
"""The schema of rows."""

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<word>\w+)|(?P<mark>[<>(),:]))"
)

_PLAIN: dict[str, t.DataType] = {
    "boolean": t.BooleanType(), "tinyint": t.ByteType(), "byte": t.ByteType(), "smallint": t.ShortType(), "short": t.ShortType(),
    "int": t.IntegerType(), "integer": t.IntegerType(), "bigint": t.LongType(), "long": t.LongType(), "float": t.FloatType(),
    "real": t.FloatType(), "double": t.DoubleType(), "string": t.StringType(), "binary": t.BinaryType(), "date": t.DateType(),
    "timestamp": t.TimestampType(), "timestamp_ltz": t.TimestampType(), "timestamp_ntz": t.TimestampNTZType(),
    "void": t.NullType(),
}  # fmt: skip
_PLAIN.update({kind.typeName(): kind() for kind in VARIANTS})
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_INTERVALS: dict[Any, dict[str, int]] = {
    t.DayTimeIntervalType: {"day": 0, "hour": 1, "minute": 2, "second": 3},
    t.YearMonthIntervalType: {"year": 0, "month": 1},
}
_SIZED = {"char": t.CharType, "character": t.CharType, "varchar": t.VarcharType}


class SchemaTextError(HeadraceError):
    """A schema in text that Spark cannot parse (PARSE_SYNTAX_ERROR, UNSUPPORTED_DATATYPE). Fields: text, position, problem."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text, self.position, self.problem = text, position, problem

    def __str__(self) -> str:
        """Show the text, the position, and an example of a schema."""
        return (
            f"schema {self.text!r}, at {self.text[self.position :].strip()[:20]!r}: {self.problem}. "
            "Write columns as 'name TYPE [NOT NULL], ...', for example 'word STRING, count INT'"
        )


def parse_type(text: str) -> t.DataType:
    """Return the type that a text names; if it lists columns, a row type. Raise `SchemaTextError`."""
    single = _Parser(text)
    try:
        whole = single.type()
        if single.at_end():
            return whole
    except SchemaTextError:
        if not re.search(r"[\s:]\S", text.strip()):
            raise  # one word: it was meant as a type
    return parse_schema(text)


def parse_schema(text: str) -> t.StructType:
    """Return the schema of rows with the columns that a text lists. Raise `SchemaTextError`."""
    parser = _Parser(text)
    whole = parser.type() if parser.next_is("struct") else t.StructType(parser.columns(parser.at_end))
    if not parser.at_end():
        parser.fail("the text should end here")
    return whole


class _Parser:
    """Reads a type by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, problem: str) -> Any:
        named = problem if problem.startswith("[") else f"[PARSE_SYNTAX_ERROR] {problem}"
        raise SchemaTextError(self.text, self.position, named)

    def at_end(self) -> bool:
        return not self.text[self.position :].strip()

    def _look(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self.position)

    def next_is(self, wanted: str) -> bool:
        token = self._look()
        return token is not None and token.group(0).strip().lower() == wanted

    def take(self, wanted: str) -> bool:
        """Skip the token if it is next, and return whether it was."""
        token = self._look()
        if token is None or token.group(0).strip().lower() != wanted:
            return False
        self.position = token.end()
        return True

    def expect(self, wanted: str) -> None:
        if not self.take(wanted):
            self.fail(f"{wanted!r} is missing")

    def word(self, meaning: str) -> str:
        token = self._look()
        if token is None or not (token["word"] or token["quoted"]):
            return self.fail(f"{meaning} is missing")  # type: ignore[no-any-return]
        self.position = token.end()
        return token["word"] or token["quoted"][1:-1].replace("``", "`")

    def type(self) -> t.DataType:
        start = self.position
        name = self.word("a type").lower()
        if name in _PLAIN:
            return _PLAIN[name]
        if name in _DECIMALS:
            return t.DecimalType(*self._sizes(at_most=2) or (10, 0))
        if name in _SIZED:
            return _SIZED[name](*self._sizes(at_most=1) or self.fail("the length is missing"))
        if name == "array":
            return self._enclosed(lambda: t.ArrayType(self.type()))
        if name == "map":
            return self._enclosed(lambda: t.MapType(self.type(), self._after_comma()))
        if name == "struct":
            return self._enclosed(lambda: t.StructType(self.columns(lambda: self.next_is(">"))))
        if name == "interval":
            return self._interval()
        self.position = start
        return self.fail(f"[UNSUPPORTED_DATATYPE] unsupported data type {name!r}")

    def _interval(self) -> t.DataType:
        """Read ``DAY TO SECOND``, ``MONTH``, and the like."""
        first = self.word("a unit").lower()
        last = self.word("a unit").lower() if self.take("to") else first
        for kind, units in _INTERVALS.items():
            if {first, last} <= units.keys() and units[first] <= units[last]:
                return kind(units[first], units[last])
        return self.fail(f"no interval goes from {first} to {last}")

    def _enclosed(self, inner: Any) -> Any:
        self.expect("<")
        kind = inner()
        self.expect(">")
        return kind

    def _after_comma(self) -> t.DataType:
        self.expect(",")
        return self.type()

    def _sizes(self, at_most: int) -> tuple[int, ...]:
        if not self.take("("):
            return ()
        sizes = [self._size()]
        while len(sizes) < at_most and self.take(","):
            sizes.append(self._size())
        self.expect(")")
        return tuple(sizes)

    def _size(self) -> int:
        number = self.word("a number")
        return int(number) if number.isdigit() else self.fail(f"{number!r} is not a number")

    def columns(self, ended: Any) -> list[t.StructField]:
        """Read ``name [:] type [NOT NULL] [COMMENT 'text']``, with commas between."""
        fields: list[t.StructField] = []
        while (not fields and not ended()) or self.take(","):
            name = self.word("a column's name")
            self.take(":")
            kind = self.type()
            nullable = not self.take("not")
            if not nullable:
                self.expect("null")
            fields.append(t.StructField(name, kind, nullable, self._comment()))
        return fields

    def _comment(self) -> dict[str, str] | None:
        if not self.take("comment"):
            return None
        token = self._look()
        if token is None or not token["text"]:
            return self.fail("the comment's text is missing")  # type: ignore[no-any-return]
        self.position = token.end()
        return {"comment": token["text"][1:-1]}


def interval_us(text: str) -> int | None:
    """Return an interval, such as ``10 minutes`` or ``1 hour 30 seconds``, in microseconds; None: it is none."""
    words = text.lower().removeprefix("interval")
    parts = re.findall(_INTERVAL_PART, words) if re.fullmatch(f"(?:{_INTERVAL_PART})+", words) else []
    known = [(int(number), unit.rstrip("s")) for number, unit in parts]
    if not known or any(unit not in _UNITS_US for _, unit in known):
        return None
    return sum(number * _UNITS_US[unit] for number, unit in known)


_INTERVAL_PART = r"\s*([+-]?\d+)\s*([a-z]+)\s*"
_UNITS_US = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
