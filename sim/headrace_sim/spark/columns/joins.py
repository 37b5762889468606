"""Joins of rows in memory, by names of columns or by a condition."""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import SHARED, hashable
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.in_force import folded
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.refusals import CannotFollowError

Row = tuple[Any, ...]
Side = tuple[t.StructType, Sequence[Row]]
"""The schema and the rows of one of the two frames."""

_HOW = {
    "inner": "inner", "cross": "inner", "left": "left", "leftouter": "left", "right": "right", "rightouter": "right",
    "outer": "full", "full": "full", "fullouter": "full", "semi": "semi", "leftsemi": "semi", "anti": "anti", "leftanti": "anti",
}  # fmt: skip


def kind_of_join(how: str) -> str:
    """Return which join a name of Spark's means: inner, left, right, full, semi or anti. Raise `AnalysisException`."""
    kind = _HOW.get(how.lower().replace("_", ""))
    if kind is None:
        raise AnalysisException(message=f"[UNSUPPORTED_JOIN_TYPE] Unsupported join type {how!r}")
    return kind


def joined(left: Side, right: Side, how: str, names: Sequence[str] | Recorded | None, place: str) -> Side:
    """Join two frames.

    ``left``: one of them. ``right``: the other. ``how``: the kind of join, as `kind_of_join` returns it. ``names``: of the
    columns that are equal, which are in the result once; or a condition; None: all rows match. ``place``: of the user's code.
    Raise `CannotFollowError` if it is not simulated, or `AnalysisException` if Spark would refuse it.
    """
    shared = list(names) if names is not None and not isinstance(names, Recorded) else []
    by_names = not isinstance(names, Recorded)
    schemas = left[0], right[0]
    matches = _by_names(*schemas, shared, place) if by_names else _by_condition(*schemas, names)
    pairs = [(mine, [other for other in right[1] if matches(mine, other)]) for mine in left[1]]
    if how in {"semi", "anti"}:
        return left[0], [mine for mine, others in pairs if bool(others) is (how == "semi")]
    rows = [(mine, other) for mine, others in pairs for other in others]
    no_left, no_right = (None,) * len(left[0].fields), (None,) * len(right[0].fields)
    if how in {"left", "full"}:
        rows += [(mine, no_right) for mine, others in pairs if not others]
    if how in {"right", "full"}:
        known = {id(other) for _, others in pairs for other in others}
        rows += [(no_left, other) for other in right[1] if id(other) not in known]
    return side_by_side(left[0], right[0], how, shared, rows)


def _by_names(
    left: t.StructType, right: t.StructType, names: Sequence[str], place: str
) -> Callable[[Row, Row], bool]:
    """Return whether columns of the same name are equal in two rows. Null is not equal to null."""
    pairs = [(_place(left, name), _place(right, name)) for name in names]
    for mine, its in pairs:
        if left.fields[mine].dataType != right.fields[its].dataType:
            both = left.fields[mine].dataType, right.fields[its].dataType
            kinds = " and ".join(kind.simpleString() for kind in both)
            raise CannotFollowError(f"join() on columns of types {kinds}", place, "Cast one of them before")

    def match(one: Row, other: Row) -> bool:
        return all(
            one[mine] is not None and other[its] is not None and hashable(one[mine]) == hashable(other[its])
            for mine, its in pairs
        )

    return match


def _by_condition(left: t.StructType, right: t.StructType, condition: Any) -> Callable[[Row, Row], bool]:
    test = bind(condition, t.StructType([*left.fields, *right.fields]))
    return lambda one, other: bool(test.value((*one, *other)))


def _place(schema: t.StructType, name: str) -> int:
    matching = [place for place, field in enumerate(schema.fields) if folded(field.name) == folded(name)]
    if len(matching) != 1:
        problem = f"join() on {name!r}, of which one side has {len(matching)}"
        raise AnalysisException(message=f"[UNRESOLVED_USING_COLUMN_FOR_JOIN] {problem}")
    return matching[0]


def side_by_side(
    left: t.StructType, right: t.StructType, how: str, names: Sequence[str], pairs: Sequence[tuple[Row, Row]]
) -> Side:
    """Put the columns of both sides beside each other, the shared ones first and once. A missing side is all None."""
    keys = [(_place(left, name), _place(right, name)) for name in names]
    mine = [place for place in range(len(left.fields)) if place not in [key for key, _ in keys]]
    its = [place for place in range(len(right.fields)) if place not in [key for _, key in keys]]
    fields = [_key_field(left.fields[key], right.fields[other], how) for key, other in keys]
    fields += [_field(left.fields[place], how in {"right", "full"}) for place in mine]
    fields += [_field(right.fields[place], how in {"left", "full"}) for place in its]
    from_right = how == "right"
    rows = [
        (
            *(other[at] if from_right or one[key] is None else one[key] for key, at in keys),
            *(one[place] for place in mine),
            *(other[place] for place in its),
        )
        for one, other in pairs
    ]
    return t.StructType(fields), rows


def _field(field: t.StructField, missing: bool) -> t.StructField:
    return t.StructField(field.name, field.dataType, field.nullable or missing, field.metadata)


def _key_field(mine: t.StructField, other: t.StructField, how: str) -> t.StructField:
    field = other if how == "right" else mine
    nullable = field.nullable or (how == "full" and other.nullable)
    return t.StructField(field.name, field.dataType, nullable, {**(field.metadata or {}), SHARED: True})
