"""Expressions in SQL text, as ``filter("amount > 0")``, ``selectExpr()`` and ``F.expr()`` take them: as recorded columns.

An expression becomes the calls that would have made it with columns; whether those are simulated is for `expressions` to say.
What is set in its tree and has no meaning here is refused.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Never

from pyspark.sql import types as t
from sqlglot import exp

from headrace_sim.spark.columns.aggregates import AGGREGATES
from headrace_sim.spark.columns.ddl import SchemaTextError, interval_us, parse_type
from headrace_sim.spark.columns.grammar import (
    IS_NOT,
    TYPED_LITERAL,
    SqlTextError,
    refuse_unread,
    shown_text,
    tree_of,
)
from headrace_sim.spark.columns.recorded import (
    LAMBDA,
    LAMBDA_VARIABLE,
    NAMED_ARGUMENT,
    Recorded,
    WindowSpec,
    shown,
)
from headrace_sim.spark.refusals import CannotFollowError

_JAVA_NAMES = {
    "ceiling": "ceil", "day": "dayofmonth", "endswith": "endsWith", "first_value": "first", "last_value": "last", "mean": "avg",
    "negative": "negate", "nvl": "coalesce", "ifnull": "coalesce", "power": "pow", "regexp": "rlike", "regexp_like": "rlike",
    "sha": "sha1", "startswith": "startsWith", "substr": "substring",
}  # fmt: skip
"""What is called otherwise in SQL than in Java."""
_TYPES = frozenset({
    "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "string", "timestamp", "tinyint",
})  # fmt: skip
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(bd|[ldsyf])?", re.IGNORECASE)
_REMEDY = "Write it with columns, such as F.col('x') > 0"


def parse_expression(text: str, place: str) -> Recorded:
    """Return the column that an SQL text stands for. ``place``: of the user's code.

    Raise `CannotFollowError` if it is not an expression, or has a form that is not simulated.
    """
    try:
        return recorded_of_tree(tree_of(text), place)
    except SqlTextError as error:
        raise CannotFollowError(f"the SQL text {text!r}, {error}", place, _REMEDY) from error


def recorded_of_tree(tree: exp.Expr, place: str) -> Recorded:
    """Return the column that a tree stands for. Raise `SqlTextError` if it has a form that is not simulated."""
    reader = _Reader(place)
    node = reader.read(tree)
    return node if isinstance(node, Recorded) else reader.called("lit", node)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads trees."""

    place: str
    variables: frozenset[str] = frozenset()  # those of the lambdas around what is read

    def read(self, tree: exp.Expr) -> Any:
        """Return a recorded column or a plain value."""
        allowed, form = _FORMS.get(type(tree), ((), None))
        if form is None:
            self.refuse(tree)
        refuse_unread(tree, allowed)
        return form(self, tree)

    def all(self, trees: Sequence[exp.Expr]) -> list[Any]:
        return [self.read(tree) for tree in trees]

    def refuse(self, tree: exp.Expr) -> Never:
        raise SqlTextError(f"at {shown_text(tree)!r}")

    def called(self, name: str, *args: Any) -> Recorded:
        return Recorded(name, args, self.place)

    def named(self, node: Recorded, name: str) -> Recorded:
        """Return a column that Spark names otherwise than the calls that it is made of."""
        return node if shown(node) == name else self.called("as", node, name)

    def cast(self, tree: exp.Expr, node: Any, type_text: str, call: str = "cast") -> Recorded:
        try:
            return self.called(call, node, parse_type(type_text))
        except SchemaTextError:
            self.refuse(tree)


def _column(reader: _Reader, tree: Any) -> Any:
    word = tree.this
    is_word = len(tree.parts) == 1 and isinstance(word, exp.Identifier) and not word.quoted
    if is_word and word.name[:1] in "0123456789.":
        return _number(reader, tree, word.name)
    return reader.called("col", ".".join(_quoted(part) for part in tree.parts))


def _quoted(part: exp.Expr) -> str:
    if isinstance(part, exp.Star):
        return "*"
    return f"`{part.name.replace('`', '``')}`" if part.args.get("quoted") else part.name


def _number(reader: _Reader, tree: exp.Expr, word: str) -> Any:
    parts = _NUMBER.fullmatch(word)
    if parts is None:
        reader.refuse(tree)
    digits, suffix = word[: parts.start(3)] if parts[3] else word, (parts[3] or "").lower()
    if suffix in {"s", "y", "f"}:
        reader.refuse(tree)
    if suffix == "d" or (not suffix and parts[2]):
        return float(digits)
    if "." in digits or suffix == "bd" or int(digits) >= 1 << 63:
        return Decimal(digits)
    return reader.called("lit", int(digits), t.LongType()) if suffix == "l" else int(digits)


