"""Record PySpark's own functions and columns, with stand-ins for the Java objects that they call.

``F.col("amount") * 2`` is PySpark's code up to the moment when it calls Java's ``functions.col`` and ``Column.multiply``.
This file records those calls as a tree of `Recorded` values, so `pyspark.sql.functions` and ``Column`` stay PySpark's,
however the user imported them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.errors import utils as pyspark_errors
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.ddl import parse_type
from headrace_sim.spark.refusals import CannotFollowError, users_place

USER_FUNCTION, NAMED_ARGUMENT = "udf", "named argument"
"""Names of recorded calls: of a function in Python, with itself and its columns; and of one of them that is given by name."""


class Recorded:
    """A call of Java's ``functions`` or of a Java ``Column``: its name, its arguments (the column first) and its place."""

    __slots__ = ("args", "name", "place")

    def __init__(self, name: str, args: tuple[Any, ...], place: str) -> None:
        self.name, self.args, self.place = name, args, place

    def __getattr__(self, method: str) -> Any:
        """Record a call on this column. ``Column`` calls ``plus``, ``isNull`` and the like here."""
        if method.startswith("__"):
            raise AttributeError(method)
        return lambda *args: Recorded(method, (self, *args), users_place())

    def toString(self) -> str:
        """Name the column, for PySpark's ``repr`` and messages."""
        return shown(self)


def shown(node: Any) -> str:
    """Return the name that Spark shows for a column: ``(amount * 2)``."""
    if not isinstance(node, Recorded):
        return _shown_value(node)
    if node.name in {"col", "lit"}:
        return shown(node.args[0])
    if node.name == "as":
        return str(node.args[1])
    if node.name in _OPERATORS:
        return f"({shown(node.args[0])} {_OPERATORS[node.name]} {shown(node.args[1])})"
    if node.name == "cast":
        return (
            shown(node.args[0])
            if _is_name(node.args[0])
            else f"CAST({shown(node.args[0])} AS {str(_type_name(node.args[1])).upper()})"
        )
    if node.name in _SUFFIXES:
        return f"({shown(node.args[0])} {_SUFFIXES[node.name]})"
    if node.name in _FORMS:
        return _FORMS[node.name].format(*map(shown, node.args))
    if node.name == "isin":
        return f"({shown(node.args[0])} IN ({', '.join(map(shown, node.args[1]))}))"
    if node.name in {"when", "otherwise"}:
        return _shown_case(node)
    if node.name == USER_FUNCTION:
        return f"{node.args[0]._name}({', '.join(map(shown, node.args[1]))})"
    arguments = [operand for arg in node.args for operand in (arg if isinstance(arg, list) else [arg])]
    if (node.name, len(arguments)) in _SHOWN_DEFAULTS:
        arguments.append(_SHOWN_DEFAULTS[node.name, len(arguments)])
    return f"{_SHOWN_NAMES.get(node.name, node.name)}({', '.join(map(shown, arguments))})"


_OPERATORS = {
    "plus": "+", "minus": "-", "multiply": "*", "divide": "/", "mod": "%", "equalTo": "=", "eqNullSafe": "<=>", "lt": "<",
    "leq": "<=", "gt": ">", "geq": ">=", "and": "AND", "or": "OR",
}  # fmt: skip
_SUFFIXES = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL", "isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_FORMS = {
    NAMED_ARGUMENT: "{} => {}", "like": "{} LIKE {}", "not": "(NOT {})", "notEqual": "(NOT ({} = {}))", "apply": "{}[{}]",
    "from_json": "from_json({})",
}  # fmt: skip
_SHOWN_NAMES = {
    "ceil": "CEIL", "floor": "FLOOR", "negate": "negative", "pow": "POWER", "rlike": "RLIKE", "sqrt": "SQRT",
}  # fmt: skip
_SHOWN_DEFAULTS = {("regexp_replace", 3): 1, ("round", 1): 0}
"""What is shown although it was not given, by the name and the number of arguments that were."""


