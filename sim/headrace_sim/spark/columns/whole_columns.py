"""Calls in columns that need several rows, or make several: window functions, pandas functions, ``explode``, ``window``.

They are computed first, and become columns of their own.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import as_type, time_kept
from headrace_sim.spark.columns.ddl import interval_us
from headrace_sim.spark.columns.draws import source_of_draws
from headrace_sim.spark.columns.expressions import bind, time_of
from headrace_sim.spark.columns.recorded import USER_FUNCTION, Recorded, shown
from headrace_sim.spark.columns.user_functions import called_on_columns, takes_columns
from headrace_sim.spark.columns.window_functions import Row, windowed
from headrace_sim.spark.refusals import CannotFollowError

Partition = tuple[Row, ...]
Computed = tuple[list[Recorded], t.StructType, Sequence[Partition]]
"""Columns, and the schema and the rows that they are to be bound to."""


def needs_rows(node: Any) -> bool:
    """Return whether a column, or one of several, follows from more than its row: others, its place, chance or the clock."""
    if isinstance(node, Recorded):
        is_such = node.name in _OF_ROWS or (node.name == USER_FUNCTION and takes_columns(node.args[0]))
        return is_such or needs_rows(node.args)
    return isinstance(node, list | tuple) and any(map(needs_rows, node))


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

    The columns, reading the results instead; the schema with columns for those; the rows with their values, in one partition
    if there are window functions. Raise `CannotFollowError` if a call is not simulated, or `AnalysisException` if Spark would
    refuse it.
    """
    calls = list(_calls_in(nodes))
    if any(windows_in(calls)):
        partitions = [tuple(row for partition in partitions for row in partition)]
    fields, results, columns = [], dict[int, Recorded](), list[list[list[Any]]]()
    for number, call in enumerate(calls):
        if call.name == "over":
            kind, nullable, values = windowed(call, schema, partitions[0])
            columns.append([values])
        elif call.name in _OF_PLACES:
            (kind, of_place), nullable = _OF_PLACES[call.name], False
            sizes = enumerate(map(len, partitions))
            columns.append([of_place(call, (number, place), size) for place, size in sizes])
        else:
            kind, nullable = call.args[0].returnType, True
            columns.append(called_on_columns(call, lambda node: bind(node, schema), partitions))
        fields.append(t.StructField(f"computed {number}", kind, nullable))
        column = Recorded("field", (len(schema.fields) + number, shown(call)), call.place)
        results[id(call)] = column
    extended = [
        tuple((*row, *values) for row, *values in zip(partition, *computed, strict=True))
        for partition, *computed in zip(partitions, *columns, strict=True)
    ]
    replaced = [_replaced(node, results) for node in nodes]
    return _multiplied(replaced, t.StructType([*schema.fields, *fields]), extended)


def _drawn(call: Recorded, place: tuple[int, int], count: int) -> list[Any]:
    if not count:
        return []
    source = source_of_draws(call.args[0] if call.args else None, *place)
    draws: dict[str, Callable[[], Any]] = {
        "rand": source.random,
        "randn": lambda: source.gauss(0.0, 1.0),
        "uuid": lambda: str(uuid.UUID(int=source.getrandbits(128), version=4)),
    }
    return [draws[call.name]() for _ in range(count)]


_OF_PLACES: dict[str, tuple[t.DataType, Callable[[Recorded, tuple[int, int], int], list[Any]]]] = {
    "monotonically_increasing_id": (
        t.LongType(), lambda _call, place, count: [(place[1] << 33) + row for row in range(count)],
    ),
    "rand": (t.DoubleType(), _drawn),
    "randn": (t.DoubleType(), _drawn),
    "spark_partition_id": (t.IntegerType(), lambda _call, place, count: [place[1]] * count),
    "uuid": (t.StringType(), _drawn),
}  # fmt: skip
"""Functions that give other values each time, or by a row's place: their type, and what makes so many values for
a place: that of the call, and of the partition."""


