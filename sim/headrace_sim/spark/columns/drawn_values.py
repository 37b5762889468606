"""Values drawn for a type: rows are made of them where the user gives none."""

import random
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from headrace.api.errors import HeadraceError

START = datetime(2030, 1, 1)
KEYS = ("ann", "bob", "eve")


class UndrawableError(HeadraceError):
    """A type that cannot be drawn. Fields: kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        """Name the type and what to do."""
        return f"no values are drawn for {self.kind.upper()}. Give the rows: feed = [[row, ...], ...] in the module"


def value_of(kind: Any, chance: random.Random, at: datetime) -> Any:
    """Return a value of a type; times are the one that is given. Raise `UndrawableError`."""
    name = kind.typeName()
    if name in _DRAWN:
        return _DRAWN[name](chance, at)
    if name == "struct":
        return tuple(value_of(field.dataType, chance, at) for field in kind.fields)
    if name == "array":
        return [value_of(kind.elementType, chance, at) for _ in range(2)]
    if name == "map":
        return {value_of(kind.keyType, chance, at): value_of(kind.valueType, chance, at)}
    if name == "decimal":
        return Decimal(chance.randrange(10 ** min(kind.precision, 4))).scaleb(-kind.scale)
    raise UndrawableError(kind.simpleString())


_DRAWN: dict[str, Callable[[random.Random, datetime], Any]] = {
    "string": lambda chance, _: chance.choice(KEYS),
    **dict.fromkeys(("byte", "short", "integer", "long"), lambda chance, _: chance.randrange(1, 100)),
    **dict.fromkeys(("float", "double"), lambda chance, _: chance.randrange(1, 400) / 4),
    "boolean": lambda chance, _: chance.random() < 0.5,
    "binary": lambda chance, _: chance.choice(KEYS).encode(),
    "date": lambda _, at: at.date(),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), lambda _, at: at),
}


def rows_there(schema: t.StructType) -> tuple[tuple[Any, ...], ...]:
    """Return rows of a table of which nothing but its schema is known. Its keys are those of drawn rows.

    Raise `UndrawableError` if the schema has a type that cannot be drawn.
    """
    return tuple(
        tuple(_key(field.dataType, number) for field in schema.fields) for number in range(len(KEYS))
    )


def _key(kind: t.DataType, number: int) -> Any:
    if isinstance(kind, t.StringType):
        return KEYS[number]
    if isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        return number + 1
    return value_of(kind, random.Random(number), START)
