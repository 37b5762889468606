"""``MERGE``, ``UPDATE`` and ``DELETE`` on the rows of a table: what they leave, and how many rows they touched.

The rules are those of Delta Lake and of Spark's ``MERGE``: the first clause that applies to a row counts, and no row of the
target may be changed by two rows of the source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import types as t

from headrace_sim.spark.columns.bound import ALIAS, boolean
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.tables.statements import (
    Clause,
    ColumnAssignment,
    Delete,
    Match,
    Merge,
    MergeAction,
    Update,
)
from headrace_sim.spark.tables.table_versions import Row, TableVersion, aligned, assigned, refuse_cases

MULTIPLE_MATCHES = "MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
"""The error of a merge in which several rows of the source match one row of the target, as Delta names it."""


@dataclass(frozen=True, slots=True)
class Affected:
    """How many rows a statement touched."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    def as_rows(self) -> Rows:
        """Return them as Delta gives them back."""
        counts = (self.updated, self.deleted, self.inserted)
        names = [f"num_{name}_rows" for name in ("affected", "updated", "deleted", "inserted")]
        schema = t.StructType([t.StructField(name, t.LongType()) for name in names])
        return Rows(schema, [((sum(counts), *counts),)])


@dataclass(frozen=True, slots=True)
class Changed:
    """A table after a statement, and how many rows that touched."""

    table: TableVersion
    affected: Affected


def updated(table: TableVersion, statement: Update) -> Changed:
    """Return the table after an ``UPDATE``."""
    schema = _under(table.schema, statement.alias or _tail(statement.table))
    holds = _test(statement.condition, schema)
    change = _change(statement.assignments, table.schema, schema, _own_values(table.schema))
    rows = tuple(change(row) if holds(row) else row for row in table.rows)
    return Changed(replace(table, rows=rows, twins=()), Affected(updated=sum(map(holds, table.rows))))


def deleted(table: TableVersion, statement: Delete) -> Changed:
    """Return the table after a ``DELETE``."""
    holds = _test(statement.condition, _under(table.schema, statement.alias or _tail(statement.table)))
    kept = tuple(row for row in table.rows if not holds(row))
    return Changed(replace(table, rows=kept, twins=()), Affected(deleted=len(table.rows) - len(kept)))


def merged(table: TableVersion, source: Rows, statement: Merge) -> Changed:
    """Return the table after a ``MERGE``.

    ``table``: the target. One that is assumed gets the columns that the statement names. ``source``: the rows of the source.
    ``statement``: what is done with them. Raise `AnalysisException` if a column is unknown, or
    `UnsupportedOperationException` if several rows of the source match one of the target.
    """
    merge = _Merging(table, source, statement)
    kept: list[Row] = []
    acts: list[MergeAction | None] = []
    met: set[int] = set()
    for row in merge.rows:
        others = [place for place, other in enumerate(merge.others) if merge.matches((*row, *other))]
        met.update(others)
        merge.refuse_several(row, [merge.others[place] for place in others])
        seen = (*row, *merge.others[others[0]]) if others else row
        act, changed = merge.applied(Match.MATCHED if others else Match.NOT_MATCHED_BY_SOURCE, seen, row)
        acts.append(act)
        kept += [] if changed is None else [changed]
    lone = [other for place, other in enumerate(merge.others) if place not in met]
    inserted = [merge.applied(Match.NOT_MATCHED, other, None)[1] for other in lone]
    new = [row for row in inserted if row is not None]
    affected = Affected(acts.count(MergeAction.UPDATE), acts.count(MergeAction.DELETE), len(new))
    version = replace(table, schema=merge.schema, rows=(*kept, *new), twins=merge.twins(lone, inserted))
    return Changed(version, affected)


_Test = Callable[[Row], bool]
_Change = Callable[[Row], Row]


@dataclass(frozen=True, slots=True)
class _Bound:
    """A clause, bound to the columns that it sees."""

    act: MergeAction
    holds: _Test
    change: _Change


