"""``delta.tables`` without Delta Lake: a job's `DeltaTable` changes the tables of its session.

Delta's package needs Java, and is not installed where tests run. While user code runs, `delta_without_java` stands for it.
"""

import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.connect.functions import expr
from pyspark.sql.connect.session import SparkSession

from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.refusals import CannotFollowError, is_library, users_place
from headrace_sim.spark.tables.statements import (
    Clause,
    ColumnAssignment,
    CreateTable,
    Delete,
    IfExists,
    Match,
    Merge,
    MergeAction,
    TableStatement,
    Update,
)

_REMEDY = "Leave it out, or do it outside of the code that is tried"
_Values = Mapping[str, Any]


def _session() -> Any:
    """Return the session that is in force: a module may have got its table from one that is gone."""
    return SparkSession.getActiveSession()


def _node(value: Any) -> Recorded:
    """Return a column, or a text in SQL, as a tree of calls."""
    column = expr(value) if isinstance(value, str) else value
    session = _session()
    node: Recorded = session.answers.compiler().reading(users_place())(column._expr.to_plan(session.client))
    return node


def _condition(value: Any) -> Recorded | None:
    return None if value is None else _node(value)


def _assignments(values: _Values) -> tuple[ColumnAssignment, ...]:
    return tuple(ColumnAssignment(column, _node(value)) for column, value in values.items())


class _Refusing:
    """What refuses the methods that it lacks."""

    def __getattr__(self, name: str) -> Any:
        """Refuse everything else."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise CannotFollowError(f"{type(self).__name__}.{name}()", users_place(), _REMEDY)


class DeltaTable(_Refusing):
    """A table of the session."""

    def __init__(self, name: str, alias: str = "") -> None:
        self._name, self._alias = name, alias

    @classmethod
    def forName(cls, sparkSession: Any, tableOrViewName: str) -> "DeltaTable":
        return cls(tableOrViewName)

    @classmethod
    def forPath(cls, sparkSession: Any, path: str, hadoopConf: Any = None) -> "DeltaTable":
        return cls(f"delta.`{path}`")

    @classmethod
    def isDeltaTable(cls, sparkSession: Any, identifier: str) -> bool:
        return bool(_session().answers.tables.exists(identifier))

    @classmethod
    def create(cls, sparkSession: Any = None) -> "DeltaTableBuilder":
        return DeltaTableBuilder(IfExists.FAIL)

    @classmethod
    def createIfNotExists(cls, sparkSession: Any = None) -> "DeltaTableBuilder":
        return DeltaTableBuilder(IfExists.KEEP)

    @classmethod
    def createOrReplace(cls, sparkSession: Any = None) -> "DeltaTableBuilder":
        return DeltaTableBuilder(IfExists.REPLACE)

    replace = createOrReplace

    def alias(self, aliasName: str) -> "DeltaTable":
        return DeltaTable(self._name, aliasName)

    def toDF(self) -> Any:
        frame = _session().table(self._name)
        return frame.alias(self._alias) if self._alias else frame

    def merge(self, source: Any, condition: Any) -> "DeltaMergeBuilder":
        relation = source._plan.to_proto(source._session.client).root
        return DeltaMergeBuilder(Merge(self._name, relation, _node(condition), (), self._alias))

    def update(self, condition: Any = None, set: _Values | None = None) -> None:
        _run(Update(self._name, _assignments(set or {}), _condition(condition), self._alias))

    def delete(self, condition: Any = None) -> None:
        _run(Delete(self._name, _condition(condition), self._alias))

    def history(self, limit: int | None = None) -> Any:
        operations = list(enumerate(_session().answers.tables.history(self._name)))[::-1]
        return _session().createDataFrame(operations[:limit], "version BIGINT, operation STRING")

    def vacuum(self, *_: Any, **__: Any) -> None:
        """Do nothing: it changes no row."""

    generate = vacuum

    def optimize(self) -> "DeltaOptimizeBuilder":
        return DeltaOptimizeBuilder()


class DeltaOptimizeBuilder(_Refusing):
    """What rewrites files, and changes no row."""

    def where(self, partitionFilter: str) -> "DeltaOptimizeBuilder":
        """Choose files."""
        return self

    def executeCompaction(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    executeZOrderBy = executeCompaction


class DeltaMergeBuilder(_Refusing):
    """A merge whose clauses are being said."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge

    def _with(
        self, match: Match, act: MergeAction, condition: Any, values: _Values | None = None
    ) -> "DeltaMergeBuilder":
        clause = Clause(match, act, _condition(condition), None if values is None else _assignments(values))
        return DeltaMergeBuilder(replace(self._merge, clauses=(*self._merge.clauses, clause)))

    def whenMatchedUpdate(self, condition: Any = None, set: _Values | None = None) -> "DeltaMergeBuilder":
        return self._with(Match.MATCHED, MergeAction.UPDATE, condition, set or {})

    def whenMatchedUpdateAll(self, condition: Any = None) -> "DeltaMergeBuilder":
        return self._with(Match.MATCHED, MergeAction.UPDATE, condition)

    def whenMatchedDelete(self, condition: Any = None) -> "DeltaMergeBuilder":
        return self._with(Match.MATCHED, MergeAction.DELETE, condition)

    def whenNotMatchedInsert(
        self, condition: Any = None, values: _Values | None = None
    ) -> "DeltaMergeBuilder":
        return self._with(Match.NOT_MATCHED, MergeAction.INSERT, condition, values or {})

    def whenNotMatchedInsertAll(self, condition: Any = None) -> "DeltaMergeBuilder":
        return self._with(Match.NOT_MATCHED, MergeAction.INSERT, condition)

    def whenNotMatchedBySourceUpdate(
        self, condition: Any = None, set: _Values | None = None
    ) -> "DeltaMergeBuilder":
        return self._with(Match.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, condition, set or {})

    def whenNotMatchedBySourceDelete(self, condition: Any = None) -> "DeltaMergeBuilder":
        return self._with(Match.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, condition)

    def withSchemaEvolution(self) -> "DeltaMergeBuilder":
        return DeltaMergeBuilder(replace(self._merge, evolves=True))

    def execute(self) -> Any:
        return _run(self._merge)


