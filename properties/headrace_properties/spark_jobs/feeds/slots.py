"""The values of a source's row that a job looks at, each in its slot, and how one is written within another.

The bytes of Kafka's ``value`` hold a text, the text holds JSON, one of its fields holds a time in a pattern: each is a slot, and
a codec writes the inner value into the outer one.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, auto
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import cast_value


class Use(Enum):
    """What a job does with a value."""

    COMPARED = auto()
    EVENT_TIME = auto()
    KEY = auto()
    NULL = auto()
    """It asks whether it is null."""
    DISTINCT = auto()
    """It counts different values, or drops rows that repeat one."""


@dataclass(frozen=True, slots=True)
class SlotForm:
    """How an inner value is written in the outer one."""

    form: str  # ``json``, ``text``, ``time dd/MM/yyyy``: equal forms write equally
    write: Callable[[Any], Any] = field(compare=False)  # does it to a value that is not null


@dataclass(eq=False, slots=True)
class InputSlot:
    """A value of a source's row, or of a part of it."""

    name: str  # unique in the job; a column of this name stands for it in conditions
    kind: t.DataType
    label: str = ""  # its own name in the row or the document
    outer: "InputSlot | None" = None  # what it is a part or the content of, or None
    written: SlotForm | None = None  # how its content is written, or None
    content: "InputSlot | None" = None  # the value that is written in it, or None
    # its fields, by name; of an array: its items, as one
    parts: "dict[Any, InputSlot]" = field(default_factory=dict)
    literals: list[Any] = field(default_factory=list)  # what the job compares it with
    uses: set[Use] = field(default_factory=set)  # what the job does with it
    nullable: bool = True  # whether it can be null
    # returns its value from the number of the row, for what the source counts itself, or None
    counted: Callable[[int], Any] | None = None

    @property
    def leaves(self) -> "Iterator[InputSlot]":
        """The slots whose values are drawn, and not made of others."""
        inner = [self.content] if self.content else list(self.parts.values())
        if not inner:
            yield self
        for slot in inner:
            yield from slot.leaves

    @property
    def is_time(self) -> bool:
        """Whether its values are times."""
        return isinstance(self.kind, (t.TimestampType, t.TimestampNTZType, t.DateType))


def as_json(slot: InputSlot, time_format: str = "", date_format: str = "") -> SlotForm:
    """Return how a slot's value is written as JSON, with times in patterns of Java's, or in ISO 8601."""

    def plain(slot: InputSlot | None, value: Any) -> Any:
        parts = list(slot.parts.values()) if slot is not None else []
        if isinstance(value, tuple) and parts:  # fields that are null are left out
            pairs = zip(parts, value, strict=True)
            return {part.label: plain(part, item) for part, item in pairs if item is not None}
        if isinstance(value, list | tuple):
            return [plain(parts[0] if parts else None, item) for item in value]
        if isinstance(value, dict):
            return {str(key): plain(None, item) for key, item in value.items()}
        if isinstance(value, Decimal):
            return float(value)
        if isinstance(value, date):
            pattern = time_format if isinstance(value, datetime) else date_format
            return _in_pattern(value, pattern) if pattern else value.isoformat()
        return value.decode() if isinstance(value, bytes) else value

    return SlotForm(
        "json", lambda value: json.dumps(plain(slot, value), separators=(",", ":"), ensure_ascii=False)
    )


def as_text(kind: t.DataType) -> SlotForm | None:
    """Return how a value of a simple type is written as text, or None."""
    cast = cast_value(kind, t.StringType())
    return None if cast is None else SlotForm(f"text of {kind.simpleString()}", cast)


AS_BYTES = SlotForm("bytes", str.encode)


def joined(separator: str) -> SlotForm:
    """Return how texts are written beside each other."""
    return SlotForm(
        f"split {separator}",
        lambda items: separator.join("" if item is None else str(item) for item in items),
    )


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  Spark's timestamps are naive


def as_epoch(per_second: int) -> SlotForm:
    """Return how a time is written as the number of seconds, or parts of them, since 1970, in UTC."""
    unit = timedelta(seconds=1) / per_second
    return SlotForm(f"epoch {per_second}", lambda at: (at - _EPOCH) // unit)


def as_time(pattern: str) -> SlotForm:
    """Return how a time is written in a pattern of Java's: ``dd/MM/yyyy HH:mm``."""
    return SlotForm(f"time {pattern}", lambda at: _in_pattern(at, pattern))


_LETTERS: dict[str, Callable[[Any], str]] = {
    "yyyy": lambda at: f"{at:%Y}", "y": lambda at: f"{at:%Y}", "uuuu": lambda at: f"{at:%Y}", "yy": lambda at: f"{at:%y}",
    "MMMM": lambda at: f"{at:%B}", "MMM": lambda at: f"{at:%b}", "MM": lambda at: f"{at:%m}", "M": lambda at: str(at.month),
    "dd": lambda at: f"{at:%d}", "d": lambda at: str(at.day), "EEEE": lambda at: f"{at:%A}", "EEE": lambda at: f"{at:%a}",
    "E": lambda at: f"{at:%a}", "DDD": lambda at: f"{at:%j}", "HH": lambda at: f"{at:%H}", "H": lambda at: str(at.hour),
    "hh": lambda at: f"{at:%I}", "h": lambda at: str(int(f"{at:%I}")), "mm": lambda at: f"{at:%M}",
    "m": lambda at: str(at.minute),
    "ss": lambda at: f"{at:%S}", "s": lambda at: str(at.second), "a": lambda at: f"{at:%p}", "z": lambda _: "UTC",
    "VV": lambda _: "UTC", "X": lambda _: "Z", "XX": lambda _: "Z", "XXX": lambda _: "Z", "x": lambda _: "+00",
    "xx": lambda _: "+0000", "xxx": lambda _: "+00:00", "Z": lambda _: "+0000", "ZZZZZ": lambda _: "Z",
}  # fmt: skip


def _in_pattern(at: Any, pattern: str) -> str:
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day)  # noqa: DTZ001
    parts = []
    for quoted, letters, _, other in re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", pattern):
        if letters and set(letters) == {"S"}:
            parts.append(f"{at.microsecond:06}".ljust(len(letters), "0")[: len(letters)])
        elif letters:
            parts.append(_LETTERS[letters](at) if letters in _LETTERS else letters)
        else:
            parts.append(other.translate({91: None, 93: None}) or quoted or "'" * (not other))  # [optional]
    return "".join(parts)
