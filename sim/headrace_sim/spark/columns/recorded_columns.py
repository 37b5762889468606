"""Record PySpark's own functions and columns, with stand-ins for the Java objects that they call.

``F.col("amount") * 2`` is PySpark's code up to the moment when it calls Java's ``functions.col`` and ``Column.multiply``.
This file records those calls as a tree of `Recorded` values, so `pyspark.sql.functions` and ``Column`` stay PySpark's,
however the user imported them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import unwrap
from itertools import count
from typing import Any, ClassVar
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.errors import utils as pyspark_errors
from pyspark.sql import SparkSession, functions
from pyspark.sql.classic.column import Column
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.recorded import (
    LAMBDA,
    LAMBDA_VARIABLE,
    NAMED_ARGUMENT,
    USER_FUNCTION,
    Recorded,
    WindowSpec,
)
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import CannotFollowError, users_place


class _Functions:
    @staticmethod
    def expr(text: str) -> Recorded:
        return parse_expression(text, users_place())

    def __getattr__(self, name: str) -> Any:
        return lambda *args: Recorded(name, args, users_place())


class _PythonUtils:
    @staticmethod
    def toSeq(columns: Any) -> list[Any]:
        return list(columns)

    toList = toSeq


_VARIABLES = count()
"""Numbers that tell the variables of nested functions apart."""


class _PythonSqlUtils:
    @staticmethod
    def namedArgumentExpression(name: str, column: Any) -> Recorded:
        return Recorded(NAMED_ARGUMENT, (name, column), users_place())

    @staticmethod
    def unresolvedNamedLambdaVariable(name: str) -> Recorded:
        return Recorded(LAMBDA_VARIABLE, (f"{name}_{next(_VARIABLES)}",), users_place())

    @staticmethod
    def lambdaFunction(body: Recorded, variables: list[Recorded]) -> Recorded:
        return Recorded(LAMBDA, (body, variables), users_place())

    @staticmethod
    def fn(name: str, columns: list[Recorded]) -> Recorded:
        return Recorded(name, tuple(columns), users_place())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _JavaName(f"PythonSQLUtils.{name}")


class _UserFunction:
    """Replaces Java's ``UserDefinedPythonFunction``."""

    def __init__(self, function: UserDefinedFunction) -> None:
        self._function = function

    def apply(self, columns: list[Any]) -> Recorded:
        return Recorded(USER_FUNCTION, (self._function, columns), users_place())


class _JavaName:
    """A name of Java's, such as ``io.delta.tables.DeltaTable.forName``, that is refused as a whole once it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "_JavaName":
        if name.startswith("__"):
            raise AttributeError(name)
        return _JavaName(f"{self._name}.{name}")

    def __call__(self, *_args: Any) -> "_JavaName":
        if self._name.startswith(_LOGGERS):
            return self
        remedy = "Use functions of columns that take columns and values, or do it in Python"
        if self._name.startswith("io.delta."):
            remedy = "Verify a function that makes the rows of the merge, and writes them with df.write"
        raise CannotFollowError(f"Java's {self._name}()", users_place(), remedy)


_LOGGERS = ("org.apache.log4j.", "org.apache.logging.log4j.", "org.slf4j.")
"""What writes a log and gives nothing back: it is called as it likes."""


class _Java:
    """Replaces ``SparkContext._jvm`` while code is recorded; it has only the functions of columns."""

    functions = _Functions()
    PythonUtils = _PythonUtils()
    PythonSQLUtils = _PythonSqlUtils()

    def __getattr__(self, name: str) -> Any:
        if name == "org.apache.spark.sql.functions":
            return self.functions
        if name == "org.apache.spark.sql.expressions.Window":
            return WindowSpec()
        return _JavaName(name)


class JavaContext:
    """Replaces ``SparkContext._active_spark_context`` while code is recorded."""

    _jvm = _Java()
    _jsc = None
    _conf: ClassVar[dict[str, str]] = {}

    @staticmethod
    def _parse_ddl(text: str) -> Any:
        return parse_type(text)


def _as_it_is(df: Any) -> Any:
    return df


def _with_settings(session: Any, builder: Any) -> Any:
    """Return the session, with what its builder sets, as ``getOrCreate()`` does."""
    for key, value in builder._options.items():
        session.conf.set(key, value)
    return session


@contextmanager
def columns_without_java(session: Any) -> Iterator[None]:
    """Let PySpark's functions and columns be recorded, and ``SparkSession.builder.getOrCreate()`` return ``session``.

    A Spark session running in this process is hidden until the context ends.
    """
    with ExitStack() as patches:
        patches.enter_context(patch.object(SparkContext, "_active_spark_context", JavaContext()))
        patches.enter_context(patch.object(pyspark_errors, "is_debugging_enabled", lambda: False))
        patches.enter_context(patch.object(UserDefinedFunction, "_judf", property(_UserFunction)))
        broadcast = unwrap(functions.broadcast)  # this function, wherever it was imported to
        patches.callback(setattr, broadcast, "__code__", broadcast.__code__)
        broadcast.__code__ = _as_it_is.__code__
        patches.enter_context(patch.object(SparkSession, "_instantiatedSession", session))
        patches.enter_context(
            patch.object(
                SparkSession.Builder, "getOrCreate", lambda builder: _with_settings(session, builder)
            )
        )
        for name in ("getActiveSession", "active", "_getActiveSessionOrCreate"):
            patches.enter_context(patch.object(SparkSession, name, staticmethod(lambda: session)))
        yield


def node_of(column: Any) -> Recorded:
    """Return the recording of a column, or of the column with this name."""
    if isinstance(column, Recorded):
        return column
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
