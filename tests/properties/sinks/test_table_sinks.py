"""Sinks that merge into tables or read what they wrote: what goes wrong is found, and the sound twin is left alone."""

# mypy: disable-error-code="import-not-found,import-untyped"
# ruff: noqa: PLC0415, S608  a sink imports Delta's package where it is called, since it is there only then

from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace_properties.sinks import SinkFailsError, UnfollowableSinkError, Wrong, check_sink
from tests.sim.spark.apart import call

_SCHEMA = "id STRING, amount INT"
_BATCHES = [[("a", 1), ("b", 2)], [("b", 3), ("c", 4)]]


def _of(spark: Any, name: str = "totals") -> Any:
    from delta.tables import DeltaTable

    return DeltaTable.forName(spark, name).alias("t")


def _sums(df: Any) -> Any:
    return df.groupBy("id").agg(F.sum("amount").cast("int").alias("amount")).alias("s")


def _adds_to_what_is_there(df: Any, _batch_id: int) -> None:
    merge = _of(df.sparkSession).merge(_sums(df), "t.id = s.id").whenNotMatchedInsertAll()
    merge.whenMatchedUpdate(set={"amount": F.expr("t.amount + s.amount")}).execute()


def _adds_what_a_later_batch_has(df: Any, batch_id: int) -> None:
    tagged = _sums(df).withColumn("batch", F.lit(batch_id)).alias("s")
    added = {"amount": "t.amount + s.amount", "batch": "s.batch"}
    merge = _of(df.sparkSession).merge(tagged, "t.id = s.id").whenNotMatchedInsertAll()
    merge.whenMatchedUpdate("t.batch < s.batch", added).execute()


def _adds_with_merge_into(df: Any, _batch_id: int) -> None:
    merge = _sums(df).mergeInto("totals", F.expr("totals.id = s.id")).whenNotMatched().insertAll()
    merge.whenMatched().update({"amount": F.expr("totals.amount + s.amount")}).merge()


def _newest(df: Any) -> Any:
    by_key = Window.partitionBy("id").orderBy(F.desc("amount"))
    return df.withColumn("place", F.row_number().over(by_key)).filter("place = 1").drop("place").alias("s")


def _keeps_the_newest(df: Any, _batch_id: int) -> None:
    merge = _of(df.sparkSession).merge(_newest(df), "t.id = s.id").whenNotMatchedInsertAll()
    merge.whenMatchedUpdateAll("s.amount > t.amount").execute()


