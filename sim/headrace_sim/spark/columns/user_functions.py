"""Python's own functions of columns (``udf``): what they are called with, and what Spark makes of what they return.

A function that Spark runs with Arrow, as it does by default, may return what Arrow can convert; anything else is an error. One
that Spark runs without Arrow gets a null for whatever is of another type than it declares.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import Bound
from headrace_sim.spark.columns.evaluations import note_result
from headrace_sim.spark.columns.recorded import NAMED_ARGUMENT, Recorded
from headrace_sim.spark.columns.values import InputRows, OutputRows, from_pickled
from headrace_sim.spark.pyspark_versions import PythonEvalType, arrow_type, rows_of, to_arrow
from headrace_sim.spark.refusals import CannotFollowError

T = TypeVar("T")
Value = Callable[[Any], Any]
"""The value of a column for a row."""


def called(node: Recorded, bind: Callable[[Any], Value]) -> Value:
    """Return the value of a recorded call of a function.

    ``bind``: gives the value of a recorded column. Raise `CannotFollowError` if it takes whole columns, as pandas functions
    do.
    """
    function, columns = node.args
    convert = _returned(function, node.place)
    placed, named = _arguments(columns, bind)

    def value(row: Any) -> Any:
        by_name = {name: argument(row) for name, argument in named.items()}
        arguments = [argument(row) for argument in placed]
        result = convert(function.func(*arguments, **by_name))
        note_result(function._name, node.place, (arguments, by_name), result)
        return result

    return value


def _arguments(columns: Iterable[Any], bind: Callable[[Any], T]) -> tuple[list[T], dict[str, T]]:
    """Return what is given by place and what by name."""
    named, placed = dict[str, T](), list[T]()
    for column in columns:
        if isinstance(column, Recorded) and column.name == NAMED_ARGUMENT:
            named[column.args[0]] = bind(column.args[1])
        else:
            placed.append(bind(column))
    return placed, named


def takes_columns(function: Any) -> bool:
    """Return whether a function is a pandas function from columns to a column."""
    return function.evalType in {_SCALAR, _ITERATOR}


def called_on_columns(
    node: Recorded, bind: Callable[[Any], Bound], partitions: Sequence[Sequence[tuple[Any, ...]]]
) -> list[list[Any]]:
    """Return the results of a recorded call of a pandas function, for each row of each partition.

    ``bind``: binds a recorded column. Raise `CannotFollowError` if it takes or returns structs, or `PySparkException` if
    Spark would refuse what it returns.
    """
    function, columns = node.args
    placed, named = _arguments(columns, bind)
    arguments = [*placed, *named.values()]
    if any(
        isinstance(kind, t.StructType) for kind in (function.returnType, *(bound.type for bound in arguments))
    ):
        remedy = "Give it the fields as columns of their own, or write a function for mapInPandas()"
        raise CannotFollowError(f"{function._name}(), a pandas function with structs,", node.place, remedy)
    read = InputRows(
        t.StructType([t.StructField(f"_{at}", bound.type) for at, bound in enumerate(arguments)])
    )
    out = OutputRows(t.StructType([t.StructField("result", function.returnType)]))
    columns_of_results = []
    for rows in partitions:
        results: list[Any] = []
        for frame in read.frames([tuple(bound.value(row) for bound in arguments) for row in rows], _BATCH):
            series = [frame[name] for name in frame.columns]
            by_name = dict(zip(named, series[len(placed) :], strict=True))
            values = out.from_frames([_result(function, series[: len(placed)], by_name, len(frame))])
            for given_row, (result,) in zip(frame.itertuples(index=False, name=None), values, strict=True):
                note_result(function._name, node.place, given_row, result)
            results += values
        columns_of_results.append([row[0] for row in results])
    return columns_of_results


def _result(function: Any, placed: list[Any], named: dict[str, Any], count: int) -> Any:
    """Call a pandas function, and return a frame with what it returns."""
    import pandas as pd  # noqa: PLC0415  slow to import, and few jobs need it

    if function.evalType == _ITERATOR:
        (result,) = function.func(iter([placed[0] if len(placed) == 1 else tuple(placed)]))
    else:
        result = function.func(*placed, **named)
    if not hasattr(result, "__len__"):
        kind = type(result).__name__
        raise PySparkTypeError(f"[UDF_RETURN_TYPE] {function._name}() returns {kind}, not a pandas.Series")
    if len(result) != count:
        problem = f"the result of {function._name}() has {len(result)} rows, and not {count}"
        raise PySparkRuntimeError(f"[RESULT_ROWS_MISMATCH] {problem}")
    return pd.DataFrame({"result": pd.Series(result).reset_index(drop=True)})


_SCALAR, _ITERATOR = PythonEvalType.SQL_SCALAR_PANDAS_UDF, PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF
_BATCH = 10_000
"""How many rows Spark gives to a pandas function at once."""


def _returned(function: Any, place: str) -> Callable[[Any], Any]:
    """Return what converts a function's results into the values of a column."""
    kind: t.DataType = function.returnType
    if function.evalType == PythonEvalType.SQL_BATCHED_UDF:
        return lambda result: from_pickled(kind, kind.toInternal(result))
    if function.evalType != PythonEvalType.SQL_ARROW_BATCHED_UDF:
        remedy = "Use it in select(), withColumn() or filter(), or write it for one row, with udf()"
        raise CannotFollowError(f"{function._name}(), which takes whole columns,", place, remedy)
    arrow, prepared = arrow_type(kind), to_arrow(kind)
    schema = t.StructType([t.StructField("result", kind)])

    def convert(result: Any) -> Any:
        values = [prepared(result)]
        try:
            array = pa.array(values, type=arrow)
        except pa.lib.ArrowInvalid:
            array = pa.array(values).cast(arrow)
        return rows_of(pa.table({"result": array}), schema)[0][0]

    return convert
