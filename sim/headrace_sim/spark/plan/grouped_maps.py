"""``groupBy(...).applyInPandas(...)`` on rows in memory: the user's function is called with each group as a pandas frame."""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from headrace_sim.spark.columns.bound import hashable
from headrace_sim.spark.columns.evaluations import note_rows
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.values import InputRows, OutputRows
from headrace_sim.spark.pyspark_versions import PythonEvalType
from headrace_sim.spark.refusals import CannotFollowError


def grouped_map(function: Any, keys: Sequence[Recorded], place: str) -> Callable[[Rows], Rows]:
    """Return what maps the groups of rows.

    ``function``: PySpark's function, with the user's, and the schema of its result. ``keys``: the columns that the rows are
    grouped by. Raise `CannotFollowError` if it takes something else than a pandas frame.
    """
    if function.evalType != PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF:
        raise CannotFollowError(
            "a function of groups as Arrow tables or iterators", place, "Use applyInPandas()"
        )
    takes_key, out = len(signature(function.func).parameters) > 1, OutputRows(function.returnType)

    def mapped(rows: Rows) -> Rows:
        by, read = [bind(key, rows.schema).value for key in keys], InputRows(rows.schema)
        groups: dict[Any, list[tuple[Any, ...]]] = {}
        for row in rows.all():
            groups.setdefault(tuple(hashable(key(row)) for key in by), []).append(row)
        results: list[tuple[Any, ...]] = []
        for group in groups.values():
            key = (tuple(value(group[0]) for value in by),) if takes_key else ()
            result = out.from_frames(function.func(*key, frame) for frame in read.slices(group))
            note_rows(function.func, place, group, result)
            results += result
        return Rows(function.returnType, [tuple(results)])

    return mapped
