"""Queries in SQL text as relations of a Connect plan, which the same code compiles or splits as those of DataFrames.

Views and common table expressions are put in place of their names. Expressions stay text. What is set in a query's tree and
not read here is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, Never

import pyspark.sql.connect.proto as pb
from sqlglot import exp

from headrace_sim.spark.columns.grammar import SqlTextError, refuse_unread, shown_text, text_of, tree_of
from headrace_sim.spark.columns.recorded import shown
from headrace_sim.spark.columns.sql_text import recorded_of_tree
from headrace_sim.spark.plan.group_by import GroupByClause, is_aggregated, renamed

View = Callable[[str], pb.Relation | None]
Columns = Callable[[pb.Relation], Sequence[str]]
Scope = Mapping[str, pb.Relation]
_HIDDEN = "headrace hidden"
_GENERATORS = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Queries:
    """Makes relations of queries."""

    view: View  # returns the relation of a view, if there is one with this name
    columns: Columns  # returns the names of a relation's columns
    number: Callable[[], int]  # returns the next id of a plan
    scope: Scope = field(default_factory=dict)  # the relations of common table expressions, by name

    def relation(self, tree: exp.Expr) -> pb.Relation:
        """Return a query as a relation. Raise `SqlTextError` if it has a part that is not simulated."""
        queries = self._with_ctes(tree)
        if isinstance(tree, exp.Select):
            return queries._select(tree)
        if isinstance(tree, exp.SetOperation):
            return queries._set_operation(tree)
        if isinstance(tree, exp.Subquery):
            refuse_unread(tree, ("this", "with_", "order", "limit", "offset", "alias"))
            inner = queries._cut(tree, queries._sorted_output(tree, queries.relation(tree.this)))
            return queries._aliased(tree, inner) if tree.args.get("alias") else inner
        if isinstance(tree, exp.Values):
            return queries._values(tree)
        return _refuse(tree)

    def _with_ctes(self, tree: exp.Expr) -> "Queries":
        clause = tree.args.get("with_")
        if clause is None:
            return self
        refuse_unread(clause, ("expressions",))
        queries = self
        for cte in clause.expressions:
            refuse_unread(cte, ("this", "alias"))
            relation = queries._named(cte, queries.relation(cte.this))
            queries = replace(queries, scope={**queries.scope, cte.alias.lower(): relation})
        return queries

    # Relations

    def make(self, kind: str, **fields: Any) -> pb.Relation:
        """Return a relation of a kind."""
        message = getattr(pb, _MESSAGES.get(kind, kind.title().replace("_", "")))
        relation = pb.Relation(**{kind: message(**fields)})
        relation.common.plan_id = self.number()
        return relation

    def project(self, inner: pb.Relation | None, expressions: list[pb.Expression]) -> pb.Relation:
        """Return a relation with columns of another one; or of no other one, with one row."""
        return self.make("project", expressions=expressions, **({} if inner is None else {"input": inner}))

    def _named(self, tree: exp.Expr, inner: pb.Relation) -> pb.Relation:
        """Name the columns as the alias says: ``t(x, y)``."""
        alias = tree.args.get("alias")
        names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
        return self.make("to_df", input=inner, column_names=names) if names else inner

    def _aliased(self, tree: exp.Expr, inner: pb.Relation, name: str = "") -> pb.Relation:
        name = tree.alias or name
        inner = self._named(tree, inner)
        return self.make("subquery_alias", input=inner, alias=name) if name else inner

    def _values(self, tree: exp.Values) -> pb.Relation:
        refuse_unread(tree, ("expressions", "alias"))
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in tree.expressions]
        columns = [
            [alias_of(_text(value), f"col{place}") for place, value in enumerate(row, 1)] for row in rows
        ]
        unite = partial(self._united, kind="UNION", is_all=True)
        return self._aliased(tree, reduce(unite, [self.project(None, row) for row in columns]))

    def _united(
        self, left: pb.Relation, right: pb.Relation, kind: str, *, is_all: bool, by_name: bool = False
    ) -> pb.Relation:
        operation = pb.SetOperation.SetOpType.Value(f"SET_OP_TYPE_{kind}")
        return self.make(
            "set_op", left_input=left, right_input=right, set_op_type=operation, is_all=is_all, by_name=by_name,
        )  # fmt: skip

    def _set_operation(self, tree: Any) -> pb.Relation:
        refuse_unread(tree, _OF_SETS)
        united = self._united(
            self.relation(tree.this), self.relation(tree.expression), type(tree).__name__.upper(),
            is_all=not tree.args.get("distinct"), by_name=bool(tree.args.get("by_name")),
        )  # fmt: skip
        return self._cut(tree, self._sorted_output(tree, united))

    def _table(self, tree: exp.Expr) -> pb.Relation:
        if not isinstance(tree, exp.Table):
            if isinstance(tree, (exp.Subquery, exp.Values)):
                return self.relation(tree)
            _refuse(tree)
        refuse_unread(tree, ("this", "db", "catalog", "alias", "joins"))
        if isinstance(tree.this, exp.Anonymous):
            return self._aliased(tree, self._range(tree.this))
        name = table_name(tree)
        relation = self.scope.get(name.lower()) or self.view(name)
        if relation is None:
            words = [f"`{part.name}`" if part.args.get("quoted") else part.name for part in tree.parts]
            named = pb.Read.NamedTable(unparsed_identifier=".".join(words))
            relation = pb.Relation(read=pb.Read(named_table=named))
            relation.common.plan_id = self.number()
        table = self._aliased(tree, relation, tree.name)
        for join in tree.args.get("joins") or ():
            table = self._joined(table, join)
        return table

    def _range(self, call: exp.Anonymous) -> pb.Relation:
        are_numbers = all(
            isinstance(value, exp.Literal) and not value.is_string for value in call.expressions
        )
        if call.name.lower() != "range" or not are_numbers or not 0 < len(call.expressions) < 4:
            _refuse(call)
        numbers = [int(value.name) for value in call.expressions]
        start, end, step = [[0, *numbers, 1], [*numbers, 1], numbers][len(numbers) - 1]
        return self.make("range", start=start, end=end, step=step)

    def _joined(self, left: pb.Relation, tree: exp.Join) -> pb.Relation:
        refuse_unread(tree, ("this", "side", "kind", "on", "using"))
        side, kind, on = tree.side.upper(), tree.kind.upper(), tree.args.get("on")
        name = _JOINS.get((side, kind)) or _refuse(tree)
        fields: dict[str, Any] = {"using_columns": [column.name for column in tree.args.get("using") or ()]}
        if on is not None:
            fields["join_condition"] = _text(on)
        elif not fields["using_columns"] and name not in {"CROSS", "INNER"}:
            _refuse(tree)
        join_type = pb.Join.JoinType.Value(f"JOIN_TYPE_{name}")
        return self.make("join", left=left, right=self._table(tree.this), join_type=join_type, **fields)

    def _lateral(self, inner: pb.Relation, tree: exp.Lateral) -> pb.Relation:
        refuse_unread(tree, ("this", "view", "outer", "alias"))
        names = [column.name for column in tree.args["alias"].columns]
        call = tree.this.copy()
        is_call = isinstance(call, exp.Anonymous) and call.name.lower() in _GENERATORS
        if not tree.args.get("view") or not is_call:
            _refuse(tree)
        if tree.args.get("outer"):
            call.set("this", f"{call.name.removesuffix('_outer')}_outer")
        star = pb.Expression(unresolved_star=pb.Expression.UnresolvedStar())
        return self.project(inner, [star, alias_of(_text(call), *names) if names else _text(call)])

    # SELECT

    def _select(self, tree: exp.Select) -> pb.Relation:
        refuse_unread(tree, _CLAUSES)
        if tree.args.get("operation_modifiers"):
            _refuse(tree)
        tree = _without_lateral_names(tree)
        source, inner = tree.args.get("from_"), None
        if source is not None:
            refuse_unread(source, ("this",))
            inner = self._table(source.this)
        for join in tree.args.get("joins") or ():
            inner = self._joined(inner, join) if inner is not None else _refuse(join)
        for lateral in tree.args.get("laterals") or ():
            inner = self._lateral(inner, lateral) if inner is not None else _refuse(lateral)
        if where := tree.args.get("where"):
            inner = self.project(None, []) if inner is None else inner
            inner = self.make("filter", input=inner, condition=_text(where.this))
        return self._cut(tree, self._selected(tree, inner))

    def _selected(self, tree: exp.Select, inner: pb.Relation | None) -> pb.Relation:
        names: Sequence[str] = ()
        items, having = list(tree.expressions), tree.args.get("having")
        order = [one.copy() for one in tree.args["order"].expressions] if tree.args.get("order") else []
        aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        if aliases and inner is not None and _may_mean(aliases, [*items, tree.args.get("group")]):
            names = [name.lower() for name in self.columns(inner)]
        inner_aliases = {name: value for name, value in aliases.items() if name not in names}
        items = [renamed(item, inner_aliases, whole=False) for item in items] if inner_aliases else items
        conditions = [renamed(having.this, aliases)] if having else []
        distinct = tree.args.get("distinct")
        if not distinct:
            order = [renamed(_of_place(one, items), aliases) for one in order]
        if tree.args.get("group") or is_aggregated([*items, *conditions]):
            grouping = GroupByClause(tree.args.get("group"), items, inner_aliases)
            items = [grouping.item(item) for item in items]
            order = order if distinct else [grouping.over(one) for one in order]
            conditions = [grouping.over(condition) for condition in conditions]
            rows: pb.Relation | None = self._aggregated(grouping, inner)
            for condition in conditions:
                rows = self.make("filter", input=rows, condition=_text(condition))
            if not order and [item.sql() for item in items] == [name.sql() for name in grouping.output()]:
                return self._distinct(tree, rows)
        elif conditions:
            _refuse(tree)
        else:
            rows = inner
        if order and not distinct:
            rows = self._sorted(order, rows)
        relation = self._projected(tree, items, rows)
        return self._sorted_output(tree, self._distinct(tree, relation)) if distinct else relation

    def _distinct(self, tree: exp.Select, rows: pb.Relation) -> pb.Relation:
        distinct = tree.args.get("distinct")
        if not distinct:
            return rows
        refuse_unread(distinct, ())
        return self.make("deduplicate", input=rows, all_columns_as_keys=True)

    def _aggregated(self, grouping: GroupByClause, inner: pb.Relation | None) -> pb.Relation:
        return self.make(
            "aggregate", group_type=pb.Aggregate.GroupType.Value(f"GROUP_TYPE_{grouping.kind}"),
            input=self.project(None, []) if inner is None else inner,
            grouping_expressions=[_item(key) for key in grouping.named_keys()],
            aggregate_expressions=[_item(call) for call in grouping.named_calls()],
        )  # fmt: skip

    def _projected(self, tree: exp.Select, items: list[exp.Expr], rows: pb.Relation | None) -> pb.Relation:
        qualify = tree.args.get("qualify")
        if len(items) == 1 and isinstance(items[0], exp.Star) and rows is not None and not qualify:
            refuse_unread(items[0], ("except_",))
            dropped = [column.name for column in items[0].args.get("except_") or ()]
            return self.make("drop", input=rows, column_names=dropped) if dropped else rows
        expressions = [_item(item) for item in items]
        if qualify is None:
            return self.project(rows, expressions)
        aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        relation = self.project(
            rows, [*expressions, alias_of(_text(renamed(qualify.this, aliases)), _HIDDEN)]
        )
        kept = self.make("filter", input=relation, condition=_string(f"`{_HIDDEN}`"))
        return self.make("drop", input=kept, column_names=[_HIDDEN])

    def _sorted(self, order: Sequence[exp.Expr], rows: pb.Relation | None) -> pb.Relation:
        orders = []
        for one in order:
            if not isinstance(one, exp.Ordered) or rows is None:
                _refuse(one)
            refuse_unread(one, ("this", "desc", "nulls_first"))
            sort = pb.Expression.SortOrder
            way = sort.SORT_DIRECTION_DESCENDING if one.args.get("desc") else sort.SORT_DIRECTION_ASCENDING
            nulls = sort.SORT_NULLS_FIRST if one.args.get("nulls_first") else sort.SORT_NULLS_LAST
            orders.append(sort(child=_text(one.this), direction=way, null_ordering=nulls))
        return self.make("sort", input=rows, order=orders, is_global=True)

    def _sorted_output(self, tree: exp.Expr, rows: pb.Relation) -> pb.Relation:
        """Sort by what was selected, by name or place."""
        if not tree.args.get("order"):
            return rows
        names, order = list(self.columns(rows)), []
        for one in tree.args["order"].expressions:
            key = one.copy()
            if isinstance(key.this, exp.Literal):
                key.set("this", exp.column(exp.to_identifier(names[int(key.this.name) - 1], quoted=True)))
            order.append(key)
        return self._sorted(order, rows)

    def _cut(self, tree: exp.Expr, rows: pb.Relation) -> pb.Relation:
        for kind in ("offset", "limit"):
            if clause := tree.args.get(kind):
                refuse_unread(clause, ("expression",))
                number = clause.expression
                if not isinstance(number, exp.Literal):
                    _refuse(clause)
                rows = self.make(kind, input=rows, **{kind: int(number.name)})
        return rows


_CLAUSES = (
    "with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group", "having", "qualify", "order",
    "limit", "offset",
)  # fmt: skip
"""The clauses that are read. A hint means nothing to the result."""
_OF_SETS = ("this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset")
_MESSAGES = {"set_op": "SetOperation", "to_df": "ToDF"}
_JOINS = {
    ("", ""): "INNER", ("", "INNER"): "INNER", ("", "CROSS"): "CROSS", ("LEFT", ""): "LEFT_OUTER",
    ("LEFT", "OUTER"): "LEFT_OUTER", ("RIGHT", ""): "RIGHT_OUTER", ("RIGHT", "OUTER"): "RIGHT_OUTER",
    ("FULL", ""): "FULL_OUTER", ("FULL", "OUTER"): "FULL_OUTER",
    ("LEFT", "SEMI"): "LEFT_SEMI", ("", "SEMI"): "LEFT_SEMI", ("LEFT", "ANTI"): "LEFT_ANTI", ("", "ANTI"): "LEFT_ANTI",
}  # fmt: skip


def table_name(tree: exp.Table) -> str:
    """Return the name of a table without backticks: ``db.sales``."""
    return ".".join(part.name for part in tree.parts)


def _refuse(tree: exp.Expr) -> Never:
    raise SqlTextError(f"at {shown_text(tree)!r}")


def _string(text: str) -> pb.Expression:
    return pb.Expression(expression_string=pb.Expression.ExpressionString(expression=text))


def alias_of(expression: pb.Expression, *names: str) -> pb.Expression:
    """Return a column under a name, or under several."""
    return pb.Expression(alias=pb.Expression.Alias(expr=expression, name=names))


def _text(tree: exp.Expr) -> pb.Expression:
    if tree.find(exp.Query):
        _refuse(tree)
    return _string(text_of(tree))


def _item(tree: exp.Expr) -> pb.Expression:
    """Return a selected column, with the name that Spark gives it."""
    if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
        refuse_unread(tree.this if isinstance(tree, exp.Column) else tree, ())
        parts = [] if isinstance(tree, exp.Star) else tree.parts
        target = ".".join("*" if isinstance(part, exp.Star) else part.name for part in parts)
        return pb.Expression(unresolved_star=pb.Expression.UnresolvedStar(unparsed_target=target or None))
    if isinstance(tree, exp.Alias):
        return alias_of(_text(tree.this), tree.alias)
    if isinstance(tree, exp.Aliases):
        return alias_of(_text(tree.this), *(name.name for name in tree.expressions))
    expression = _text(tree)
    if isinstance(tree, exp.Anonymous) and tree.name.lower() in _GENERATORS:
        return expression
    name = shown(recorded_of_tree(tree, ""))
    again = shown(recorded_of_tree(tree_of(expression.expression_string.expression), ""))
    return expression if name == again else alias_of(expression, name)


def _may_mean(aliases: Mapping[str, Any], trees: Sequence[Any]) -> bool:
    """Return whether a column has the name of an alias, so that it may mean it."""
    columns = (column for tree in trees if tree is not None for column in tree.find_all(exp.Column))
    return any(not column.table and column.name.lower() in aliases for column in columns)


def _of_place(order: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
    """Put the selected column in the place of its number."""
    key = order.this
    if not isinstance(key, exp.Literal) or key.is_string:
        return order
    before = items[: int(key.name)]
    has_star = any(item.find(exp.Star) and not item.find(exp.Anonymous) for item in before)
    if has_star or len(before) < int(key.name):
        _refuse(order)
    expr = order.copy()
    expr.set("this", before[-1].unalias().copy())
    return expr


def _without_lateral_names(tree: exp.Select) -> exp.Select:
    """Leave out the names of lateral views before their columns, which are columns of the whole then."""
    names = {lateral.alias.lower() for lateral in tree.args.get("laterals") or ()} - {""}
    if not names:
        return tree
    select = tree.copy()
    for column in select.find_all(exp.Column):
        if column.table.lower() in names:
            column.set("table", None)
    return select
