"""What a column is while nothing runs: a tree of the calls that made it, which names itself as Spark would."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

OF_A_FRAME = "of a frame"
"""The second argument of a recorded ``col`` that was taken from a frame, as in ``df.amount``, and not named alone."""

USER_FUNCTION, NAMED_ARGUMENT = "udf", "named argument"
"""Names of recorded calls: of a function in Python, with itself and its columns; and of one of them that is given by name."""

LAMBDA, LAMBDA_VARIABLE = "lambda", "lambda variable"
"""Names of a recorded function of columns that is called for each item, with its body and variables; and of a variable."""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Which rows a window function sees."""

    partition: tuple["Recorded", ...] = ()  # the columns that are equal for all of them
    order: tuple["Recorded", ...] = ()  # the columns that they are sorted by
    # ``rows`` or ``range``, and the first and the last of them, counted from the row at hand; None: without an end
    frame: tuple[str, int | None, int | None] | None = None

    def __str__(self) -> str:
        """Show it as Spark does."""
        parts = [f"PARTITION BY {', '.join(map(shown, self.partition))}"] if self.partition else []
        parts += [f"ORDER BY {', '.join(map(_shown_order, self.order))}"] if self.order else []
        return " ".join(parts)


def _shown_order(node: "Recorded") -> str:
    way, _, nulls = node.name.partition("_nulls_")
    return f"{shown(node.args[0])} {way.upper()} NULLS {(nulls or ('first' if way == 'asc' else 'last')).upper()}"


@dataclass(slots=True, eq=False)
class Recorded:
    """A call of Java's ``functions`` or of a Java ``Column``: its name, its arguments (the column first) and its place."""

    name: str
    args: tuple[Any, ...]
    place: str


def shown(node: Any) -> str:
    """Return the name that Spark shows for a column: ``(amount * 2)``."""
    if not isinstance(node, Recorded):
        return _shown_value(node)
    if node.name == "lit" and isinstance(node.args[0], timedelta):
        return _shown_interval(*node.args)
    if node.name in {"col", "lit"}:
        return shown(node.args[0])
    if node.name == "as":
        return str(node.args[1])
    if node.name in {"plus", "minus"} and (moved := _shown_moved(node)):
        return moved
    if node.name in _OPERATORS:
        return f"({shown(node.args[0])} {_OPERATORS[node.name]} {shown(node.args[1])})"
    if node.name == "cast":
        return f"CAST({shown(node.args[0])} AS {str(_type_name(node.args[1])).upper()})"
    if node.name in _SUFFIXES:
        return f"({shown(node.args[0])} {_SUFFIXES[node.name]})"
    if node.name in _FORMS:
        return _FORMS[node.name].format(*map(shown, node.args))
    if node.name in _SHOWN:
        return _SHOWN[node.name](node)
    arguments = [operand for arg in node.args for operand in (arg if isinstance(arg, list) else [arg])]
    if (node.name, len(arguments)) in _SHOWN_DEFAULTS:
        arguments.append(_SHOWN_DEFAULTS[node.name, len(arguments)])
    return f"{_SHOWN_NAMES.get(node.name, node.name)}({', '.join(map(shown, arguments))})"


def _shown_window(node: Recorded) -> str:
    function, spec = node.args
    unit, start, end = spec.frame or ("range", None, 0 if spec.order else None)
    if function.name in {"row_number", "rank", "dense_rank"} or not spec.order:
        unit = "rows"
    if function.name in {"lag", "lead"}:
        by = function.args[1] if len(function.args) > 1 else 1
        unit, start, end = ("rows", -by, -by) if function.name == "lag" else ("rows", by, by)
    limits = [
        f"UNBOUNDED {side}" if offset is None else f"{offset} FOLLOWING" if offset else "CURRENT ROW"
        for offset, side in ((start, "PRECEDING"), (end, "FOLLOWING"))
    ]
    return f"{shown(function)} OVER ({f'{spec} '.lstrip()}{unit.upper()} BETWEEN {' AND '.join(limits)})"


_OPERATORS = {
    "plus": "+", "minus": "-", "multiply": "*", "divide": "/", "mod": "%", "equalTo": "=", "eqNullSafe": "<=>", "lt": "<",
    "leq": "<=", "gt": ">", "geq": ">=", "and": "AND", "or": "OR",
}  # fmt: skip
_SUFFIXES = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL", "isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_FORMS = {
    NAMED_ARGUMENT: "{} => {}", "like": "{} LIKE {}", "not": "(NOT {})", "notEqual": "(NOT ({} = {}))", "apply": "{}[{}]",
    "from_json": "from_json({})", "to_json": "to_json({})",
}  # fmt: skip
_SHOWN_NAMES = {
    "ceil": "CEIL", "endsWith": "endswith", "exp": "EXP", "floor": "FLOOR", "log": "ln", "negate": "negative",
    "pow": "POWER", "rlike": "RLIKE", "sqrt": "SQRT", "startsWith": "startswith",
}  # fmt: skip
_SHOWN_DEFAULTS = {("regexp_replace", 3): 1, ("round", 1): 0}
"""What is shown although it was not given, by the name and the number of arguments that were."""


