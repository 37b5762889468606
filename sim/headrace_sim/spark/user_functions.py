"""Python's own functions of columns (``udf``): what they are called with, and what Spark makes of what they return.

A function that Spark runs with Arrow, as it does by default, may return what Arrow can convert; anything else is an error. One
that Spark runs without Arrow gets a null for whatever is of another type than it declares.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.util import PythonEvalType

from headrace_sim.spark.recorded import NAMED_ARGUMENT, Recorded
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.values import from_pickled

Value = Callable[[Any], Any]
"""The value of a column for a row."""


def called(node: Recorded, bind: Callable[[Any], Value]) -> Value:
    """Return the value of a recorded call of a function.

    Args:
        node: The call.
        bind: Gives the value of a recorded column.

    Raises:
        CannotFollowError: If it takes whole columns, as pandas functions do.

    """
    function, columns = node.args
    convert = _returned(function, node.place)
    named, placed = dict[str, Value](), list[Value]()
    for column in columns:
        if isinstance(column, Recorded) and column.name == NAMED_ARGUMENT:
            named[column.args[0]] = bind(column.args[1])
        else:
            placed.append(bind(column))

    def value(row: Any) -> Any:
        by_name = {name: argument(row) for name, argument in named.items()}
        return convert(function.func(*[argument(row) for argument in placed], **by_name))

    return value


def _returned(function: Any, place: str) -> Callable[[Any], Any]:
    """Return what converts a function's results into the values of a column."""
    kind: t.DataType = function.returnType
    if function.evalType == PythonEvalType.SQL_BATCHED_UDF:
        return lambda result: from_pickled(kind, kind.toInternal(result))
    if function.evalType != PythonEvalType.SQL_ARROW_BATCHED_UDF:
        remedy = "Write it for one row, with udf(), or as a function for mapInPandas()"
        raise CannotFollowError(f"{function._name}(), which takes whole columns,", place, remedy)
    arrow = to_arrow_type(kind, timezone="UTC", prefers_large_types=False)
    to_arrow = LocalDataToArrowConversion._create_converter(kind, none_on_identity=True)
    schema = t.StructType([t.StructField("result", kind)])

    def convert(result: Any) -> Any:
        given = [result if to_arrow is None else to_arrow(result)]
        try:
            made = pa.array(given, type=arrow)
        except pa.lib.ArrowInvalid:
            made = pa.array(given).cast(arrow)
        return ArrowTableToRowsConversion.convert(pa.table({"result": made}), schema)[0][0]

    return convert
