"""Rows for a schema, drawn from a seed: what a job or a sink is tried with when nobody gives an input."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_sim.spark.ddl import Schema

BATCHES = 3
ROWS = 2
"""Choice: of each batch. A sink is tried at each of its effects, so few rows make many trials."""

_START = datetime(2030, 1, 1)  # noqa: DTZ001  Spark's timestamps are naive
_KEYS = ("ann", "bob", "eve")


class UndrawableError(HeadraceError):
    """Nothing is drawn for a type. Fields: kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        """Name the type and what to do."""
        return f"no values are drawn for {self.kind.upper()}. Give the rows: feed = [[row, ...], ...] in the module"


def drawn_batches(schema: Schema, seed: int) -> list[list[tuple[Any, ...]]]:
    """Return the rows of a few micro-batches. Text repeats, as keys do; time goes on from row to row; nothing is null.

    Raises:
        UndrawableError: If the schema has a type that nothing is drawn for.

    """
    chance = random.Random(seed)
    rows = [
        tuple(_drawn(field.dataType, chance, place) for field in schema.fields)
        for place in range(BATCHES * ROWS)
    ]
    return [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]


def _drawn(kind: Any, chance: random.Random, place: int) -> Any:
    name = kind.typeName()
    if name in _DRAWN:
        return _DRAWN[name](chance, place)
    if name == "struct":
        return tuple(_drawn(field.dataType, chance, place) for field in kind.fields)
    if name == "array":
        return [_drawn(kind.elementType, chance, place) for _ in range(2)]
    if name == "map":
        return {_drawn(kind.keyType, chance, place): _drawn(kind.valueType, chance, place)}
    if name == "decimal":
        return Decimal(chance.randrange(10 ** min(kind.precision, 4))).scaleb(-kind.scale)
    raise UndrawableError(kind.simpleString())


def _time(_chance: random.Random, place: int) -> datetime:
    return _START + timedelta(seconds=10 * place)


_DRAWN: dict[str, Callable[[random.Random, int], Any]] = {
    "string": lambda chance, _: chance.choice(_KEYS),
    **dict.fromkeys(("byte", "short", "integer", "long"), lambda chance, _: chance.randrange(1, 100)),
    **dict.fromkeys(("float", "double"), lambda chance, _: chance.randrange(1, 400) / 4),
    "boolean": lambda chance, _: chance.random() < 0.5,
    "binary": lambda chance, _: chance.choice(_KEYS).encode(),
    "date": lambda chance, place: _time(chance, place).date(),
    "timestamp": _time,
    "timestamp_ntz": _time,
}
