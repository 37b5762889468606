"""Calls in columns that need more than one row, or make more than one: window functions, pandas functions, ``explode``.

They are computed first, and become columns of their own.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.expressions import bind
from headrace_sim.spark.recorded import USER_FUNCTION, Recorded, shown
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.user_functions import called_on_columns, takes_columns
from headrace_sim.spark.window_functions import Row, windowed

Partition = tuple[Row, ...]
Computed = tuple[list[Recorded], t.StructType, Sequence[Partition]]
"""Columns, and the schema and the rows that they are to be bound to."""


def windows_in(node: Any) -> Iterator[Recorded]:
    """Yield the calls of window functions in a recorded column, or in a collection of such."""
    return (call for call in _calls_in(node) if call.name == "over")


def _calls_in(node: Any) -> Iterator[Recorded]:
    if isinstance(node, Recorded):
        if node.name in {"over", *_OF_PLACES} or (node.name == USER_FUNCTION and takes_columns(node.args[0])):
            yield node
        else:
            yield from _calls_in(node.args)
    elif isinstance(node, list | tuple):
        for part in node:
            yield from _calls_in(part)


def computed_first(nodes: list[Recorded], schema: t.StructType, partitions: Sequence[Partition]) -> Computed:
    """Compute the calls in columns that need more than one row.

    Returns:
        The columns, reading the results instead; the schema with columns for those; the rows with their values, in one
        partition if there are window functions.

    Raises:
        CannotFollowError: If a call is not simulated.
        AnalysisException: If Spark would refuse it.

    """
    calls = list(_calls_in(nodes))
    if any(windows_in(calls)):
        partitions = [tuple(row for partition in partitions for row in partition)]
    fields, found, columns = [], dict[int, Recorded](), list[list[list[Any]]]()
    for number, call in enumerate(calls):
        if call.name == "over":
            kind, nullable, values = windowed(call, schema, partitions[0])
            columns.append([values])
        elif call.name in _OF_PLACES:
            (kind, of_place), nullable = _OF_PLACES[call.name], False
            columns.append([of_place(call, number, len(rows)) for number, rows in enumerate(partitions)])
        else:
            kind, nullable = call.args[0].returnType, True
            columns.append(called_on_columns(call, lambda node: bind(node, schema), partitions))
        fields.append(t.StructField(f"computed {number}", kind, nullable))
        column = Recorded("field", (len(schema.fields) + number, shown(call)), call.place)
        found[id(call)] = column
    extended = [
        tuple((*row, *values) for row, *values in zip(partition, *computed, strict=True))
        for partition, *computed in zip(partitions, *columns, strict=True)
    ]
    made = [_replaced(node, found) for node in nodes]
    return _exploded(made, t.StructType([*schema.fields, *fields]), extended)


def _random(call: Recorded, partition: int, count: int) -> list[Any]:
    """Draw numbers: other ones each time, unless a seed is given."""
    source: Any = Random(f"{call.args[0]}/{partition}") if call.args else random
    draw = source.gauss if call.name == "randn" else source.random
    return [draw(0.0, 1.0) if call.name == "randn" else draw() for _ in range(count)]


_OF_PLACES: dict[str, tuple[t.DataType, Callable[[Recorded, int, int], list[Any]]]] = {
    "monotonically_increasing_id": (
        t.LongType(), lambda _call, partition, count: [(partition << 33) + place for place in range(count)],
    ),
    "rand": (t.DoubleType(), _random),
    "randn": (t.DoubleType(), _random),
    "spark_partition_id": (t.IntegerType(), lambda _call, partition, count: [partition] * count),
    "uuid": (t.StringType(), lambda _call, _partition, count: [str(uuid.uuid4()) for _ in range(count)]),
}  # fmt: skip
"""Functions that give other values each time, or by a row's place: their type, and what makes so many values for a partition."""


def _exploded(nodes: list[Recorded], schema: t.StructType, partitions: Sequence[Partition]) -> Computed:
    """Make a row of each element of an array, if a column asks for that; of each pair of elements, if two do."""
    while (call := next(filter(None, map(_explode_of, nodes)), None)) is not None:
        inner, outer = bind(call.args[0], schema), call.name == "explode_outer"
        if not isinstance(inner.type, t.ArrayType):
            raise CannotFollowError(
                f"{call.name}() of {inner.type.simpleString()}", call.place, "Give it an array"
            )
        field = t.StructField("element", inner.type.elementType, inner.type.containsNull or outer)
        partitions = [
            tuple((*row, item) for row in partition for item in inner.value(row) or ([None] if outer else []))
            for partition in partitions
        ]
        column = Recorded("field", (len(schema.fields), "col"), call.place)
        nodes = [_replaced(node, {id(call): column}) for node in nodes]
        schema = t.StructType([*schema.fields, field])
    return nodes, schema, partitions


def _explode_of(node: Recorded) -> Recorded | None:
    """Return the call of ``explode`` that a column is."""
    inner = node.args[0] if node.name == "as" else node
    return inner if isinstance(inner, Recorded) and inner.name in {"explode", "explode_outer"} else None


def _replaced(node: Any, found: dict[int, Recorded]) -> Any:
    if isinstance(node, Recorded):
        known = found.get(id(node))
        return known or Recorded(node.name, tuple(_replaced(arg, found) for arg in node.args), node.place)
    return [_replaced(part, found) for part in node] if isinstance(node, list) else node