class _Merging:
    """A merge, bound to the columns of its target and of its source."""

    def __init__(self, table: TableVersion, source: Rows, statement: Merge) -> None:
        alias = statement.alias or _tail(statement.table)
        own = source.schema
        scope = _under(own, statement.source_alias) if statement.source_alias else own
        self._statement = statement
        self.schema = _columns(table, scope, statement, alias)
        self.rows, self.others = aligned(table.schema, table.rows, self.schema), source.all()
        target = _under(self.schema, alias)
        both = t.StructType([*target.fields, *scope.fields])
        self._scopes = {Match.MATCHED: both, Match.NOT_MATCHED: scope, Match.NOT_MATCHED_BY_SOURCE: target}
        self.matches = _test(statement.condition, both)
        self._clauses = {
            match: [self._bound(clause, scope) for clause in statement.clauses if clause.match is match]
            for match in Match
        }

    def _bound(self, clause: Clause, source: t.StructType) -> _Bound:
        scope, assignments = self._scopes[clause.match], clause.assignments or ()
        if clause.assignments is None and clause.act is not MergeAction.DELETE:
            assignments = _star(self.schema, source, self._statement)
        inserts = clause.match is Match.NOT_MATCHED
        values = [lambda _row: None] * len(self.schema.fields) if inserts else _own_values(self.schema)
        change = _change(assignments, self.schema, scope, values)
        return _Bound(clause.act, _test(clause.condition, scope), change)

    def applied(self, match: Match, seen: Row, row: Row | None) -> tuple[MergeAction | None, Row | None]:
        """Return what the first clause that applies does: to the values that it sees, or else to the row as it is."""
        for clause in self._clauses[match]:
            if clause.holds(seen):
                return clause.act, None if clause.act is MergeAction.DELETE else clause.change(seen)
        return None, row

    def twins(self, lone: Sequence[Row], inserts: Sequence[Row | None]) -> tuple[Row, ...]:
        """Return two rows that are inserted although one of them, had it been there, would have matched the other."""
        inserted = [(place, row) for place, row in enumerate(inserts) if row is not None]
        pairs = ((place, row, other) for place, row in inserted for other in lone[place + 1 :])
        return next(((lone[place], other) for place, row, other in pairs if self.matches((*row, *other))), ())

    def refuse_several(self, row: Row, others: Sequence[Row]) -> None:
        """Raise the error for several rows of the source that match one of the target.

        Deleting it is no conflict. If nothing is inserted, only the rows count to which a clause applies.
        """
        matched = self._clauses[Match.MATCHED]
        conditions = [clause.condition for clause in self._statement.clauses if clause.match is Match.MATCHED]
        deletes = len(matched) == 1 and matched[0].act is MergeAction.DELETE and conditions == [None]
        if len(others) < 2 or not matched or deletes:
            return
        if len(matched) == len(self._statement.clauses):
            others = [other for other in others if any(clause.holds((*row, *other)) for clause in matched)]
        if len(others) > 1:
            problem = f"Cannot perform Merge as multiple source rows matched {row} of {self._statement.table}"
            raise UnsupportedOperationException(f"[DELTA_{MULTIPLE_MATCHES}] {problem}: {others[:2]}")


def _test(condition: Recorded | None, schema: t.StructType) -> _Test:
    """Return whether a condition is true for a row; without one, always."""
    if condition is None:
        return lambda _row: True
    value = boolean(bind(condition, schema), condition).value
    return lambda row: value(row) is True


def _change(
    assignments: Sequence[ColumnAssignment], schema: t.StructType, scope: t.StructType, values: Sequence[Any]
) -> _Change:
    """Return the new row of a table for what a clause sees. ``values``: those of columns that nothing is assigned to."""
    places = {name.lower(): place for place, name in enumerate(schema.names)}
    values = list(values)
    for assignment in assignments:
        place = places.get(assignment.column.rpartition(".")[2].replace("`", "").lower())
        if place is None:
            raise _unresolved(assignment.column, schema)
        bound = bind(assignment.value, scope)
        values[place] = assigned(bound, schema.fields[place], assignment.value)
    return lambda row: tuple(value(row) for value in values)


