"""The columns of a plan that are drawn, or counted, anew when a batch is run again."""

import re
from collections.abc import Iterator, Sequence

from google.protobuf.message import Message
from pyspark.sql.connect.proto import Expression, Relation

_DRAWN = frozenset(
    {"monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"}
)
"""Functions that give something else then. Clocks are not among them: Spark keeps a batch's time."""


def drawn_columns(plan: bytes) -> frozenset[str]:
    """Return the names of columns that are computed by such a function. ``plan``: a relation, as PySpark's client sends it."""
    named = [part for part in _parts(Relation.FromString(plan)) if isinstance(part, Expression.Alias)]
    return frozenset(
        name for alias in named if any(map(_is_drawn, _parts(alias.expr))) for name in alias.name
    )


def _is_drawn(part: Message) -> bool:
    if isinstance(part, Expression.ExpressionString):
        return any(name in _DRAWN for name in re.findall(r"(\w+)\s*\(", part.expression.lower()))
    return isinstance(part, Expression.UnresolvedFunction) and part.function_name.lower() in _DRAWN


def _parts(message: Message) -> Iterator[Message]:
    """Yield a message of a plan, and all within it."""
    yield message
    for field, value in message.ListFields():
        for part in value if field.type == field.TYPE_MESSAGE and isinstance(value, Sequence) else [value]:
            if isinstance(part, Message):
                yield from _parts(part)
