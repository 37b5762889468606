"""``delta.tables`` without Delta Lake does to the session's tables what Delta documents."""

# mypy: disable-error-code="import-not-found,import-untyped"
# ruff: noqa: PLC0415  Delta's package is there only while a session is in force

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.refusals import CannotFollowError

_SCHEMA = "id INT, total INT"


@pytest.fixture
def spark() -> Iterator[Any]:
    with connected(ClientSession()) as session:
        session.createDataFrame([(1, 10), (2, 20)], _SCHEMA).write.format("delta").saveAsTable("t")
        yield session


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_merge_takes_columns_and_texts(spark: Any) -> None:
    from delta.tables import DeltaTable

    table = DeltaTable.forName(spark, "default.t").alias("old")
    changes = spark.createDataFrame([(2, 5), (3, -1)], _SCHEMA).alias("new")
    merge = table.merge(changes, F.col("old.id") == F.col("new.id"))
    merge = merge.whenMatchedUpdate("new.total > 0", {"total": F.col("old.total") + F.col("new.total")})
    merge = merge.whenNotMatchedInsert(values={"id": "new.id", "total": F.abs("new.total")})
    counts = merge.whenNotMatchedBySourceDelete(condition="old.total < 10").execute()
    assert _rows(table.toDF().select("old.*")) == [(1, 10), (2, 25), (3, 1)]
    assert _rows(counts) == [(2, 1, 0, 1)]


def test_rows_are_updated_and_deleted_where_a_condition_holds(spark: Any) -> None:
    from delta import DeltaTable

    table = DeltaTable.forName(spark, "t")
    table.update("id = 1", {"total": F.col("total") + 1})
    table.update(set={"id": "id + 1"})
    table.delete(F.col("total") > 11)
    assert _rows(spark.table("t")) == [(2, 11)]
    table.vacuum()
    table.optimize().where("id = 1").executeCompaction()
    assert _rows(table.toDF()) == [(2, 11)]


def test_table_is_built_once_and_found_by_its_path(spark: Any) -> None:
    from delta.tables import DeltaTable

    def build(builder: Any) -> Any:
        return (
            builder.location("/lake/t")
            .addColumn("id", "INT")
            .addColumn("at", "TIMESTAMP", nullable=False)
            .execute()
        )

    assert not DeltaTable.isDeltaTable(spark, "/lake/t")
    build(DeltaTable.createIfNotExists(spark))
    assert DeltaTable.isDeltaTable(spark, "/lake/t/")
    assert build(DeltaTable.createIfNotExists(spark)).toDF().columns == ["id", "at"]
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        build(DeltaTable.create(spark))
    assert DeltaTable.forPath(spark, "/lake/t").toDF().isStreaming is False


def test_rest_of_delta_is_refused_with_the_line(spark: Any) -> None:
    from delta.tables import DeltaTable

    for refused in (
        lambda: DeltaTable.forName(spark, "t").restoreToVersion(0),
        lambda: DeltaTable.create(spark).addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)"),
        lambda: spark.read.format("delta").option("versionAsOf", 0).table("t"),
    ):
        with pytest.raises(CannotFollowError, match=r"test_delta_tables.py"):
            refused()  # type: ignore[no-untyped-call]


def test_session_is_configured_and_errors_can_be_named(spark: Any) -> None:
    from delta import configure_spark_with_delta_pip
    from delta.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException

    builder = SparkSession.builder.appName("job").config("spark.sql.sources.default", "delta")
    assert configure_spark_with_delta_pip(builder).getOrCreate() is spark
    assert issubclass(ConcurrentAppendException, DeltaConcurrentModificationException)


def test_module_of_the_user_stays_and_ours_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(ClientSession()):
        import delta.tables
    assert "delta" not in sys.modules
    (tmp_path / "delta.py").write_text("river = 'Danube'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with connected(ClientSession()):
        import delta

        assert delta.river == "Danube"
    del sys.modules["delta"]
