"""What `spark.sql` is given becomes a relation, a statement or a setting; what is not understood is refused, or stays text."""

from itertools import count

import pyspark.sql.connect.proto as pb
import pytest
from pyspark.errors import ParseException
from pyspark.sql import types as t

from headrace_sim.spark.columns.recorded import Recorded, shown
from headrace_sim.spark.plan.selects import Queries
from headrace_sim.spark.plan.sql import Meaning, NoChange, ServerQuery, SetCommand, SqlText
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.tables.statements import (
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
    Truncate,
    Update,
)


def meaning_of(text: str, *positional: object, **named: object) -> Meaning:
    queries = Queries(lambda _name: None, lambda _relation: ["id", "name"], count(1).__next__)
    return SqlText(text, "job.py:1", named, positional).meaning(queries, pb.Relation)


def _shown(node: object) -> str:
    assert isinstance(node, Recorded)
    return shown(node)


def test_merge_keeps_its_clauses_in_order() -> None:
    merge = meaning_of(
        "MERGE INTO delta.`/data/t` AS t USING (SELECT * FROM s WHERE id > 1) u ON t.id = u.id "
        "WHEN MATCHED AND u.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (u.id, u.a + 1) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.a = 0"
    )
    assert isinstance(merge, Merge)
    assert (merge.table, merge.alias, merge.source_alias, merge.evolves) == ("delta./data/t", "t", "u", False)
    assert _shown(merge.condition) == "(t.id = u.id)"
    assert isinstance(merge.source, pb.Relation)
    assert merge.source.WhichOneof("rel_type") == "subquery_alias"
    clauses = [(clause.match, clause.act, clause.assignments is None) for clause in merge.clauses]
    assert clauses == [
        (Match.MATCHED, MergeAction.DELETE, True),
        (Match.MATCHED, MergeAction.UPDATE, True),
        (Match.NOT_MATCHED, MergeAction.INSERT, False),
        (Match.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, False),
    ]
    assert _shown(merge.clauses[0].condition) == "(u.op = d)"
    assert [(one.column, _shown(one.value)) for one in merge.clauses[2].assignments or ()] == [
        ("id", "u.id"),
        ("a", "(u.a + 1)"),
    ]


