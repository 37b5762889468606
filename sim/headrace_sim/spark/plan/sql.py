"""What `spark.sql` is given: a query becomes a relation, a change of tables a `Statement`, a setting a `SetCommand`.

A query that is not understood wholly stays text, with the views that it may name: a real Spark can run that.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never, TypeAlias

import pyspark.sql.connect.proto as pb
from pyspark.errors import ParseException
from pyspark.sql import types as t
from sqlglot import exp

from headrace_sim.spark.columns.ddl import SchemaTextError, parse_type
from headrace_sim.spark.columns.grammar import SqlTextError, refuse_unread, shown_text, tree_of
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.columns.sql_text import recorded_of_tree
from headrace_sim.spark.plan.selects import Queries, table_name
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.tables.statements import (
    Clause,
    ColumnAssignment,
    CreateTable,
    CreateView,
    Delete,
    DropTable,
    DropView,
    IfExists,
    Insert,
    Match,
    Merge,
    MergeAction,
    Statement,
    Truncate,
    Update,
)

_REMEDY = "Write it with the calls of the DataFrame, or leave it out"


@dataclass(frozen=True, slots=True)
class SetCommand:
    """``SET key = value``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ServerQuery:
    """A query that only a real Spark can run."""

    relation: pb.Relation  # it, with the views that it may name
    problem: str  # what cannot be read


@dataclass(frozen=True, slots=True)
class NoChange:
    """What changes no row of a table: ``CACHE TABLE``, ``CREATE DATABASE``."""


Meaning: TypeAlias = pb.Relation | ServerQuery | Statement | SetCommand | NoChange


@dataclass(frozen=True, slots=True)
class SqlText:
    """A text that `spark.sql` is given."""

    text: str  # it, with ``:name`` or ``?`` in place of parameters
    place: str
    named: Mapping[str, Any]  # the parameters, as literals, by name
    positional: Sequence[Any] = ()  # those without a name, in their order

    def meaning(self, queries: Queries, whole: Callable[[], pb.Relation]) -> Meaning:
        """Return what the text means.

        ``queries``: makes relations of queries. ``whole``: returns the text as a relation, with the views that it may name.
        Raise `CannotFollowError` if it is no query and is not simulated.
        """
        if setting := _SETS.fullmatch(self.text):
            zone = setting["zone"]
            return SetCommand(
                ZONE if zone else setting["key"], zone or setting["quoted"] or setting["value"] or ""
            )
        try:
            tree = self._with_parameters(tree_of(_EVOLVES.sub("MERGE", self.text)))
        except SqlTextError as error:
            if _IS_QUERY.match(self.text):
                return ServerQuery(whole(), str(error))
            self._refuse(error)
        if isinstance(tree, (exp.Query, exp.Values)):
            try:
                return queries.relation(tree)
            except SqlTextError as error:
                return ServerQuery(whole(), str(error))
        try:
            return _Statements(self, queries).read(tree)
        except (SqlTextError, SchemaTextError) as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> Never:
        raise CannotFollowError(f"spark.sql({self.text.strip()!r}), {error},", self.place, _REMEDY) from error

    def _with_parameters(self, tree: exp.Expr) -> exp.Expr:
        expr, values = tree.copy(), list(self.positional)
        for mark in list(expr.find_all(exp.Placeholder, bfs=False)):
            if isinstance(mark.this, str) and mark.this in self.named:
                value = self.named[mark.this]
            elif mark.this is None and values:
                value = values.pop(0)
            else:
                raise SqlTextError(f"the parameter {shown_text(mark)} has no value")
            mark.replace(_literal(value))
        return expr


_SETS = re.compile(
    r"""\s*SET\s+(?:TIME\s+ZONE\s*(?P<mark>['"])(?P<zone>[^'"]+)(?P=mark)|(?P<key>[\w.]+)\s*=\s*(?:`(?P<quoted>[^`]*)`|(?P<value>[^;`]*?)))"""
    r"\s*;?\s*",
    re.IGNORECASE,
)
"""Sets something. What is behind ``=`` is taken as it is written, with its quotes."""
_WITHOUT_ROWS = re.compile(r"\s*CREATE\s+CATALOG\b", re.IGNORECASE)
_EVOLVES = re.compile(r"^\s*MERGE\s+WITH\s+SCHEMA\s+EVOLUTION\b", re.IGNORECASE)
_IS_QUERY = re.compile(r"[\s(]*(SELECT|WITH|VALUES|FROM|TABLE)\b", re.IGNORECASE)