class DeltaTableBuilder(_Refusing):
    """A table that is being described."""

    def __init__(self, if_exists: IfExists) -> None:
        self._if_exists = if_exists
        self._table = self._location = ""
        self._fields: list[t.StructField] = []
        self._partitions: tuple[str, ...] = ()

    def tableName(self, identifier: str) -> "DeltaTableBuilder":
        self._table = identifier
        return self

    def location(self, location: str) -> "DeltaTableBuilder":
        self._location = location
        return self

    def addColumn(
        self,
        colName: str,
        dataType: Any,
        nullable: bool = True,
        generatedAlwaysAs: Any = None,
        generatedByDefaultAs: Any = None,
        comment: str | None = None,
    ) -> "DeltaTableBuilder":
        if generatedAlwaysAs is not None or generatedByDefaultAs is not None:
            raise CannotFollowError("a generated column", users_place(), "Compute it in the rows")
        kind = parse_type(dataType) if isinstance(dataType, str) else dataType
        self._fields.append(t.StructField(colName, kind, nullable))
        return self

    def addColumns(self, cols: Sequence[t.StructField]) -> "DeltaTableBuilder":
        self._fields.extend(cols)
        return self

    def partitionedBy(self, *cols: Any) -> "DeltaTableBuilder":
        self._partitions = tuple(cols[0]) if len(cols) == 1 and not isinstance(cols[0], str) else cols
        return self

    def comment(self, *_: Any, **__: Any) -> "DeltaTableBuilder":
        return self

    clusterBy = property = comment

    def execute(self) -> DeltaTable:
        name = self._table or f"delta.`{self._location}`"
        fields = t.StructType(self._fields)
        location = self._location if self._table else ""
        _run(CreateTable(name, fields, "delta", self._partitions, self._if_exists, None, location))
        return DeltaTable(name)


def _run(statement: TableStatement) -> Any:
    """Carry out a statement; return how many rows it touched, as a frame."""
    rows = _session().answers.tables.execute(statement).as_rows()
    return _session().frame(rows.schema, rows.partitions)


def configure_spark_with_delta_pip(spark_session_builder: Any, extra_packages: Any = None) -> Any:  # noqa: ARG001
    """Return the builder as it is."""
    return spark_session_builder


def _exceptions() -> dict[str, Any]:
    """Return Delta's errors of two writers that are in each other's way: a trial runs one process at a time."""
    names = ("ConcurrentAppend", "ConcurrentDeleteDelete", "ConcurrentDeleteRead", "ConcurrentTransaction",
             "ConcurrentWrite", "MetadataChanged", "ProtocolChanged")  # fmt: skip
    base = type("DeltaConcurrentModificationException", (Exception,), {})
    kinds = [base, *(type(f"{name}Exception", (base,), {}) for name in names)]
    return {kind.__name__: kind for kind in kinds}


_PIP = {"configure_spark_with_delta_pip": configure_spark_with_delta_pip}
_MODULES: dict[str, dict[str, Any]] = {
    "delta": {"DeltaTable": DeltaTable, "__path__": [], **_PIP},
    "delta.exceptions": _exceptions(),
    "delta.pip_utils": _PIP,
    "delta.tables": {
        kind.__name__: kind
        for kind in (DeltaTable, DeltaMergeBuilder, DeltaOptimizeBuilder, DeltaTableBuilder)
    },
}


class _Delta(MetaPathFinder, Loader):
    """Finds Delta's modules here, unless the user has a package of that name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module."""
        return importlib.util.spec_from_loader(name, self) if name in _MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module."""
        vars(module).update(_MODULES[module.__name__])


@contextmanager
def delta_without_java() -> Iterator[None]:
    """Let ``import delta`` find what is here."""
    spec = PathFinder.find_spec("delta")
    if spec is not None and spec.origin is not None and not is_library(spec.origin):
        yield
        return
    # To read the names of all modules would copy their pages in each forked attempt.
    loaded = list(sys.modules) if "delta" in sys.modules else ()
    hidden = {name: sys.modules.pop(name) for name in loaded if name.partition(".")[0] == "delta"}
    finder = _Delta()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