def test_merge_says_whether_its_schema_evolves_and_where_its_columns_come_from() -> None:
    merge = meaning_of(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert isinstance(merge, Merge)
    assert (merge.evolves, merge.alias, merge.source_alias) == (True, "", "s")
    assert merge.clauses[0].assignments is None


def test_inserts_say_what_they_replace() -> None:
    found = meaning_of("INSERT OVERWRITE TABLE t PARTITION (day = '1', hour) SELECT a FROM v")
    assert isinstance(found, Insert)
    assert (found.table, found.overwrites, [name for name, _ in found.partition]) == (
        "t",
        True,
        ["day", "hour"],
    )
    assert found.partition[1][1] is None
    found = meaning_of("INSERT INTO t (a, b) VALUES (1, 2)")
    assert isinstance(found, Insert)
    assert (found.columns, found.overwrites) == (("a", "b"), False)
    found = meaning_of("INSERT INTO t REPLACE WHERE day = '1' SELECT * FROM v")
    assert isinstance(found, Insert)
    assert found.overwrites
    assert _shown(found.where) == "(day = 1)"
    found = meaning_of("INSERT INTO t BY NAME SELECT a FROM v")
    assert isinstance(found, Insert)
    assert found.by_name


def test_other_changes_of_tables_are_values() -> None:
    found = meaning_of("DELETE FROM t AS x WHERE x.a = :a", a=1)
    assert isinstance(found, Delete)
    assert (found.table, found.alias, _shown(found.condition)) == ("t", "x", "(x.a = 1)")
    found = meaning_of("UPDATE t SET a = ?, b = a + 1 WHERE c", "x")
    assert isinstance(found, Update)
    assert [(one.column, one.value.name) for one in found.assignments] == [("a", "lit"), ("b", "plus")]
    assert meaning_of("TRUNCATE TABLE db.t") == Truncate("db.t")
    assert meaning_of("DROP TABLE IF EXISTS t") == DropTable("t", may_lack=True)
    assert meaning_of("DROP VIEW v") == DropView("v")
    for text in (
        "CREATE DATABASE IF NOT EXISTS d",
        "CREATE NAMESPACE c.d",
        "create catalog c",
    ):
        assert meaning_of(text) == NoChange()
    schema = t.StructType().add("a", t.IntegerType(), False, {"comment": "key"}).add("day", t.StringType())
    text = (
        "CREATE TABLE IF NOT EXISTS t (a INT NOT NULL COMMENT 'key', day STRING) USING delta PARTITIONED BY (day, bucket(16, a)) "
        "LOCATION '/x' TBLPROPERTIES ('a' = 'b')"
    )
    assert meaning_of(text) == CreateTable("t", schema, "delta", ("day",), IfExists.KEEP, None, "/x")
    serde = "ROW FORMAT SERDE 'p.Serde' STORED AS INPUTFORMAT 'p.In' OUTPUTFORMAT 'p.Out'"
    for text, provider in ((serde, "hive"), ("STORED AS PARQUET", "parquet"), ("USING delta", "delta")):
        found = meaning_of(f"CREATE EXTERNAL TABLE t (a INT) {text} LOCATION '/x'")
        assert isinstance(found, CreateTable)
        assert (found.provider, found.location) == (provider, "/x")
    with pytest.raises(ParseException, match="at or near 'ICEBERG'"):
        meaning_of("CREATE TABLE t (a INT) STORED BY ICEBERG")
    found = meaning_of("CREATE OR REPLACE TABLE t USING iceberg AS SELECT id FROM s")
    assert isinstance(found, CreateTable)
    assert (found.if_exists, found.schema, found.source is None) == (IfExists.REPLACE, None, False)
    found = meaning_of("CREATE OR REPLACE TEMP VIEW v AS SELECT id FROM s")
    assert isinstance(found, CreateView)
    assert (found.view, found.if_exists) == ("v", IfExists.REPLACE)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("OPTIMIZE t ZORDER BY (a)", "no query and no change of tables"),
        ("ALTER TABLE t ADD COLUMNS (x INT)", "no query and no change of tables"),
        ("SHOW TABLES", "no query and no change of tables"),
        ("USE db", "no query and no change of tables"),
        ("CREATE VIEW v AS SELECT 1", "at CREATE VIEW"),
        ("CREATE GLOBAL TEMP VIEW v AS SELECT 1", "at CREATE VIEW"),
        ("CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY)", "GENERATED"),
        ("CREATE TABLE t (a INT) CLUSTER BY (a)", "CLUSTER BY"),
        ("DELETE FROM t WHERE a IN (SELECT a FROM s)", "at 'a IN (SELECT a FROM s)'"),
        ("UPDATE t SET a = div(1, :b)", "the parameter :b has no value"),
        ("INSERT INTO t SELECT a FROM v LIMIT 1 + 1", "LIMIT"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING *", "RETURNING"),
        ("DELETE FROM t; DELETE FROM u", "several statements"),
    ],
)
def test_statement_that_is_not_simulated_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(CannotFollowError) as caught:
        meaning_of(text)
    assert told in str(caught.value)
    assert str(caught.value).startswith("job.py:1: cannot follow spark.sql(")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t WHERE id IN (SELECT id FROM u)",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT * FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN ('x', 'y'))",
        "SELECT sum(b) OVER w FROM t WINDOW w AS (PARTITION BY a)",
        "SELECT name FROM t GROUP BY id",
        "SELECT id, * EXCEPT (id) FROM t",
        "SELECT * FROM t NATURAL JOIN u",
        "SELECT a FROM t DISTRIBUTE BY a",
    ],
)
def test_query_that_is_not_understood_wholly_stays_text(text: str) -> None:
    found = meaning_of(text)
    assert isinstance(found, ServerQuery)
    assert found.problem


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("SET spark.sql.shuffle.partitions = 2", "spark.sql.shuffle.partitions", "2"),
        ("set spark.sql.session.timeZone=Europe/Zurich;", "spark.sql.session.timeZone", "Europe/Zurich"),
        ("SET a.b = 'x  y' ", "a.b", "'x  y'"),
        ("SET a.b=`x y`", "a.b", "x y"),
        ("SET a.b=", "a.b", ""),
        ("SET TIME ZONE 'Asia/Tokyo'", "spark.sql.session.timeZone", "Asia/Tokyo"),
    ],
)
def test_setting_has_what_is_written_with_its_quotes(text: str, key: str, value: str) -> None:
    assert meaning_of(text) == SetCommand(key, value)
