"""A write that a trial cannot have for itself is refused by name, unless its owner lets it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace_sim.spark.laboratory.jvm import SparkJvm, running
from headrace_sim.spark.laboratory.outside_writes import OutsideWriteError, OutsideWrites
from headrace_sim.spark.sinks.processes import LetThrough
from headrace_sim.spark.sinks.sink_runs import UnfollowableSinkError, undisturbed
from tests.sim.spark.laboratory.test_real_drivers import sink_of

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.shop": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.shop.type": "rest",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
DERBY = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("payments").getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")

def write(df, batch_id):
    df.write.mode("append").jdbc("jdbc:derby:DATABASE;create=true", "payments")

payments.writeStream.foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""


@pytest.mark.parametrize(
    ("told", "table", "refused"),
    [
        ({}, "payments", ""),
        ({"format": "PARQUET"}, "", ""),
        ({"format": "delta"}, "lake.db.payments", ""),
        ({"format": "ledger"}, "", ""),  # of the program
        ({"format": "mongodb"}, "", "mongodb"),
        ({"format": "kafka", "topic": "payments"}, "", "kafka"),
        ({"format": "jdbc", "url": "jdbc:mysql://db/shop?password=secret"}, "", "jdbc:mysql://db/shop"),
        ({"url": "jdbc:postgresql://db/shop"}, "payments", ""),
        ({}, "shop.db.payments", "shop.db.payments of the catalog shop"),
        ({}, "`shop`.db.payments", "shop"),
    ],
)
def test_what_no_trial_can_have_for_itself_is_told_by_name(
    told: dict[str, str], table: str, refused: str
) -> None:
    catalog = SimpleNamespace(currentCatalog=lambda: "spark_catalog")
    spark: Any = SimpleNamespace(conf=SETTINGS, catalog=catalog)
    probe: Any = SimpleNamespace(ledger=[])
    outside = OutsideWrites(probe, spark, False, True, {"ledger"})
    if not refused:
        outside.refuse(told, table)
        return
    with pytest.raises(OutsideWriteError, match=rf"writes to .?{refused}.*: --allow-writes lets it"):
        outside.refuse(told, table)
    assert len(probe.ledger) == 1
    OutsideWrites(probe, spark, True, True).refuse(told, table)


def test_a_database_of_its_name_is_not_written(jvm: SparkJvm, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    program = DERBY.replace("DATABASE", str(theirs))
    with pytest.raises(UnfollowableSinkError, match=r"writes to jdbc:derby:.*theirs.*--allow-writes lets it"):
        undisturbed(sink_of(jvm, tmp_path, program, [[(1, 10)]]))
    assert not theirs.exists()


@pytest.mark.nightly
def test_a_database_of_its_name_is_written_if_that_is_let(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    with running({}, frozenset({LetThrough.WRITES})) as jvm:
        sink = sink_of(jvm, tmp_path, DERBY.replace("DATABASE", str(theirs)), [[(1, 10)]])
        undisturbed(sink)
    assert theirs.exists()