def _own_values(schema: t.StructType) -> list[Callable[[Row], Any]]:
    return [lambda row, place=place: row[place] for place in range(len(schema.fields))]  # type: ignore[misc]


def _star(schema: t.StructType, source: t.StructType, statement: Merge) -> tuple[ColumnAssignment, ...]:
    """Return what ``UPDATE SET *`` and ``INSERT *`` assign: each column of the table from that of the source."""
    by_name = {column.name.lower(): column for column in source.fields}
    lacking = [column for column in schema.names if column.lower() not in by_name]
    if lacking and not statement.evolves:
        raise _unresolved(lacking[0], source)
    there = [column for column in schema.names if column.lower() in by_name]
    return tuple(ColumnAssignment(column, _of_source(by_name[column.lower()], statement)) for column in there)


def _of_source(column: t.StructField, statement: Merge) -> Recorded:
    alias = (column.metadata or {}).get(ALIAS)
    name = f"`{column.name}`"
    return Recorded("col", (f"`{alias}`.{name}" if alias else name,), statement.condition.place)


def _columns(table: TableVersion, source: t.StructType, statement: Merge, alias: str) -> t.StructType:
    """Return the columns of the target: its own, those that it gets, and, if it is assumed, those that the statement names."""
    refuse_cases(statement.table, [*table.schema.names, *source.names])
    known = {column.name.lower(): column for column in table.schema.fields}
    by_name = {column.name.lower(): column for column in source.fields}
    stars = [c for c in statement.clauses if c.assignments is None and c.act is not MergeAction.DELETE]
    if stars and (statement.evolves or table.is_assumed):
        for name, column in by_name.items():
            known.setdefault(name, t.StructField(column.name, column.dataType))
    if table.is_assumed:
        for column in _named(statement, source, known, alias):
            known.setdefault(column.name.lower(), column)
    return t.StructType(list(known.values()))


def _named(
    statement: Merge, source: t.StructType, known: Mapping[str, t.StructField], alias: str
) -> Iterator[t.StructField]:
    """Yield the columns of a target that a statement names. ``known``: those that it has, and those that were yielded."""
    for clause in statement.clauses:
        for assignment in clause.assignments or ():
            if clause.match is Match.NOT_MATCHED:
                column = assignment.column.rpartition(".")[2].replace("`", "")
                yield t.StructField(column, bind(assignment.value, source).type)
    by_name = {column.name.lower(): column for column in source.fields}
    for node in _names_in((statement.condition, statement.clauses)):
        frame, _, column = str(node.args[0]).replace("`", "").rpartition(".")
        if frame == alias and column.lower() not in known:
            if column.lower() not in by_name:
                what = f"a merge into {statement.table}, whose column {column!r} has no known type,"
                raise CannotFollowError(what, node.place, f"Create the table {statement.table} in prepare()")
            yield by_name[column.lower()]


def _names_in(expressions: Any) -> Iterator[Recorded]:
    """Yield the names of columns in an expression, or in a collection of them."""
    if isinstance(expressions, Recorded):
        yield from [expressions] if expressions.name == "col" else _names_in(expressions.args)
    elif isinstance(expressions, Clause):
        yield from _names_in((expressions.condition, expressions.assignments))
    elif isinstance(expressions, ColumnAssignment):
        yield from _names_in(expressions.value)
    elif isinstance(expressions, (list, tuple)):
        for part in expressions:
            yield from _names_in(part)


def _unresolved(column: str, schema: t.StructType) -> AnalysisException:
    offered = ", ".join(schema.names)
    message = f"Cannot resolve {column} given columns {offered}"
    return AnalysisException(message=f"[DELTA_MERGE_UNRESOLVED_EXPRESSION] {message}")


def _under(schema: t.StructType, alias: str) -> t.StructType:
    """Return a schema whose columns are known under an alias, too."""
    fields = [t.StructField(column.name, column.dataType, True, {ALIAS: alias}) for column in schema.fields]
    return t.StructType(fields)


def _tail(table: str) -> str:
    return table.rpartition(".")[2].strip("`")
