"""Sinks that use what public jobs use of sessions, columns and catalogs: each mistake is found, and its fixed twin holds."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace_properties.spark_jobs.named_targets import spark_target

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

SCHEMA = "n INT, items ARRAY<INT>"
FEED = [[(1, [1, 2]), (None, [])]]


def _appended(df: Any, _batch_id: int) -> None:
    df.write.format("delta").mode("append").saveAsTable("t")


def _appended_once(df: Any, batch_id: int) -> None:
    writer = df.write.format("delta").mode("append").option("txnAppId", "job").option("txnVersion", batch_id)
    writer.saveAsTable("t")


Save = Callable[[Any, int], None]


def _functions_of_items(save: Save) -> Any:
    def sink(df: Any, batch_id: int) -> None:
        save(df.select("n", F.transform("items", lambda item: item * 2).alias("items")).na.fill(0), batch_id)

    return sink


def _columns_that_one_side_lacks(save: Save) -> Any:
    def sink(df: Any, batch_id: int) -> None:
        marks = df.sparkSession.createDataFrame([(batch_id, "end")], "n INT, mark STRING")
        save(df.unionByName(marks, allowMissingColumns=True), batch_id)

    return sink


def _table_that_may_be_there(save: Save) -> Any:
    def sink(df: Any, batch_id: int) -> None:
        df.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", "sinks")
        known = df.sparkSession.catalog.tableExists("t")
        save(df.withColumn("first", F.lit(not known or batch_id == 0)), batch_id)

    return sink


def _session_of_its_own(save: Save) -> Any:
    def main() -> None:
        spark = SparkSession.builder.appName("job").getOrCreate()
        stream = spark.readStream.schema(SCHEMA).json("in")
        query = stream.writeStream.foreachBatch(save).option("checkpointLocation", "c").start()
        spark.streams.awaitAnyTermination()
        query.awaitTermination(10)
        assert not query.isActive

    return main


@pytest.mark.parametrize(
    "made", [_functions_of_items, _columns_that_one_side_lacks, _table_that_may_be_there, _session_of_its_own]
)
def test_rows_that_are_written_twice_are_found_and_the_fixed_twin_holds(made: Callable[[Save], Any]) -> None:
    reports = [
        spark_target("job", made(save), schemas=SCHEMA, feed=FEED).verify(overtaken=False)
        for save in (_appended, _appended_once)
    ]
    assert [[finding.kind.title for finding in report.findings] for report in reports] == [
        ["each row exactly once (twice)"],
        [],
    ]
    assert reports[1].unknown == ()
