"""The columns of a plan that are drawn, or counted, anew when a batch is run again; and its windows of whole days."""

import re

from google.protobuf.message import Message
from pyspark.sql.connect.proto import Expression, Relation

from headrace_sim.spark.plan.plan_expressions import messages_in

_DRAWN = frozenset(
    {"monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"}
)
"""Functions that give something else then. Clocks are not among them: Spark keeps a batch's time."""

_DAYS = re.compile(r"\s*(?:\d+\s+(?:days?|weeks?)|(?:24|48|72|96|168)\s+hours?)\s*", re.IGNORECASE)
_WITH_START = 3
"""How many arguments behind the column a call of ``window`` has, if it says where windows start."""


def drawn_columns(plan: bytes) -> frozenset[str]:
    """Return the names of columns that are computed by such a function. ``plan``: a relation, as PySpark's client sends it."""
    named = [part for part in messages_in(Relation.FromString(plan)) if isinstance(part, Expression.Alias)]
    return frozenset(
        name for alias in named if any(map(_is_drawn, messages_in(alias.expr))) for name in alias.name
    )


def windows_of_days(plan: bytes) -> list[str]:
    """Return the lengths of windows of time that are whole days, and begin with a day of UTC: Spark counts them from 1970."""
    parts = messages_in(Relation.FromString(plan))
    calls = (part for part in parts if isinstance(part, Expression.UnresolvedFunction))
    windows = (call for call in calls if call.function_name.lower() == "window")
    intervals = [[argument.literal.string for argument in call.arguments[1:]] for call in windows]
    return [lengths[0] for lengths in intervals if len(lengths) < _WITH_START and _DAYS.fullmatch(lengths[0])]


def _is_drawn(part: Message) -> bool:
    if isinstance(part, Expression.ExpressionString):
        return any(name in _DRAWN for name in re.findall(r"(\w+)\s*\(", part.expression.lower()))
    return isinstance(part, Expression.UnresolvedFunction) and part.function_name.lower() in _DRAWN