def _literal(reader: _Reader, tree: Any) -> Any:
    return tree.name if tree.is_string else _number(reader, tree, tree.name)


def _variable(reader: _Reader, tree: Any) -> Recorded:
    if tree.name not in reader.variables:
        reader.refuse(tree)
    return reader.called(LAMBDA_VARIABLE, tree.name)


def _lambda(reader: _Reader, tree: Any) -> Recorded:
    names = [variable.name for variable in tree.expressions]
    inner = replace(reader, variables=reader.variables | {*names})
    variables = [reader.called(LAMBDA_VARIABLE, name) for name in names]
    return reader.called(LAMBDA, inner.read(tree.this), variables)


def _binary(name: str) -> Callable[[_Reader, Any], Recorded]:
    return lambda reader, tree: reader.called(name, reader.read(tree.left), reader.read(tree.right))


def _comparison(name: str) -> Callable[[_Reader, Any], Recorded]:
    """Return what reads a comparison. In Spark all bind alike, from the left; in sqlglot some bind more tightly."""

    def read(reader: _Reader, tree: Any) -> Recorded:
        if type(tree.right) in _LOOSE or type(tree.left) in _PREDICATES:
            reader.refuse(tree)
        return reader.called(name, reader.read(tree.left), reader.read(tree.right))

    return read


def _not(reader: _Reader, tree: Any) -> Recorded:
    inner = tree.this
    if tree.meta.get(IS_NOT) and isinstance(inner.expression, exp.Null):
        return reader.called("isNotNull", reader.read(inner.this))
    return reader.called("not", reader.read(inner))


def _is(reader: _Reader, tree: Any) -> Recorded:
    if isinstance(tree.expression, exp.Null):
        return reader.called("isNull", reader.read(tree.this))
    if not isinstance(tree.expression, exp.Boolean):
        reader.refuse(tree)
    return reader.called("eqNullSafe", reader.read(tree.this), tree.expression.this)


def _in(reader: _Reader, tree: Any) -> Recorded:
    if not tree.expressions:
        reader.refuse(tree)
    return reader.called("isin", reader.read(tree.this), reader.all(tree.expressions))


def _between(reader: _Reader, tree: Any) -> Recorded:
    if type(tree.args["high"]) in _LOOSE:
        reader.refuse(tree)
    node, low, high = (reader.read(tree.args[part]) for part in ("this", "low", "high"))
    both = reader.called("and", reader.called("geq", node, low), reader.called("leq", node, high))
    return reader.called("as", both, f"between({shown(node)}, {shown(low)}, {shown(high)})")


def _like(name: str) -> Callable[[_Reader, Any], Recorded]:
    def read(reader: _Reader, tree: Any) -> Recorded:
        if type(tree.expression) in {*_LOOSE, exp.Any, exp.All}:
            reader.refuse(tree)
        test = reader.called(name, reader.read(tree.this), reader.read(tree.expression))
        return reader.called("not", test) if tree.args.get("negate") else test

    return read


def _negated(reader: _Reader, tree: Any) -> Any:
    node = reader.read(tree.this)
    if isinstance(node, Recorded) and node.name == "lit" and isinstance(tree.this, exp.Column):
        return reader.called("lit", -node.args[0], *node.args[1:])
    written = isinstance(tree.this, exp.Literal) and not isinstance(node, str)
    return -node if written else reader.called("as", reader.called("negate", node), f"(- {shown(node)})")


def _cast(reader: _Reader, tree: Any) -> Recorded:
    cast = reader.cast(tree, reader.read(tree.this), shown_text(tree.to))
    if not tree.meta.get(TYPED_LITERAL):
        return cast
    is_day = isinstance(cast.args[1], t.TimestampType) and len(tree.this.name) == len("2024-01-02")
    text = f"{tree.this.name} 00:00:00" if is_day else tree.this.name
    return reader.called("as", cast, f"{cast.args[1].typeName().upper()} '{text}'")


