"""Spark's aggregates, by name: what they make of the rows of a group."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import Bound, fitting, hashable, literal, number, ordered
from headrace_sim.spark.columns.casts import BITS
from headrace_sim.spark.columns.decimals import average, bounded
from headrace_sim.spark.columns.recorded import Recorded, shown

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate."""

    type_of: Callable[[t.DataType], t.DataType]  # returns its type for its argument's
    # the function of the values; without those that are null, unless it takes them
    call: Callable[[list[Any]], Any]
    nullable: bool = True  # whether it may be null
    takes_nulls: bool = False  # whether the values have those that are null
    needs_numbers: bool = False  # whether its argument must be a number
    distinct: bool = False  # whether each value counts once


def aggregate(node: Recorded, bind: Callable[[Any], Bound]) -> Bound:
    """Return a recorded aggregate as a function of the rows of a group. ``bind`` binds a column of one row."""
    if node.name in {"max_by", "min_by"}:
        return _by_another(node, bind)
    first, *options = node.args
    known = AGGREGATES[node.name]
    whole_rows = isinstance(first, Recorded) and (first.args == ("*",) or first.name == "lit")
    children = [literal(1) if whole_rows else bind(first)]
    if node.name == "count_distinct":
        children += [bind(other) for other in options[0]]
    if known.needs_numbers:
        number(children[0], node)
    kind = known.type_of(children[0].type)
    call = fitting(kind, known.call) if node.name in {"avg", "sum", "sum_distinct"} else known.call
    with_nulls = known.takes_nulls and not (options and options[0] is True)

    def value(rows: list[Row]) -> Any:
        arguments = [tuple(child.value(row) for child in children) for row in rows]
        if not with_nulls:
            arguments = [values for values in arguments if None not in values]
        if known.distinct:
            arguments = list({hashable(values): values for values in reversed(arguments)}.values())[::-1]
        return call([values[0] for values in arguments]) if arguments or not known.nullable else None

    return Bound(shown(node), kind, known.nullable, value)


def _by_another(node: Recorded, bind: Callable[[Any], Bound]) -> Bound:
    """Return ``max_by`` or ``min_by``: the value of one column where another one is largest, or smallest."""
    chosen, by = map(bind, node.args)
    choose = max if node.name == "max_by" else min

    def value(rows: list[Row]) -> Any:
        known = [row for row in rows if by.value(row) is not None]
        return chosen.value(choose(known, key=lambda row: ordered(by.value(row)))) if known else None

    return Bound(shown(node), chosen.type, True, value)


def _total(kind: t.DataType) -> t.DataType:
    """Return the type of a SUM: BIGINT for integers, DOUBLE or DECIMAL for others."""
    if isinstance(kind, t.DecimalType):
        return bounded(kind.precision + 10, kind.scale)
    return t.LongType() if type(kind) in BITS else t.DoubleType()


def _mean(kind: t.DataType) -> t.DataType:
    if isinstance(kind, t.DecimalType):
        return bounded(kind.precision + 4, kind.scale + 4)
    return t.DoubleType()


def _spread(*, of_sample: bool, root: bool) -> AggregateFunction:
    """Return a variance, or its root: of a sample, that of one value is null."""

    def spread(values: list[Any]) -> float | None:
        numbers = list(map(float, values))
        mean, count = sum(numbers) / len(numbers), len(numbers) - of_sample
        squares = math.fsum((number - mean) ** 2 for number in numbers)
        return (math.sqrt(squares / count) if root else squares / count) if count else None

    return AggregateFunction(lambda _kind: t.DoubleType(), spread, needs_numbers=True)


def _same(kind: t.DataType) -> t.DataType:
    return kind


def _list_of(kind: t.DataType) -> t.DataType:
    return t.ArrayType(kind, containsNull=False)


def _long(_kind: t.DataType) -> t.DataType:
    return t.LongType()


def _truth(_kind: t.DataType) -> t.DataType:
    return t.BooleanType()


AGGREGATES: dict[str, AggregateFunction] = {
    "any_value": AggregateFunction(_same, lambda values: values[0], takes_nulls=True),
    # Exact: Spark's sketch is wrong by a few percent of many values, and hardly ever of the few that are tried.
    "approx_count_distinct": AggregateFunction(_long, len, nullable=False, distinct=True),
    "avg": AggregateFunction(
        _mean, lambda values: average(values) if isinstance(values[0], Decimal) else sum(values) / len(values),
        needs_numbers=True,
    ),
    **dict.fromkeys(("bool_and", "every"), AggregateFunction(_truth, all)),
    **dict.fromkeys(("bool_or", "some"), AggregateFunction(_truth, any)),
    "collect_list": AggregateFunction(_list_of, list, nullable=False),
    "collect_set": AggregateFunction(_list_of, list, nullable=False, distinct=True),
    "count": AggregateFunction(_long, len, nullable=False),
    "count_if": AggregateFunction(_long, sum, nullable=False), "stddev_pop": _spread(of_sample=False, root=True),
    "var_pop": _spread(of_sample=False, root=False),
    **dict.fromkeys(("std", "stddev", "stddev_samp"), _spread(of_sample=True, root=True)),
    **dict.fromkeys(("var_samp", "variance"), _spread(of_sample=True, root=False)),
    "count_distinct": AggregateFunction(_long, len, nullable=False, distinct=True),
    "first": AggregateFunction(_same, lambda values: values[0], takes_nulls=True),
    "last": AggregateFunction(_same, lambda values: values[-1], takes_nulls=True),
    "max": AggregateFunction(_same, lambda values: max(values, key=ordered)),
    "min": AggregateFunction(_same, lambda values: min(values, key=ordered)),
    "sum": AggregateFunction(_total, sum, needs_numbers=True),
    "sum_distinct": AggregateFunction(_total, sum, needs_numbers=True, distinct=True),
}  # fmt: skip
"""The aggregates of one column, by the names of Java's API."""

NAMES = frozenset({*AGGREGATES, "max_by", "min_by"})
"""The names of all."""