def _shown_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "NULL" if value is None else "NaN" if value != value else str(value)  # noqa: PLR0124 # only NaN differs from itself


def _is_name(node: Any) -> bool:
    return isinstance(node, Recorded) and node.name in {"col", "apply"}


def _type_name(given: Any) -> str:
    return given if isinstance(given, str) else given.simpleString()


def _shown_case(node: Recorded) -> str:
    pairs, default = case_parts(node)
    told = "".join(f" WHEN {shown(condition)} THEN {shown(value)}" for condition, value in pairs)
    return f"CASE{told}{'' if default is None else f' ELSE {shown(default[0])}'} END"


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


class _Functions:
    def __getattr__(self, name: str) -> Any:
        return lambda *args: Recorded(name, args, users_place())


class _PythonUtils:
    @staticmethod
    def toSeq(columns: Any) -> list[Any]:
        return list(columns)

    toList = toSeq


class _PythonSqlUtils:
    @staticmethod
    def namedArgumentExpression(name: str, column: Any) -> Recorded:
        return Recorded(NAMED_ARGUMENT, (name, column), users_place())


class _UserFunction:
    """Replaces Java's ``UserDefinedPythonFunction``."""

    def __init__(self, function: UserDefinedFunction) -> None:
        self._function = function

    def apply(self, columns: list[Any]) -> Recorded:
        return Recorded(USER_FUNCTION, (self._function, columns), users_place())


class _Java:
    """Replaces ``SparkContext._jvm`` while code is recorded; it has only the functions of columns."""

    functions = _Functions()
    PythonUtils = _PythonUtils()
    PythonSQLUtils = _PythonSqlUtils()

    def __getattr__(self, name: str) -> Any:
        if name == "org.apache.spark.sql.functions":
            return self.functions
        raise CannotFollowError(
            f"Java's {name}",
            users_place(),
            "Use functions of columns that take columns and values, or do it in Python",
        )


class _Context:
    """Replaces ``SparkContext._active_spark_context`` while code is recorded."""

    _jvm = _Java()
    _jsc = None
    _conf: ClassVar[dict[str, str]] = {}

    @staticmethod
    def _parse_ddl(text: str) -> Any:
        return parse_type(text)


@contextmanager
def columns_without_java(session: Any) -> Iterator[None]:
    """Let PySpark's functions and columns be recorded, and ``SparkSession.builder.getOrCreate()`` return ``session``.

    A Spark session running in this process is hidden until the context ends.
    """
    with ExitStack() as patches:
        patches.enter_context(patch.object(SparkContext, "_active_spark_context", _Context()))
        patches.enter_context(patch.object(pyspark_errors, "is_debugging_enabled", lambda: False))
        patches.enter_context(patch.object(UserDefinedFunction, "_judf", property(_UserFunction)))
        patches.enter_context(patch.object(SparkSession, "_instantiatedSession", session))
        patches.enter_context(patch.object(SparkSession.Builder, "getOrCreate", lambda _builder: session))
        for name in ("getActiveSession", "active", "_getActiveSessionOrCreate"):
            patches.enter_context(patch.object(SparkSession, name, staticmethod(lambda: session)))
        yield


def node_of(column: Any) -> Recorded:
    """Return the recording of a column, or of the column with this name."""
    if isinstance(column, Column):
        return column._jc  # type: ignore[no-any-return]
    return Recorded("col", (column,), users_place())


def functions_in(given: Any) -> Iterator[Any]:
    """Yield the user's functions that columns call: of a column, of what was recorded, or of a collection of them."""
    if isinstance(given, Column):
        yield from functions_in(given._jc)
    elif isinstance(given, Recorded):
        yield from functions_in(given.args)
    elif isinstance(given, UserDefinedFunction):
        yield given.func
    elif isinstance(given, list | tuple | dict):
        for part in given.values() if isinstance(given, dict) else given:
            yield from functions_in(part)


def column_of(node: Recorded) -> Any:
    """Return a PySpark column that records calls on it."""
    return Column(node)