def _case(reader: _Reader, tree: Any) -> Recorded:
    tested = None if tree.this is None else [reader.read(tree.this)]
    node: Recorded | None = None
    for branch in tree.args["ifs"]:
        condition, value = reader.read(branch.this), reader.read(branch.args["true"])
        if tested is not None:
            condition = reader.called("equalTo", tested[0], condition)
        node = reader.called("when", *(() if node is None else (node,)), condition, value)
    if node is None:
        reader.refuse(tree)
    default = tree.args.get("default")
    return node if default is None else reader.called("otherwise", node, reader.read(default))


def _json_field(reader: _Reader, tree: Any) -> Recorded:
    """Read Databricks' ``document:customer.name``."""
    first, *keys = tree.expression.expressions
    if not (isinstance(first, exp.JSONPathRoot) and all(isinstance(key, exp.JSONPathKey) for key in keys)):
        reader.refuse(tree)
    path = ".".join(["$", *(key.this for key in keys)])
    return reader.named(reader.called("get_json_object", reader.read(tree.this), path), keys[-1].this)


def _item(reader: _Reader, tree: Any) -> Recorded:
    if len(tree.expressions) != 1:
        reader.refuse(tree)
    return reader.called("apply", reader.read(tree.this), reader.read(tree.expressions[0]))


def _field(reader: _Reader, tree: Any) -> Recorded:
    if not isinstance(tree.expression, exp.Identifier):
        reader.refuse(tree)
    return reader.called("apply", reader.read(tree.this), tree.expression.name)


def _extract(reader: _Reader, tree: Any) -> Recorded:
    part = tree.this.name.lower()
    if part not in _PARTS_OF_TIME:
        reader.refuse(tree)
    node = reader.read(tree.expression)
    name = f"extract({tree.this.name} FROM {shown(node)})"
    return reader.called("as", reader.called(_PARTS_OF_TIME[part], node), name)


_PARTS_OF_TIME = {
    "year": "year", "quarter": "quarter", "month": "month", "day": "dayofmonth", "hour": "hour", "minute": "minute",
    "dayofweek": "dayofweek", "doy": "dayofyear",
}  # fmt: skip


def _interval(reader: _Reader, tree: Any) -> Recorded:
    unit = tree.args["unit"].name.lower().rstrip("s") if isinstance(tree.args.get("unit"), exp.Var) else ""
    length_us = interval_us(f"{tree.this.name} {unit}") if isinstance(tree.this, exp.Literal) else None
    if length_us is None:
        reader.refuse(tree)
    place = _UNITS.index({"week": "day"}.get(unit, unit if unit in _UNITS else "second"))
    return reader.called("lit", timedelta(microseconds=length_us), t.DayTimeIntervalType(place, place))


_UNITS = ("day", "hour", "minute", "second")


def _sum(reader: _Reader, tree: Any) -> Recorded:
    """Read a sum, or an interval of several units, which sqlglot takes for one."""
    left, right = reader.read(tree.left), reader.read(tree.right)
    if not (_is_interval(left) and _is_interval(right)):
        return reader.called("plus", left, right)
    (one, kind), (two, other) = left.args, right.args
    return reader.called("lit", one + two, t.DayTimeIntervalType(kind.startField, other.endField))


def _is_interval(node: Any) -> bool:
    return isinstance(node, Recorded) and node.name == "lit" and isinstance(node.args[0], timedelta)


def _call(reader: _Reader, tree: Any) -> Any:
    written = tree.name.lower()
    name = _JAVA_NAMES.get(written, written)
    if any(isinstance(argument, exp.Distinct) for argument in tree.expressions):
        return _distinct(reader, tree, name)
    arguments = reader.all(tree.expressions)
    special = _SPECIAL.get(name)
    if name in _TYPES and len(arguments) == 1:
        return reader.cast(tree, arguments[0], name)
    node = special(reader, tree, arguments) if special else reader.called(name, *arguments)
    shown_name = f"{written}({', '.join(map(shown, arguments))})"
    return reader.named(node, shown_name) if written in _SHOWN_AS_WRITTEN else node


_SHOWN_AS_WRITTEN = frozenset({"day", "first_value", "ifnull", "last_value", "mean", "nvl", "substr"})


def _distinct(reader: _Reader, tree: Any, name: str) -> Recorded:
    counted = tree.expressions[0]
    if len(tree.expressions) > 1 or name not in {"count", "sum", "max", "min", "collect_set"}:
        reader.refuse(tree)
    first, *more = reader.all(counted.expressions)
    if name == "count":
        return reader.called("count_distinct", first, more)
    if more:
        reader.refuse(tree)
    if name == "sum":
        return reader.called("sum_distinct", first)
    return reader.called("as", reader.called(name, first), f"{name}(DISTINCT {shown(first)})")