def _shown_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "NULL" if value is None else "NaN" if value != value else str(value)  # noqa: PLR0124 # only NaN differs from itself


def _shown_interval(length: timedelta, kind: Any = None) -> str:
    first, last = (0, 3) if kind is None else (kind.startField, kind.endField)
    seconds, micros = divmod(abs(length) // timedelta(microseconds=1), 1_000_000)
    minutes, hours = seconds // 60, seconds // 3600
    units = [hours // 24, hours, minutes, seconds]
    parts = [str(units[0])] if first == 0 else []
    parts += [
        f"{units[place] % (1 << 62 if place == first else limit):02}"
        for place, limit in ((1, 24), (2, 60), (3, 60))
        if first <= place <= last
    ]
    text = ":".join(parts[first == 0 :])
    text = " ".join([*parts[: first == 0], *[text][: last > 0]]) + (
        f".{micros:06}".rstrip("0") if micros and last == 3 else ""
    )
    names = dict.fromkeys(("DAY", "HOUR", "MINUTE", "SECOND")[place] for place in (first, last))
    return f"INTERVAL '{'-' if length < timedelta() else ''}{text}' {' TO '.join(names)}"


def _shown_moved(node: Recorded) -> str:
    """Show a time that an interval is added to: it comes first."""
    intervals = [
        isinstance(arg, Recorded) and arg.name == "lit" and isinstance(arg.args[0], timedelta)
        for arg in node.args
    ]
    time, interval = node.args[::-1] if intervals == [True, False] else node.args
    return f"{shown(time)} {_OPERATORS[node.name]} {shown(interval)}" if any(intervals) else ""


def is_name(node: Any) -> bool:
    """Return whether a column is one of the frame's, or a part of one: a cast of that keeps its name."""
    return isinstance(node, Recorded) and node.name in {"col", "apply"}


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else kind.simpleString()


def _shown_case(node: Recorded) -> str:
    pairs, default = case_parts(node)
    branches = "".join(f" WHEN {shown(condition)} THEN {shown(value)}" for condition, value in pairs)
    return f"CASE{branches}{'' if default is None else f' ELSE {shown(default[0])}'} END"


def _shown_part(node: Any) -> str:
    named = isinstance(node, Recorded) and node.name == "as"
    return f"{shown(node.args[0])} AS {node.args[1]}" if named else shown(node)


def case_parts(node: Recorded) -> tuple[list[tuple[Any, Any]], tuple[Any] | None]:
    """Return the (condition, value) pairs of a chain of ``when``, and the value of ``otherwise`` in a tuple, if any."""
    default = None
    if node.name == "otherwise":
        default, node = (node.args[1],), node.args[0]
    pairs = []
    while len(node.args) == 3:  # a further `when`, on the one before
        pairs.append((node.args[1], node.args[2]))
        node = node.args[0]
    pairs.append((node.args[0], node.args[1]))
    return pairs[::-1], default


_SHOWN: dict[str, Callable[[Recorded], str]] = {
    "count": lambda node: f"count({'1' if shown(node.args[0]) == '*' else shown(node.args[0])})",
    "count_distinct": lambda node: f"count(DISTINCT {', '.join(map(shown, [node.args[0], *node.args[1]]))})",
    "field": lambda node: str(node.args[1]),
    LAMBDA: lambda node: f"lambdafunction({', '.join(map(shown, (node.args[0], *node.args[1])))})",
    LAMBDA_VARIABLE: lambda _: "namedlambdavariable()",
    **dict.fromkeys(("any_value", "approx_count_distinct", "first", "last"), lambda node: f"{node.name}({shown(node.args[0])})"),
    "isin": lambda node: f"({shown(node.args[0])} IN ({', '.join(map(shown, node.args[1]))}))", "otherwise": _shown_case,
    "over": _shown_window, "struct": lambda node: f"struct({', '.join(map(_shown_part, node.args[0]))})",
    "sum_distinct": lambda node: f"sum(DISTINCT {shown(node.args[0])})",
    USER_FUNCTION: lambda node: f"{node.args[0]._name}({', '.join(map(shown, node.args[1]))})", "when": _shown_case,
}  # fmt: skip
