"""Tables of Iceberg, where its jar is installed: an append is doubled, a merge by key is not."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark import __version__

from headrace_properties.sinks.story import Wrong
from headrace_sim.spark.laboratory.jvm import SparkJvm, running
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.laboratory.test_real_drivers import tried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PROGRAM = """
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", "s3a://lake/warehouse")
    .getOrCreate()
)
spark.sql("CREATE TABLE IF NOT EXISTS lake.db.ledger (id BIGINT, amount BIGINT) USING iceberg")
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")

def write(df, batch_id):
    WRITE

payments.writeStream.foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""
APPEND = 'df.writeTo("lake.db.ledger").append()'
MERGE = """
    df.createOrReplaceTempView("payments")
    df.sparkSession.sql("MERGE INTO lake.db.ledger t USING payments p ON t.id = p.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
"""


@pytest.fixture(scope="module")
def iceberg() -> Iterator[SparkJvm]:
    """Run a Spark with Iceberg's jar, of a package whose version 1.0.2 has all of it."""
    package = find_spec("snowpark_connect_deps_iceberg")
    if package is None or not package.submodule_search_locations or not __version__.startswith("3.5"):
        pytest.skip("needs PySpark 3.5 and pip install snowpark-connect-deps-iceberg==1.0.2")
    (jar,) = Path(package.submodule_search_locations[0]).glob("jars/iceberg-spark-runtime-*_2.12-*.jar")
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    with running({"spark.jars": str(jar), "spark.sql.extensions": extensions}) as jvm:
        yield jvm


@pytest.mark.parametrize(("write", "is_doubled"), [(APPEND, True), (MERGE, False)])
def test_a_batch_that_is_written_again_to_a_table_of_iceberg(
    iceberg: SparkJvm, tmp_path: Path, write: str, is_doubled: bool
) -> None:
    program = PROGRAM.replace("WRITE", write)
    rows = [[(1, 10)], [(2, 20)]]
    trial = tried(iceberg, tmp_path, program, SinkFault(SinkFaultKind.KILL, 0, 1), rows)
    wrong = [(found.wrong, found.destination) for found in trial.findings]
    assert wrong == ([(Wrong.TWICE, "s3a://lake/warehouse/db/ledger")] if is_doubled else [])
    assert trial.left["s3a://lake/warehouse/db/ledger"].total() == (3 if is_doubled else 2)