def _if(reader: _Reader, tree: exp.Expr, arguments: list[Any]) -> Recorded:
    if len(arguments) != 3:
        reader.refuse(tree)
    condition = reader.cast(tree, None, "boolean") if arguments[0] is None else arguments[0]
    chosen = reader.called("otherwise", reader.called("when", condition, arguments[1]), arguments[2])
    return reader.called("as", chosen, f"(IF({', '.join(map(shown, arguments))}))")


def _named_struct(reader: _Reader, tree: exp.Expr, arguments: list[Any]) -> Recorded:
    if len(arguments) % 2 or not all(isinstance(label, str) for label in arguments[::2]):
        reader.refuse(tree)
    parts = zip(arguments[1::2], arguments[::2], strict=True)
    struct = reader.called("struct", [reader.called("as", node, label) for node, label in parts])
    return reader.named(struct, f"named_struct({', '.join(map(shown, arguments))})")


_SPECIAL: dict[str, Callable[[_Reader, exp.Expr, list[Any]], Recorded]] = {
    **{
        name: lambda reader, _tree, arguments, name=name: reader.called(name, arguments)  # type: ignore[misc]
        for name in ("array", "coalesce", "concat", "greatest", "least", "map", "struct")
    },
    "concat_ws": lambda reader, _tree, arguments: reader.called("concat_ws", arguments[0], arguments[1:]),
    "if": _if,
    "named_struct": _named_struct,
    "substring": lambda reader, _tree, arguments: reader.called(
        "substring", *arguments, *[(1 << 31) - 1] * (len(arguments) == 2)
    ),
}
"""Functions whose calls in Java take something else than their arguments one by one."""


def _ignoring_nulls(reader: _Reader, tree: Any) -> Recorded:
    node = reader.read(tree.this)
    if node.name not in {"first", "last"} or len(node.args) > 1:
        reader.refuse(tree)
    return reader.called(node.name, *node.args, True)


def _filtered(reader: _Reader, tree: Any) -> Recorded:
    """Read ``sum(x) FILTER (WHERE c)``: what does not hold counts as a null, which these aggregates leave out."""
    call, condition = reader.read(tree.this), reader.read(tree.expression.this)
    if not isinstance(call, Recorded) or call.name not in AGGREGATES or AGGREGATES[call.name].takes_nulls:
        reader.refuse(tree)
    first, *others = call.args
    value = 1 if isinstance(first, Recorded) and first.args == ("*",) else first
    counted = reader.called(call.name, reader.called("when", condition, value), *others)
    return reader.called("as", counted, f"{shown(call)} FILTER (WHERE {shown(condition)})")


def _over(reader: _Reader, tree: Any) -> Recorded:
    order, limits = tree.args.get("order"), tree.args.get("spec")
    spec = WindowSpec(
        tuple(reader.all(tree.args.get("partition_by") or [])),
        tuple(reader.all(order.expressions if order else [])),
        limits and _frame(reader, limits),
    )
    over = reader.called("over", reader.read(tree.this), spec)
    if over.args[0].name in {"lag", "lead"}:
        return over
    return reader.named(over, re.sub(r"-(\d+) FOLLOWING", r"\1 PRECEDING", shown(over)))


def _frame(reader: _Reader, tree: Any) -> tuple[str, int | None, int | None]:
    if tree.args.get("exclude"):
        reader.refuse(tree)
    start, end = (_limit(reader, tree, side) for side in ("start", "end"))
    return tree.args["kind"].lower(), start, end


def _limit(reader: _Reader, tree: Any, side: str) -> int | None:
    """Read an end of a frame, counted from the row at hand; None: there is none."""
    limit = tree.args.get(side) or "CURRENT ROW"
    if isinstance(limit, str):
        return None if limit.upper() == "UNBOUNDED" else 0
    number = reader.read(limit)
    if not isinstance(number, int):
        reader.refuse(tree)
    return -number if tree.args[f"{side}_side"].upper() == "PRECEDING" else number


def _ordered(reader: _Reader, tree: Any) -> Recorded:
    way, nulls_first = "desc" if tree.args.get("desc") else "asc", bool(tree.args.get("nulls_first"))
    if nulls_first != (way == "asc"):
        way += "_nulls_first" if nulls_first else "_nulls_last"
    return reader.called(way, reader.read(tree.this))