def _literal(value: Any) -> exp.Expr:
    """Return a value as SQL."""
    if value is None or isinstance(value, (bool, str)):
        return exp.convert(value)
    if isinstance(value, int):
        return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)
    if isinstance(value, float) and math.isfinite(value):
        number = exp.column(exp.to_identifier(f"{abs(value)!r}D", quoted=False))
        return exp.Neg(this=number) if value < 0 else number
    raise SqlTextError(f"a parameter of {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class _Statements:
    """Reads statements."""

    text: SqlText
    queries: Queries

    def read(self, tree: exp.Expr) -> Meaning:
        known = _KINDS.get(type(tree))
        if isinstance(tree, exp.Command) and _WITHOUT_ROWS.match(tree.sql()):
            return NoChange()
        if known is None:
            raise SqlTextError("which is no query and no change of tables that is simulated")
        allowed, form = known
        refuse_unread(tree, allowed)
        return form(self, tree)

    def column(self, tree: exp.Expr) -> Recorded:
        if tree.find(exp.Query):
            raise SqlTextError(f"at {shown_text(tree)!r}")
        return recorded_of_tree(tree, self.text.place)

    def condition(self, tree: exp.Expr | None) -> Recorded | None:
        return None if tree is None else self.column(tree.this if isinstance(tree, exp.Where) else tree)

    def assignments(self, trees: Sequence[exp.Expr]) -> tuple[ColumnAssignment, ...]:
        assignments = []
        for tree in trees:
            if not isinstance(tree, exp.EQ) or not isinstance(tree.left, exp.Column):
                raise SqlTextError(f"at {shown_text(tree)!r}")
            assignments.append(ColumnAssignment(tree.left.name, self.column(tree.right)))
        return tuple(assignments)

    def target(self, tree: exp.Expr, *more: str) -> str:
        if not isinstance(tree, exp.Table):
            raise SqlTextError(f"at {shown_text(tree)!r}")
        refuse_unread(tree, ("this", "db", "catalog", "alias", *more))
        return table_name(tree)

    def merge(self, tree: exp.Merge) -> Meaning:
        source = tree.args["using"]
        alias = source.alias or (source.name if isinstance(source, exp.Table) else "")
        query = exp.select("*").from_(source.copy())
        return Merge(
            self.target(tree.this), self.queries.relation(query), self.column(tree.args["on"]),
            tuple(self.clause(when) for when in tree.args["whens"].expressions), tree.this.alias, alias,
            evolves=bool(_EVOLVES.match(self.text.text)),
        )  # fmt: skip

    def clause(self, when: exp.When) -> Clause:
        refuse_unread(when, ("matched", "source", "condition", "then"))
        match = Match.MATCHED if when.args["matched"] else Match.NOT_MATCHED
        if when.args.get("source"):
            match = Match.NOT_MATCHED_BY_SOURCE
        then, condition = when.args["then"], self.condition(when.args.get("condition"))
        if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
            return Clause(match, MergeAction.DELETE, condition)
        if isinstance(then, exp.Update):
            refuse_unread(then, ("expressions",))
            stars = _is_star(then.args.get("expressions"))
            return Clause(
                match, MergeAction.UPDATE, condition, None if stars else self.assignments(then.expressions)
            )
        if not isinstance(then, exp.Insert):
            raise SqlTextError(f"at {shown_text(when)!r}")
        refuse_unread(then, ("this", "expression"))
        if _is_star(then.this) or (then.this is None and _is_star(then.expression)):
            return Clause(match, MergeAction.INSERT, condition)
        pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
        values = tuple(ColumnAssignment(name.name, self.column(value)) for name, value in pairs)
        return Clause(match, MergeAction.INSERT, condition, values)

    def insert(self, tree: exp.Insert) -> Meaning:
        target, columns = tree.this, ()
        if isinstance(target, exp.Schema):
            columns, target = tuple(column.name for column in target.expressions), target.this
        table, where = self.target(target, "partition"), self.condition(tree.args.get("where"))
        partition = target.args.get("partition")
        return Insert(
            table, self.queries.relation(tree.expression), columns, bool(tree.args.get("overwrite")) or where is not None,
            bool(tree.args.get("by_name")), tuple(map(self.partition, partition.expressions if partition else ())), where,
        )  # fmt: skip

    def partition(self, tree: exp.Expr) -> tuple[str, Recorded | None]:
        if isinstance(tree, exp.EQ):
            return tree.left.name, self.column(tree.right)
        return tree.name, None

    def delete(self, tree: exp.Delete) -> Meaning:
        return Delete(self.target(tree.this), self.condition(tree.args.get("where")), tree.this.alias)

    def update(self, tree: exp.Update) -> Meaning:
        where = self.condition(tree.args.get("where"))
        return Update(self.target(tree.this), self.assignments(tree.expressions), where, tree.this.alias)

    def drop(self, tree: exp.Drop) -> Meaning:
        (table,) = tree.args["tables"]
        command = {"TABLE": DropTable, "VIEW": DropView}.get(tree.args["kind"])
        if command is None:
            raise SqlTextError(f"at {shown_text(tree)!r}")
        return command(self.target(table), bool(tree.args.get("exists")))

    def truncate(self, tree: exp.TruncateTable) -> Meaning:
        (table,) = tree.expressions
        return Truncate(self.target(table))

    def create(self, tree: exp.Create) -> Meaning:
        if_exists = IfExists.KEEP if tree.args.get("exists") else IfExists.FAIL
        if_exists = IfExists.REPLACE if tree.args.get("replace") else if_exists
        properties = list(tree.args["properties"].expressions) if tree.args.get("properties") else []
        kind, target, columns = tree.args["kind"], tree.this, None
        if kind in {"CATALOG", "DATABASE", "NAMESPACE", "SCHEMA"}:
            return NoChange()
        if isinstance(target, exp.Schema):
            columns, target = t.StructType([_field(column) for column in target.expressions]), target.this
        name, query = self.target(target), tree.args.get("expression")
        source = None if query is None else self.queries.relation(query)
        is_temporary = columns is None and [*map(type, properties)] == [exp.TemporaryProperty]
        if kind == "VIEW" and source is not None and is_temporary:
            return CreateView(name, source, if_exists)
        if kind != "TABLE":
            raise SqlTextError(f"at CREATE {kind}")
        partitions: tuple[str, ...] = ()
        provider, location = "", ""
        for each in properties:
            if isinstance(each, exp.StorageHandlerProperty):  # of Hive's own SQL
                message = (
                    f"[PARSE_SYNTAX_ERROR] Syntax error at or near {each.name!r}: Spark has no STORED BY"
                )
                raise ParseException(message=message)
            if isinstance(each, exp.FileFormatProperty):
                provider = "hive" if isinstance(each.this, exp.InputOutputFormat) else each.name.lower()
            elif isinstance(each, exp.PartitionedByProperty):
                # Iceberg's days(at) and the like are no columns.
                columns_of = (exp.Identifier, exp.Column)
                named = [part for part in each.this.expressions if isinstance(part, columns_of)]
                partitions = tuple(part.name for part in named)
            elif isinstance(each, exp.LocationProperty):
                location = each.name
            elif type(each) not in _WITHOUT_EFFECT:
                raise SqlTextError(f"at {shown_text(each)!r}")
        return CreateTable(name, columns, provider, partitions, if_exists, source, location)


_WITHOUT_EFFECT = frozenset({
    exp.ExternalProperty, exp.Property, exp.RowFormatDelimitedProperty, exp.RowFormatSerdeProperty, exp.SchemaCommentProperty,
})  # fmt: skip


def _is_star(tree: Any) -> bool:
    (only,) = tree if isinstance(tree, list) and len(tree) == 1 else (tree,)
    return isinstance(only, exp.Star)


def _field(column: exp.Expr) -> t.StructField:
    if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
        raise SqlTextError(f"at {shown_text(column)!r}")
    refuse_unread(column, ("this", "kind", "constraints"))
    nullable, metadata = True, {}
    for constraint in column.args.get("constraints") or ():
        kind = constraint.kind
        if isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            nullable = False
        elif isinstance(kind, exp.CommentColumnConstraint):
            metadata = {"comment": kind.name}
        else:
            raise SqlTextError(f"at {shown_text(constraint)!r}")
    return t.StructField(column.name, parse_type(shown_text(column.args["kind"])), nullable, metadata)


_KINDS: dict[type, tuple[tuple[str, ...], Callable[[_Statements, Any], Meaning]]] = {
    exp.Cache: (("this",), lambda _statements, _tree: NoChange()),
    exp.Create: (("this", "kind", "replace", "exists", "properties", "expression"), _Statements.create),
    exp.Delete: (("this", "where"), _Statements.delete),
    exp.Drop: (("tables", "kind", "exists"), _Statements.drop),
    exp.Insert: (("this", "expression", "overwrite", "by_name", "where"), _Statements.insert),
    exp.Merge: (("this", "using", "on", "whens"), _Statements.merge),
    exp.Refresh: (("this", "kind"), lambda _statements, _tree: NoChange()),
    exp.TruncateTable: (("expressions",), _Statements.truncate),
    exp.Update: (("this", "expressions", "where"), _Statements.update),
}
"""For each kind of statement: what may be set in it, and what reads it."""