def _merges_each_row(df: Any, _batch_id: int) -> None:
    merge = _of(df.sparkSession).merge(df.alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    merge.whenMatchedUpdateAll("s.amount > t.amount").execute()


def _inserts_what_is_new(df: Any, _batch_id: int) -> None:
    ids = df.select("id").dropDuplicates().alias("s")
    _of(df.sparkSession).merge(ids, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id"}).execute()


def _appends_what_is_new(df: Any, _batch_id: int) -> None:
    spark = df.sparkSession
    ids = df.select("id").dropDuplicates()
    if spark.catalog.tableExists("totals"):
        known = [row.id for row in spark.table("totals").collect()]
        ids = ids.filter(~F.col("id").isin(known))
    ids.write.format("delta").mode("append").saveAsTable("totals")


def _appends_what_one_plan_finds_new(source: str) -> Any:
    def sink(df: Any, _batch_id: int) -> None:
        known = df.sparkSession.table("new").select("id")
        new = df.select("id").dropDuplicates().join(known, "id", "left_anti")
        new.write.format(source).mode("append").saveAsTable("new")

    return sink


def _skips_a_batch_that_is_there(df: Any, batch_id: int) -> None:
    there = df.sparkSession.table("done").filter(F.col("batch") == batch_id)
    if there.count() == 0:
        df.withColumn("batch", F.lit(batch_id)).write.format("delta").mode("append").saveAsTable("done")


def _overwrites_with_what_is_there(df: Any, _batch_id: int) -> None:
    old = df.sparkSession.read.format("delta").load("totals")
    total = old.unionByName(df).groupBy("id").agg(F.sum("amount").cast("int").alias("amount"))
    total.write.format("delta").mode("overwrite").save("totals")


def _overwrites_with_the_batches_that_are_there(df: Any, batch_id: int) -> None:
    old = df.sparkSession.table("done").filter(F.col("batch") != batch_id)
    whole = old.unionByName(df.withColumn("batch", F.lit(batch_id)))
    whole.write.format("delta").mode("overwrite").saveAsTable("done")


def _closes_and_appends(df: Any, batch_id: int) -> None:
    changes = _newest(df)
    close = _of(df.sparkSession, "versions").merge(changes, "t.id = s.id AND t.current")
    close.whenMatchedUpdate(set={"current": "false"}).execute()
    opened = changes.withColumn("current", F.lit(True))
    opened.write.format("delta").mode("append").saveAsTable("versions")


def _closes_and_opens_in_one_merge(df: Any, batch_id: int) -> None:
    current = df.sparkSession.table("versions").filter("current").select("id", F.col("amount").alias("old"))
    changes = _newest(df).join(current, "id", "left").filter("old IS NULL OR old < amount").drop("old")
    keyed = changes.withColumn("key", F.col("id")).unionByName(
        changes.withColumn("key", F.lit(None).cast("string"))
    )
    merge = _of(df.sparkSession, "versions").merge(keyed.alias("s"), "t.id = s.key AND t.current")
    merge = merge.whenMatchedUpdate("t.amount < s.amount", {"current": "false"})
    opened = {"id": "s.id", "amount": "s.amount", "current": "true"}
    merge.whenNotMatchedInsert("s.key IS NULL", opened).execute()


_MAKING = (
    _adds_to_what_is_there,
    _adds_with_merge_into,
    _adds_what_a_later_batch_has,
    _appends_what_is_new,
    _merges_each_row,
)
"""They find no table, or take it to be empty."""


def _tables() -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.createDataFrame([], "id STRING").write.format("delta").saveAsTable("new")
    for name, schema in (("done", f"{_SCHEMA}, batch INT"), ("versions", f"{_SCHEMA}, current BOOLEAN")):
        spark.createDataFrame([], schema).write.format("delta").saveAsTable(name)
    spark.createDataFrame([("old", 7)], _SCHEMA).write.format("delta").save("totals")


@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        pytest.param(_adds_to_what_is_there, Wrong.DIFFERS, marks=pytest.mark.nightly),
        (_adds_with_merge_into, Wrong.DIFFERS),
        pytest.param(_merges_each_row, Wrong.TWICE, marks=pytest.mark.nightly),
        pytest.param(_appends_what_is_new, Wrong.TWICE, marks=pytest.mark.nightly),
        pytest.param(_skips_a_batch_that_is_there, Wrong.TWICE, marks=pytest.mark.nightly),
        pytest.param(_overwrites_with_what_is_there, Wrong.DIFFERS, marks=pytest.mark.nightly),
        (_closes_and_appends, Wrong.TWICE),
        (_appends_what_one_plan_finds_new("iceberg"), Wrong.TWICE),
    ],
)
def test_merge_or_read_that_a_repeated_batch_changes_is_found(sink: Any, wrong: Wrong) -> None:
    report = call(check_sink, sink, _BATCHES, _SCHEMA, prepare=None if sink in _MAKING else _tables)
    assert {finding.wrong for finding in report.findings} == {wrong}
    assert not report.questions


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param(_adds_what_a_later_batch_has, marks=pytest.mark.nightly),
        _keeps_the_newest,
        pytest.param(_inserts_what_is_new, marks=pytest.mark.nightly),
        pytest.param(_overwrites_with_the_batches_that_are_there, marks=pytest.mark.nightly),
        _closes_and_opens_in_one_merge,
        _appends_what_one_plan_finds_new("delta"),
    ],
)
def test_merge_or_read_that_is_idempotent_holds(sink: Any) -> None:
    report = call(check_sink, sink, _BATCHES, _SCHEMA, prepare=None if sink in _MAKING else _tables)
    assert report.holds, [*report.findings, *report.questions, *report.unknown]


