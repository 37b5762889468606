"""``GROUP BY``: its keys and aggregates, which become columns, and what is selected, computed from those."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace_sim.spark.columns.grammar import SqlTextError, refuse_unread, shown_text
from headrace_sim.spark.columns.recorded import shown
from headrace_sim.spark.columns.sql_text import recorded_of_tree

AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list
    collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
    histogram_numeric kurtosis last last_value listagg max max_by mean median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance
    """.split()  # noqa: SIM905  a list of so many names takes a page
)
_OF_TIME = frozenset({"window", "session_window"})


def is_aggregate(tree: Any) -> bool:
    """Return whether a tree is a call of an aggregate, with what belongs to it."""
    if isinstance(tree, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        return is_aggregate(tree.this)
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in AGGREGATES


def _calls_in(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the outermost aggregates; the function of a window is none."""
    if is_aggregate(tree):
        yield tree
        return
    for name, value in tree.args.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr) and not isinstance(part, exp.Query):
                within = isinstance(tree, exp.Window) and name == "this"
                for inner in _parts(part) if within else [part]:
                    yield from _calls_in(inner)


def _parts(call: exp.Expr) -> list[exp.Expr]:
    values = [value if isinstance(value, list) else [value] for value in call.args.values()]
    return [part for value in values for part in value if isinstance(part, exp.Expr)]


def is_aggregated(trees: Sequence[exp.Expr]) -> bool:
    """Return whether any of these has an aggregate."""
    return any(True for tree in trees for _ in _calls_in(tree))


def renamed(tree: exp.Expr, aliases: Mapping[str, exp.Expr], *, whole: bool = True) -> exp.Expr:
    """Put what was selected in the place of its alias. ``whole``: also where the tree is a column of the name of an alias.

    Arguments of aggregates are columns of the rows, never aliases.
    """
    expr = tree.copy()
    within = {id(column) for call in _calls_in(expr) for column in call.find_all(exp.Column)}
    for column in list(expr.find_all(exp.Column)):
        value = aliases.get(column.name.lower())
        is_whole = column is expr.unalias()
        if value is None or column.table or id(column) in within or (is_whole and not whole):
            continue
        encloses = isinstance(value, exp.Binary) and not is_whole
        instead = exp.Paren(this=value.copy()) if encloses else value.copy()
        if column is expr:
            expr = instead
        else:
            column.replace(instead)
    return expr


class GroupByClause:
    """The keys and the aggregates of a query, under the names that they have as columns.

    ``group``: the clause, if any. ``items``: what is selected. ``aliases``: what was selected under names that no column has.
    """

    def __init__(
        self, group: exp.Group | None, items: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr]
    ) -> None:
        self.kind, trees = _keys(group, items)
        self._items = items
        self._names: dict[str, exp.Expr] = {}
        self._keys: list[tuple[exp.Expr, str]] = []
        for tree in trees:
            key = self._of_place(renamed(tree, aliases))
            self._keys.append((key, self._name(key)))
        self._calls: list[tuple[exp.Expr, str]] = []
        for item in items:
            for call in _calls_in(item):
                self._column_of(call)

    def _of_place(self, key: exp.Expr) -> exp.Expr:
        if not isinstance(key, exp.Literal) or key.is_string:
            return key
        place = int(key.name)
        plain = [item for item in self._items[:place] if not is_aggregated([item])]
        if not 0 < place <= len(self._items) or any(item.find(exp.Star) for item in plain):
            raise SqlTextError(f"at GROUP BY {place}")
        return self._items[place - 1].unalias().copy()

    def _name(self, tree: exp.Expr) -> str:
        """Return a name for a key or an aggregate: the one that it is selected under, if that is free."""
        aliases = [item for item in self._items if isinstance(item, exp.Alias)]
        selected = (item.alias for item in aliases if item.this == tree)
        name = _natural(tree) or next(selected, "") or shown(recorded_of_tree(tree, ""))
        while name.lower() in self._names:
            name = f"{name} again"
        self._names[name.lower()] = tree
        return name

    def _column_of(self, call: exp.Expr) -> exp.Column:
        for known, name in self._calls:
            if known == call:
                return _column(name)
        self._calls.append((call, self._name(call)))
        return _column(self._calls[-1][1])

    def named_keys(self) -> list[exp.Expr]:
        """Return the keys, each with its name."""
        return [_named(key, name) for key, name in self._keys]

    def named_calls(self) -> list[exp.Expr]:
        """Return the aggregates, each with its name."""
        return [_named(call, name) for call, name in self._calls]

    def output(self) -> list[exp.Expr]:
        """Return the columns of the result, by name."""
        return [_column(name) for _, name in (*self._keys, *self._calls)]

    def item(self, tree: exp.Expr) -> exp.Expr:
        """Return what is selected, computed from the result, with its own name."""
        computed = self.over(tree.unalias())
        own = tree.alias or _natural(tree) or shown(recorded_of_tree(tree, ""))
        is_named = isinstance(computed, exp.Column) and computed.name == own
        return computed if is_named else exp.alias_(computed, own, quoted=True)

    def over(self, tree: exp.Expr) -> exp.Expr:
        """Return a tree with columns of the result in place of keys and aggregates.

        Raise `SqlTextError` if something else is left.
        """
        known = next((name for key, name in self._keys if key == tree), None)
        if known is not None:
            return _column(known)
        if is_aggregate(tree):
            return self._column_of(tree)
        if isinstance(tree, exp.Column) and not self._is_of_key(tree):
            raise SqlTextError(f"at {shown_text(tree)!r}, which is neither grouped by nor aggregated")
        if isinstance(tree, (exp.Column, exp.Query)):
            return tree.copy()
        expr = tree.copy()
        if isinstance(tree, exp.Dot) and isinstance(key := self.over(tree.this), exp.Column):
            return exp.Column(this=tree.expression.copy(), table=key.this)  # `window(...).start`
        for name, value in tree.args.items():
            inner = isinstance(tree, exp.Window) and name == "this"
            if isinstance(value, list):
                expr.set(name, [self._part(part, inner=inner) for part in value])
            else:
                expr.set(name, self._part(value, inner=inner))
        return expr

    def _part(self, part: Any, *, inner: bool) -> Any:
        """Return a part of a tree, as `over` does. ``inner``: it is a window's function, which takes columns of the result."""
        if not isinstance(part, exp.Expr):
            return part
        if not (inner and is_aggregate(part)):
            return self.over(part)
        function = part.copy()
        for name, value in part.args.items():
            one = value if isinstance(value, list) else [value]
            parts = [self._part(item, inner=False) for item in one]
            function.set(name, parts if isinstance(value, list) else parts[0])
        return function

    def _is_of_key(self, column: exp.Column) -> bool:
        """Return whether a column is a key, or a field of one: ``window.start``."""
        names = {name.lower() for _, name in self._keys}
        whole = {key.name.lower() for key, _ in self._keys if isinstance(key, exp.Column)}
        if column.table:
            return column.table.lower() in names
        return column.name.lower() in (whole | (names & _OF_TIME))


def _keys(group: exp.Group | None, items: Sequence[exp.Expr]) -> tuple[str, Sequence[exp.Expr]]:
    """Return the kind of a grouping, and its keys."""
    if group is None:
        return "GROUPBY", []
    refuse_unread(group, ("expressions", "all", "rollup", "cube"))
    if group.args.get("all"):
        return "GROUPBY", [item.unalias() for item in items if not is_aggregated([item])]
    for kind in ("rollup", "cube"):
        if clause := group.args.get(kind):
            only = clause[0]
            if len(clause) > 1 or bool(only.expressions) is bool(group.expressions):
                raise SqlTextError(f"at {shown_text(group)!r}")
            return kind.upper(), only.expressions or group.expressions
    first = group.expressions[0] if len(group.expressions) == 1 else None
    if isinstance(first, (exp.Rollup, exp.Cube)):
        return type(first).__name__.upper(), first.expressions
    return "GROUPBY", group.expressions


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _named(tree: exp.Expr, name: str) -> exp.Expr:
    return tree if _natural(tree) == name else exp.alias_(tree.copy(), name, quoted=True)


def _natural(tree: exp.Expr) -> str:
    """Return the name that a column, or a window of time, has without an alias; "" for others."""
    if isinstance(tree, exp.Column):
        return tree.name
    return tree.name.lower() if isinstance(tree, exp.Anonymous) and tree.name.lower() in _OF_TIME else ""