_COMPARISONS = {
    exp.EQ: "equalTo", exp.NEQ: "notEqual", exp.LT: "lt", exp.LTE: "leq", exp.GT: "gt", exp.GTE: "geq",
    exp.NullSafeEQ: "eqNullSafe",
}  # fmt: skip
_PREDICATES: frozenset[type] = frozenset(
    {exp.In, exp.Between, exp.Is, exp.Like, exp.RegexpLike, exp.ILike, exp.Not}
)
_LOOSE = _PREDICATES | {*_COMPARISONS, exp.NullSafeNEQ}
"""What Spark reads less tightly, or not at all, without parentheses, on the right side of a comparison."""
_TWO = ("this", "expression")
_OPERATIONS = {exp.And: "and", exp.Or: "or", exp.Sub: "minus", exp.Mul: "multiply", exp.Mod: "mod"}
_FORMS: dict[type, tuple[tuple[str, ...], Callable[[_Reader, Any], Any]]] = {
    **{kind: (_TWO, _comparison(name)) for kind, name in _COMPARISONS.items()},
    **{kind: (_TWO, _binary(name)) for kind, name in _OPERATIONS.items()},
    exp.Add: (_TWO, _sum),
    exp.Alias: (("this", "alias"), lambda reader, tree: reader.called("as", reader.read(tree.this), tree.alias)),
    exp.Anonymous: (("this", "expressions"), _call),
    exp.Between: (("this", "low", "high"), _between),
    exp.Boolean: (("this",), lambda _reader, tree: tree.this),
    exp.Bracket: (("this", "expressions"), _item),
    exp.Case: (("this", "ifs", "default"), _case),
    exp.Cast: (("this", "to"), _cast),
    exp.Column: (("this", "table", "db", "catalog"), _column),
    exp.Concat: (  # texts with nothing between them
        ("expressions", "safe", "coalesce"), lambda reader, tree: "".join(map(str, reader.all(tree.expressions))),
    ),
    exp.CurrentDate: ((), lambda reader, _tree: reader.called("current_date")),
    exp.CurrentTimestamp: ((), lambda reader, _tree: reader.called("current_timestamp")),
    exp.DPipe: (
        ("this", "expression", "safe"), lambda reader, tree: reader.called("concat", reader.all([tree.left, tree.right])),
    ),
    exp.Div: (("this", "expression", "typed", "safe"), _binary("divide")),
    exp.Dot: (_TWO, _field),
    exp.Extract: (_TWO, _extract),
    exp.Filter: (_TWO, _filtered),
    exp.Identifier: (("this", "quoted"), _variable),
    exp.IgnoreNulls: (("this",), _ignoring_nulls),
    exp.ILike: (("this", "expression", "negate"), _like("ilike")),
    exp.JSONExtract: (("this", "expression", "variant_extract", "requires_json"), _json_field),
    exp.In: (("this", "expressions"), _in),
    exp.Interval: (("this", "unit"), _interval),
    exp.Is: (_TWO, _is),
    exp.Kwarg: (
        _TWO, lambda reader, tree: reader.called(NAMED_ARGUMENT, tree.name, reader.read(tree.expression)),
    ),
    exp.Lambda: (("this", "expressions"), _lambda),
    exp.Like: (("this", "expression", "negate"), _like("like")),
    exp.Literal: (("this", "is_string"), _literal),
    exp.Neg: (("this",), _negated),
    exp.Not: (("this",), _not),
    exp.Null: ((), lambda _reader, _tree: None),
    exp.NullSafeNEQ: (
        _TWO, lambda reader, tree: reader.called("not", _comparison("eqNullSafe")(reader, tree)),
    ),
    exp.Ordered: (("this", "desc", "nulls_first"), _ordered),
    exp.Paren: (("this",), lambda reader, tree: reader.read(tree.this)),
    exp.RawString: (("this",), lambda _reader, tree: tree.name),
    exp.RegexpLike: (("this", "expression", "negate"), _like("rlike")),
    exp.Star: ((), lambda reader, _tree: reader.called("col", "*")),
    exp.Trim: (("this",), lambda reader, tree: reader.called("trim", reader.read(tree.this))),
    exp.TryCast: (
        ("this", "to", "safe"),
        lambda reader, tree: reader.cast(tree, reader.read(tree.this), shown_text(tree.to), "try_cast"),
    ),
    exp.Window: (("this", "partition_by", "order", "spec", "over"), _over),
}  # fmt: skip
"""For each kind of tree: what may be set in it, and what reads it."""