def test_table_that_nothing_made_is_noted_or_asked_for() -> None:
    report = call(check_sink, _keeps_the_newest, _BATCHES, _SCHEMA)
    assert any("totals" in note and "prepare()" in note for note in report.notes)
    with pytest.raises(
        UnfollowableSinkError, match=r"test_table_sinks.py:\d+: .*done, which nothing here has made"
    ):
        call(check_sink, _skips_a_batch_that_is_there, _BATCHES, _SCHEMA)


def test_files_that_are_read_cannot_be_overwritten() -> None:
    def sink(df: Any, batch_id: int) -> None:
        if batch_id:
            df = df.union(df.sparkSession.read.parquet("out"))
        df.write.mode("overwrite").parquet("out")

    with pytest.raises(SinkFailsError, match="UNSUPPORTED_OVERWRITE"):
        call(check_sink, sink, _BATCHES, _SCHEMA)


def test_two_rows_of_a_key_that_is_there_are_refused_and_said_to_be() -> None:
    report = call(check_sink, _merges_each_row, [[("a", 1)], [("a", 2), ("a", 3)]], _SCHEMA)
    assert [finding.wrong for finding in report.findings] == [Wrong.STUCK]
    assert "row_number()" in str(report.findings[0])


def test_view_of_a_batch_is_in_the_session_of_the_batch_alone() -> None:
    from pyspark.sql import SparkSession

    def of_the_batch(df: Any, batch_id: int) -> None:
        df.createOrReplaceTempView("updates")
        new = df.sparkSession.table("updates").withColumn("batch", F.lit(batch_id))
        new.write.format("delta").mode("overwrite").option("replaceWhere", f"batch = {batch_id}").save("out")

    def of_the_driver(df: Any, _batch_id: int) -> None:
        df.createOrReplaceTempView("updates")
        SparkSession.builder.getOrCreate().table("updates").write.format("delta").save("out")

    assert call(check_sink, of_the_batch, _BATCHES, _SCHEMA).holds
    with pytest.raises(SinkFailsError, match=r"df\.sparkSession"):
        call(check_sink, of_the_driver, _BATCHES, _SCHEMA)


def test_merge_in_sql_is_judged_as_that_of_delta_tables() -> None:
    def upsert(df: Any, batch_id: int, values: str) -> None:
        _newest(df).withColumn("batch", F.lit(batch_id)).createOrReplaceTempView("updates")
        df.sparkSession.sql(
            "CREATE TABLE IF NOT EXISTS merged (id STRING, amount INT, batch INT) USING delta"
        )
        df.sparkSession.sql(f"""
            MERGE INTO merged AS t USING (SELECT id, amount, batch FROM updates WHERE amount > 0) AS s ON t.id = s.id
            WHEN MATCHED AND s.batch > t.batch THEN UPDATE SET {values}
            WHEN NOT MATCHED THEN INSERT *
        """)

    def sound(df: Any, batch_id: int) -> None:
        upsert(df, batch_id, "t.amount = t.amount + s.amount, t.batch = s.batch")

    def forgets_the_batch(df: Any, batch_id: int) -> None:
        upsert(df, batch_id, "t.amount = t.amount + s.amount")

    report = call(check_sink, sound, _BATCHES, _SCHEMA)
    assert report.holds, [*report.findings, *report.questions, *report.unknown]
    assert {finding.wrong for finding in call(check_sink, forgets_the_batch, _BATCHES, _SCHEMA).findings} == {
        Wrong.DIFFERS
    }


@pytest.mark.nightly
def test_statements_of_sql_change_what_reads_see() -> None:
    def sink(df: Any, batch_id: int) -> None:
        spark = df.sparkSession
        df.createOrReplaceTempView("batch")
        spark.sql("CREATE TABLE IF NOT EXISTS days (id STRING, amount INT, batch INT) USING delta")
        spark.sql(f"DELETE FROM days WHERE batch = {batch_id}")
        spark.sql(f"INSERT INTO days SELECT id, amount, {batch_id} FROM batch")
        spark.sql("UPDATE days SET amount = 0 WHERE amount < 0")
        assert (
            spark.sql("SELECT count(*) AS n FROM days WHERE batch = :b", args={"b": batch_id}).first().n
            == df.count()
        )

    report = call(check_sink, sink, _BATCHES, _SCHEMA, overtaken=False)
    assert report.holds, [*report.findings, *report.questions, *report.unknown]
