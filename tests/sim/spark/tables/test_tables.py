"""Each write and each statement leaves a table as Delta Lake and Spark document it."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.in_force import CASES, settings_in_force
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import CannotFollowError, UnknownTableError
from headrace_sim.spark.tables.row_changes import Affected
from headrace_sim.spark.tables.statements import (
    Clause,
    ColumnAssignment,
    CreateTable,
    Delete,
    DropTable,
    IfExists,
    Insert,
    Match,
    Merge,
    MergeAction,
    Truncate,
    Update,
)
from headrace_sim.spark.tables.table_versions import ColumnMatch, Replaces, SaveMode, WriteRequest
from headrace_sim.spark.tables.tables import Tables

_SCHEMA = "id INT, total INT"
_OLD, _NEW = [(1, 10), (2, 20)], [(2, 5), (3, 7)]


def _frame(rows: list[tuple[Any, ...]], schema: str = _SCHEMA) -> Rows:
    return Rows(parse_schema(schema), [tuple(rows)])


def _expression(text: str) -> Any:
    return parse_expression(text, "job.py:1")


def _with(
    rows: list[tuple[Any, ...]] = _OLD, schema: str = _SCHEMA, partitions: tuple[str, ...] = ()
) -> Tables:
    tables = Tables()
    tables.write(_frame(rows, schema), WriteRequest("t", "delta", SaveMode.APPEND, partitions=partitions))
    return tables


def _rows(tables: Tables, name: str = "t") -> list[tuple[Any, ...]]:
    return sorted(tables.read(name).all(), key=repr)


def _clause(match: Match, act: MergeAction, condition: str | None = None, **assignments: str) -> Clause:
    values = tuple(ColumnAssignment(name, _expression(text)) for name, text in assignments.items())
    return Clause(match, act, None if condition is None else _expression(condition), values or None)


def _merge(*clauses: Clause, source: list[tuple[Any, ...]] = _NEW, table: str = "t", **more: Any) -> Merge:
    return Merge(table, _frame(source), _expression("t.id = s.id"), clauses, "t", "s", **more)


UPSERT = (_clause(Match.MATCHED, MergeAction.UPDATE), _clause(Match.NOT_MATCHED, MergeAction.INSERT))
ADDING = _clause(Match.MATCHED, MergeAction.UPDATE, total="t.total + s.total")


@pytest.mark.parametrize(
    ("clauses", "left"),
    [
        (UPSERT, [(1, 10), (2, 5), (3, 7)]),
        ((ADDING,), [(1, 10), (2, 25)]),
        ((_clause(Match.NOT_MATCHED, MergeAction.INSERT),), [(1, 10), (2, 20), (3, 7)]),
        ((_clause(Match.NOT_MATCHED, MergeAction.INSERT, id="s.id"),), [(1, 10), (2, 20), (3, None)]),
        ((_clause(Match.NOT_MATCHED, MergeAction.INSERT, "s.total > 7"),), [(1, 10), (2, 20)]),
        ((_clause(Match.MATCHED, MergeAction.DELETE),), [(1, 10)]),
        ((_clause(Match.MATCHED, MergeAction.DELETE, "s.total > 5"), ADDING), [(1, 10), (2, 25)]),
        ((_clause(Match.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE), ADDING), [(2, 25)]),
        ((_clause(Match.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, total="0"),), [(1, 0), (2, 20)]),
    ],
)  # fmt: skip
def test_first_clause_that_applies_changes_a_row(clauses: tuple[Clause, ...], left: list[Any]) -> None:
    tables = _with()
    tables.execute(_merge(*clauses))
    assert _rows(tables) == left


def test_merge_says_how_many_rows_it_touched() -> None:
    deleting = _clause(Match.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE)
    assert _with().execute(_merge(*UPSERT, deleting)) == Affected(updated=1, deleted=1, inserted=1)


@pytest.mark.parametrize(
    ("clauses", "fails"),
    [
        (UPSERT, True),
        ((ADDING,), True),
        ((_clause(Match.MATCHED, MergeAction.UPDATE, "s.total = 5"),), False),
        ((_clause(Match.MATCHED, MergeAction.UPDATE, "s.total = 5"), _clause(Match.NOT_MATCHED, MergeAction.INSERT)), True),
        ((_clause(Match.MATCHED, MergeAction.DELETE),), False),
        ((_clause(Match.NOT_MATCHED, MergeAction.INSERT),), False),
    ],
)  # fmt: skip
def test_two_rows_of_the_source_may_not_change_one_of_the_target(
    clauses: tuple[Clause, ...], fails: bool
) -> None:
    tables, merge = _with(), _merge(*clauses, source=[(2, 5), (2, 6)])
    if not fails:
        tables.execute(merge)
        return
    with pytest.raises(UnsupportedOperationException, match="MULTIPLE_SOURCE_ROW"):
        tables.execute(merge)
    assert _rows(tables) == _OLD


def test_merge_adds_columns_only_where_the_schema_evolves() -> None:
    wide = _frame([(2, 5, "b")], "id INT, total INT, note STRING")
    merge = Merge("t", wide, _expression("t.id = s.id"), UPSERT, "t", "s")
    kept, grown = _with(), _with()
    kept.execute(merge)
    grown.execute(Merge("t", wide, _expression("t.id = s.id"), UPSERT, "t", "s", evolves=True))
    assert _rows(kept) == [(1, 10), (2, 5)]
    assert _rows(grown) == [(1, 10, None), (2, 5, "b")]


def test_column_that_a_merge_cannot_find_is_an_error() -> None:
    for clause in (_clause(Match.MATCHED, MergeAction.UPDATE, amount="s.total"), ADDING):
        narrow = Merge("t", _frame([(2,)], "id INT"), _expression("t.id = s.id"), (clause,), "t", "s")
        with pytest.raises(AnalysisException):
            _with().execute(narrow)


def test_merge_into_a_table_that_nothing_made_takes_it_to_be_empty() -> None:
    tables = Tables()
    newer = _clause(Match.MATCHED, MergeAction.UPDATE, "s.total > t.total")
    closing = _clause(Match.NOT_MATCHED, MergeAction.INSERT, id="s.id", total="s.total", current="true")
    tables.execute(_merge(newer, _clause(Match.NOT_MATCHED, MergeAction.INSERT), table="a"))
    tables.execute(
        _merge(_clause(Match.MATCHED, MergeAction.UPDATE, "t.current", current="false"), closing, table="b")
    )
    assert (_rows(tables, "a"), _rows(tables, "b")) == ([(2, 5), (3, 7)], [(2, 5, True), (3, 7, True)])
    assert all(version.is_assumed for version in tables.versions().values())


def test_rows_are_updated_deleted_and_truncated() -> None:
    tables = _with()
    assert tables.execute(
        Update("t", (ColumnAssignment("total", _expression("total + 1")),), _expression("id = 1"))
    ) == Affected(updated=1)
    assert _rows(tables) == [(1, 11), (2, 20)]
    assert tables.execute(Delete("t", _expression("t.total > 11"))) == Affected(deleted=1)
    assert _rows(tables) == [(1, 11)]
    tables.execute(Truncate("t"))
    assert _rows(tables) == []


def test_what_is_overwritten_is_the_table_a_condition_or_the_partitions_that_are_written() -> None:
    for request, left in [
        (WriteRequest("t", "delta", SaveMode.OVERWRITE), _NEW),
        (WriteRequest("t", "delta", SaveMode.OVERWRITE, {"replacewhere": "id >= 2"}), [(1, 10), *_NEW]),
        (WriteRequest("t", "delta", SaveMode.OVERWRITE, replaces=Replaces.PARTITIONS), [(1, 10), *_NEW]),
        (WriteRequest("t", "", SaveMode.APPEND), [*_OLD, *_NEW]),
        (WriteRequest("t", "", SaveMode.IGNORE), _OLD),
    ]:
        tables = _with(partitions=("id",))
        tables.write(_frame(_NEW), request)
        assert _rows(tables) == left, request
    with pytest.raises(AnalysisException, match="REPLACE_WHERE_MISMATCH"):
        _with().write(
            _frame(_NEW), WriteRequest("t", "delta", SaveMode.OVERWRITE, {"replacewhere": "id = 3"})
        )
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        _with().write(_frame(_NEW), WriteRequest("t", "delta"))


def test_delta_skips_a_version_that_an_application_has_written_and_refuses_new_columns() -> None:
    tables = _with()
    for version in (7, 7, 6, 8):
        options = {"txnappid": "job", "txnversion": str(version)}
        tables.write(_frame([(version, 0)]), WriteRequest("t", "delta", SaveMode.APPEND, options))
    assert _rows(tables) == [*_OLD, (7, 0), (8, 0)]
    wide = _frame([(9, 0, "x")], "id INT, total INT, note STRING")
    with pytest.raises(AnalysisException, match="schema mismatch"):
        tables.write(wide, WriteRequest("t", "delta", SaveMode.APPEND))
    tables.write(wide, WriteRequest("t", "delta", SaveMode.APPEND, {"mergeschema": "true"}))
    assert _rows(tables)[-1] == (9, 0, "x")


def test_insert_matches_columns_by_place_unless_it_names_them() -> None:
    tables = _with()
    swapped = "total INT, id INT"
    tables.execute(Insert("t", _frame([(3, 30)], swapped)))
    tables.execute(Insert("t", _frame([(4, 40)], "a INT, b INT"), columns=("total", "id")))
    tables.execute(Insert("t", _frame([(5, 50)], swapped), by_name=True))
    tables.write(
        _frame([(6, 60)], swapped), WriteRequest("t", "", SaveMode.APPEND, columns=ColumnMatch.BY_PLACE)
    )
    assert _rows(tables) == [*_OLD, (3, 30), (40, 4), (50, 5), (6, 60)]
    with pytest.raises(AnalysisException, match="ARITY"):
        tables.execute(Insert("t", _frame([(3,)], "id INT")))


def test_insert_overwrite_of_a_partition_keeps_the_others() -> None:
    tables = _with(schema="total INT, day INT", partitions=("day",))
    tables.execute(
        Insert("t", _frame([(7,)], "x INT"), overwrites=True, partition=(("day", _expression("20")),))
    )
    assert _rows(tables) == [(1, 10), (7, 20)]
    tables.execute(Insert("t", _frame([(8, 1)]), overwrites=True))
    assert _rows(tables) == [(8, 1)]


def test_tables_are_created_dropped_and_found_by_name_and_path() -> None:
    tables = Tables()
    schema = parse_schema(_SCHEMA)
    tables.execute(CreateTable("default.Sales", schema, "delta", location="/data/sales"))
    tables.execute(CreateTable("sales", schema, if_exists=IfExists.KEEP))
    for name in (
        "sales",
        "spark_catalog.default.sales",
        "`Sales`",
        "delta.`/data/sales`",
        "delta./data/sales",
        "/data/sales/",
    ):
        assert tables.exists(name), name
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        tables.execute(CreateTable("sales", schema))
    tables.execute(CreateTable("sales", source=_frame(_OLD), if_exists=IfExists.REPLACE))
    assert _rows(tables, "sales") == _OLD
    tables.execute(DropTable("sales"))
    assert not tables.exists("sales")
    with pytest.raises(UnknownTableError, match="NOT_FOUND"):
        tables.read("sales")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        tables.execute(DropTable("sales"))


def test_columns_that_differ_by_case_only_are_two_where_the_session_tells_cases_apart() -> None:
    tables = Tables()
    with settings_in_force({CASES: "true"}):
        for row in ((1, 2), (3, 4)):
            tables.write(_frame([row], "id INT, ID INT"), WriteRequest("t", "parquet", SaveMode.APPEND))
        tables.write(_frame([(5, 6)], "ID INT, id INT"), WriteRequest("t", "parquet", SaveMode.APPEND))
        assert _rows(tables) == [(1, 2), (3, 4), (6, 5)]
        with pytest.raises(CannotFollowError, match=r"differ by case only \(id, ID\)"):
            tables.write(_frame([(1, 2)], "id INT, ID INT"), WriteRequest("d", "delta", SaveMode.APPEND))


def test_merge_of_columns_that_differ_by_case_only_is_refused_where_the_session_tells_cases_apart() -> None:
    merge = Merge("t", _frame(_NEW, "ID INT, total INT"), _expression("t.id = s.ID"), (_ALL,), "t", "s")
    with settings_in_force({CASES: "true"}), pytest.raises(CannotFollowError, match="differ by case only"):
        _with().execute(merge)
    tables = _with()
    tables.execute(merge)
    assert _rows(tables) == [(1, 10), (2, 5)]


_ALL = _clause(Match.MATCHED, MergeAction.UPDATE)
