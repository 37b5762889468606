"""What each streaming sink does with a batch that it is given again: one table, each row with its source.

Spark gives a sink the same batch again if something dies before the batch is in the commit log. A sink that keeps the ids
of its batches skips it. One that does not writes it again, and what that does to a row depends on the connector (`CONNECTORS`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from headrace_sim.spark.tables.connectors import Guarantee, guarantee


class BatchAgain(Enum):
    """What comes of a batch that a streaming sink is given again."""

    SKIPPED = "skipped, because the sink keeps the ids of its batches"
    WRITTEN = "written again, as the connector's append does"
    SHOWN = "shown again, and not kept"
    REFUSED = "none: Spark does not start a query with this sink"


@dataclass(frozen=True, slots=True)
class StreamingSink:
    """A row of the table."""

    formats: tuple[str, ...]  # the names that ``format()`` knows it by. "": none was named
    again: BatchAgain  # what comes of a batch that is given again
    source: str  # where that is documented
    needs: str = ""  # what this rests on, in a sentence, or ""


_GUIDE = "https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#output-sinks"

STREAMING_SINKS = (
    StreamingSink(
        ("", "avro", "csv", "json", "orc", "parquet", "text", "xml"), BatchAgain.SKIPPED, _GUIDE,
        "Readers must go by its log, _spark_metadata, as Spark does: a batch that died may leave files that are not in it. It has"
        " batch ids alone: if the checkpoint is deleted, and it stays, new batches are skipped until their ids pass the last one",
    ),
    StreamingSink(
        ("delta",), BatchAgain.SKIPPED, "https://docs.delta.io/latest/delta-streaming.html#delta-table-as-a-sink",
        "Its log has the query's id, which the checkpoint keeps: a new checkpoint writes everything again",
    ),
    StreamingSink(
        ("iceberg",), BatchAgain.SKIPPED,
        "https://github.com/apache/iceberg/blob/main/spark/v3.5/spark/src/main/java/org/apache/iceberg/spark/source/SparkWrite.java",
        "Its snapshots have the query's id, which the checkpoint keeps: a new checkpoint writes everything again",
    ),
    StreamingSink(
        ("hudi", "org.apache.hudi"), BatchAgain.SKIPPED,
        "https://github.com/apache/hudi/blob/master/hudi-spark-datasource/hudi-spark-common/src/main/scala/org/apache/hudi/"
        "HoodieStreamingSink.scala",
        "Its commits have the id of their batch, since version 0.13: if the checkpoint is deleted, new batches are skipped until"
        " their ids pass the last one, unless hoodie.datasource.write.streaming.checkpoint.identifier changes with it",
    ),
    StreamingSink(
        ("kafka",), BatchAgain.WRITTEN,
        "https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html#writing-data-to-kafka",
    ),
    StreamingSink(
        ("org.elasticsearch.spark.sql", "es", "elasticsearch"), BatchAgain.WRITTEN,
        "https://github.com/elastic/elasticsearch-hadoop/blob/main/spark/sql-30/src/main/scala/org/elasticsearch/spark/sql/streaming/"
        "EsSparkSqlStreamingSink.scala",
        "Its log knows a batch only once all of it is written",
    ),
    StreamingSink(
        ("mongodb",), BatchAgain.WRITTEN,
        "https://github.com/mongodb/mongo-spark/blob/main/src/main/java/com/mongodb/spark/sql/connector/write/MongoStreamingWrite.java",
    ),
    StreamingSink(
        ("org.apache.spark.sql.cassandra", "cassandra"), BatchAgain.WRITTEN,
        "https://github.com/apache/cassandra-spark-connector/blob/trunk/connector/src/main/scala/com/datastax/spark/connector/datasource/"
        "CassandraWriteBuilder.scala",
    ),
    StreamingSink(
        ("bigquery", "com.google.cloud.spark.bigquery"), BatchAgain.WRITTEN,
        "https://github.com/GoogleCloudDataproc/spark-bigquery-connector",
        "It knows the ids of batches in memory only",
    ),
    StreamingSink(
        ("cosmos.oltp",), BatchAgain.WRITTEN,
        "https://github.com/Azure/azure-sdk-for-java/blob/main/sdk/cosmos/azure-cosmos-spark_3/docs/configuration-reference.md",
    ),
    StreamingSink(("console", "memory"), BatchAgain.SHOWN, _GUIDE),
    StreamingSink(
        ("noop",), BatchAgain.SHOWN,
        "https://spark.apache.org/docs/latest/api/python/reference/pyspark.ss/api/pyspark.sql.streaming.DataStreamWriter.format.html",
    ),
    StreamingSink(
        ("jdbc",), BatchAgain.REFUSED,
        "https://github.com/apache/spark/blob/master/sql/core/src/main/scala/org/apache/spark/sql/execution/datasources/DataSource.scala",
        "Data source jdbc does not support streamed writing",
    ),
)  # fmt: skip
"""Each says what its source says; no row: unknown."""


def streaming_sink(format_: str) -> StreamingSink | None:
    """Return the row of a format; None: it is not known."""
    return next((row for row in STREAMING_SINKS if format_.lower() in row.formats), None)


def written_again(format_: str, options: Collection[tuple[str, str]], columns: Collection[str]) -> Guarantee:
    """Return what a row becomes that a sink which skips no batch is given again.

    ``format_``: the sink's. ``options``: its options.
    """
    named = {name.lower(): value for name, value in options}
    return guarantee(format_.lower(), "append", named, {name.lower() for name in columns}, None)