_OF_ROWS = frozenset({
    *_OF_PLACES, "current_date", "current_timestamp", "explode", "explode_outer", "now", "over", "window",
})  # fmt: skip
"""Calls that need more than a row."""


def _multiplied(nodes: list[Recorded], schema: t.StructType, partitions: Sequence[Partition]) -> Computed:
    """Make a row of each element of an array, or of each window of time, that a column asks for: of all pairs, if two do."""
    while (
        call := next((generator for node in nodes for generator in _generators_in(node)), None)
    ) is not None:
        is_window = call.name == "window"
        kind, items_of = _windows(call, schema) if is_window else _elements(call, schema)
        metadata = time_kept(bind(call.args[0], schema).metadata) if is_window else None
        field = t.StructField(f"made {len(schema.fields)}", kind, nullable=not is_window, metadata=metadata)
        partitions = [tuple((*row, item) for row in part for item in items_of(row)) for part in partitions]
        column = Recorded("field", (len(schema.fields), "window" if is_window else "col"), call.place)
        nodes = [_replaced(node, {id(call): column}) for node in nodes]
        schema = t.StructType([*schema.fields, field])
    return nodes, schema, partitions


def _generators_in(node: Any) -> Iterator[Recorded]:
    """Yield the calls that make rows. Only windows may be within other calls."""
    inner = node.args[0] if isinstance(node, Recorded) and node.name == "as" else node
    if isinstance(inner, Recorded) and inner.name in {"explode", "explode_outer", "window"}:
        yield inner
    elif isinstance(inner, Recorded):
        for arg in inner.args:
            yield from (generator for generator in _generators_in(arg) if generator.name == "window")


def _elements(call: Recorded, schema: t.StructType) -> tuple[t.DataType, Callable[[Row], list[Any]]]:
    inner, none = bind(call.args[0], schema), [None] if call.name == "explode_outer" else []
    if not isinstance(inner.type, t.ArrayType):
        what = f"{call.name}() of {inner.type.simpleString()}"
        raise CannotFollowError(what, call.place, "Give it an array")
    return inner.type.elementType, lambda row: inner.value(row) or none


def _windows(call: Recorded, schema: t.StructType) -> tuple[t.DataType, Callable[[Row], list[Any]]]:
    """Return what ``window`` makes: the windows of time that a row is in, the latest first; none without a time."""
    time, kind = time_of(bind(call.args[0], schema)), t.TimestampType()
    if isinstance(time.type, t.StringType | t.DateType):  # Spark casts it
        time = as_type(time, kind, call)
    lengths = [time_us for length in call.args[1:] if (time_us := interval_us(str(length))) is not None]
    if not isinstance(time.type, t.TimestampType) or len(lengths) + 1 < len(call.args):
        remedy = "Give it a TIMESTAMP, and intervals such as '10 minutes'"
        raise CannotFollowError(shown(call), call.place, remedy)
    length_us, slide_us, begin_us = [*lengths, *[lengths[0], 0][len(lengths) - 1 :]]
    names = ["start", "end"]

    def value(row: Row) -> list[Any]:
        time_us = time.value(row)
        if time_us is None:
            return []
        at_us = kind.toInternal(time_us)
        last_us = at_us - (at_us - begin_us) % slide_us
        starts = range(last_us, at_us - length_us, -slide_us)
        ends = [(kind.fromInternal(start), kind.fromInternal(start + length_us)) for start in starts]
        return [t._create_row(names, window) for window in ends]

    return t.StructType([t.StructField(name, kind) for name in names]), value


def _replaced(node: Any, results: dict[int, Recorded]) -> Any:
    if isinstance(node, Recorded):
        known = results.get(id(node))
        return known or Recorded(node.name, tuple(_replaced(arg, results) for arg in node.args), node.place)
    return [_replaced(part, results) for part in node] if isinstance(node, list) else node
