"""Calls in columns that need more than one row: window functions, and pandas functions.

They are computed first, and become columns of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.expressions import bind
from headrace_sim.spark.recorded import USER_FUNCTION, Recorded, shown
from headrace_sim.spark.user_functions import called_on_columns, takes_columns
from headrace_sim.spark.window_functions import Row, windowed

Partition = tuple[Row, ...]


def windows_in(node: Any) -> Iterator[Recorded]:
    """Yield the calls of window functions in a recorded column, or in a collection of such."""
    return (call for call in _calls_in(node) if call.name == "over")


def _calls_in(node: Any) -> Iterator[Recorded]:
    if isinstance(node, Recorded):
        if node.name == "over" or (node.name == USER_FUNCTION and takes_columns(node.args[0])):
            yield node
        else:
            yield from _calls_in(node.args)
    elif isinstance(node, list | tuple):
        for part in node:
            yield from _calls_in(part)


def computed_first(
    nodes: list[Recorded], schema: t.StructType, partitions: Sequence[Partition]
) -> tuple[list[Recorded], t.StructType, Sequence[Partition]]:
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
    return [_replaced(node, found) for node in nodes], t.StructType([*schema.fields, *fields]), extended


def _replaced(node: Any, found: dict[int, Recorded]) -> Any:
    if isinstance(node, Recorded):
        known = found.get(id(node))
        return known or Recorded(node.name, tuple(_replaced(arg, found) for arg in node.args), node.place)
    return [_replaced(part, found) for part in node] if isinstance(node, list) else node
