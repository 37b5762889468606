"""What each connector's write does when it is repeated: one table, each row with its source.

A batch is written again whenever its driver died before Spark noted it as done. Whether that makes a second row is a matter of
the connector, the save mode and its options. A connector that is not in the table is unknown: only the author can say.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Repeated(Enum):
    """What a second write of the same row does."""

    ADDS = "adds a second row"
    REPLACES = "replaces the row of the same key"
    KEEPS = "keeps the first row of a key"
    FAILS = "fails, because the key is there"


@dataclass(frozen=True, slots=True)
class Connector:
    """A row of the table."""

    formats: tuple[str, ...]  # the names that ``format()`` knows it by
    repeated: Repeated  # what a write in mode ``append`` does when it is repeated
    source: str  # where that is documented
    remedy: str = ""  # what makes such a write idempotent. "": it is
    # the options that name the key's columns; if none is set, ``default`` does. Without either, the table has the key
    keys: tuple[str, ...] = ()
    # the key's columns, if the options do not name them. The row applies only if the rows have these columns
    default: tuple[str, ...] = ()
    # values of options, in lower case, with which the row applies; None among them: not set
    needs: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    # columns, in lower case, with which the row does not apply: they change what is done with a row
    lacks: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("append",)  # save modes, instead of ``append``
    newest: tuple[str, ...] = ()  # the option that names the columns whose greatest values win
    within: tuple[str, ...] = ()  # the options that name further columns of the key, if they are set

    def key_columns(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the columns that make the key, as far as the options tell."""
        named = next((str(options[name]) for name in self.keys if options.get(name)), ",".join(self.default))
        more = ",".join(str(options[name]) for name in self.within if options.get(name) and named)
        return tuple(name.strip() for name in f"{named},{more}".split(",") if name.strip())

    def applies(self, mode: str, options: Mapping[str, Any], columns: Collection[str]) -> bool:
        """Return whether the row is about a write in this mode, with these options, of rows with these columns."""
        keys = self.key_columns(options)
        by_table = not (self.keys or self.default)
        has_keys = by_table or (bool(keys) and {name.lower() for name in keys} <= set(columns))
        values = {
            name: None if options.get(name) is None else str(options[name]).lower() for name in self.needs
        }
        if mode not in self.modes or not has_keys or any(name in columns for name in self.lacks):
            return False
        return all(values[name] in self.needs[name] for name in values)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is known of a write."""

    repeated: Repeated = Repeated.ADDS  # what it does when it is repeated
    # the columns of the key; none: of the whole row, if the key is known to the table alone
    keys: tuple[str, ...] = ()
    newest: str = ""  # the columns whose greatest values win, with commas, or ""
    question: str = ""  # what only the author can say, or ""
    remedy: str = ""  # what makes it idempotent


def guarantee(
    source: str,
    mode: str,
    options: Mapping[str, Any],
    columns: Collection[str],
    declared: Collection[str] | None,
) -> Guarantee:
    """Return what a write does when it is repeated.

    ``source``: the connector, as ``format()`` names it, in lower case. ``mode``: ``append``, ``overwrite``, ``ignore`` or
    ``error``. ``options``: its options, with names in lower case. ``columns``: of the rows, in lower case. ``declared``: the
    table's key, as its author says: none in it: it appends. None: nothing was said.
    """
    if declared is not None:
        remedy = "Give the connector a key that identifies a row, and declare it: --keys table=column"
        return Guarantee(Repeated.REPLACES if declared else Repeated.ADDS, tuple(declared), remedy=remedy)
    of_format = [row for row in CONNECTORS if source in row.formats]
    row = next((row for row in of_format if row.applies(mode, options, columns)), None)
    if row is None:
        question = f"is a second write of the same row a second row? What {source} does is not known"
        remedy = next((row.remedy for row in of_format if row.remedy), _STAGED)
        return Guarantee(question="" if of_format and mode != "append" else question, remedy=remedy)
    if row.repeated is Repeated.ADDS:
        return Guarantee(remedy=row.remedy)
    keys = row.key_columns(options)
    question = f"which columns are its key? {source} writes by the key, which the table alone knows"
    newest = next((str(options[name]) for name in row.newest if options.get(name)), "")
    known = tuple(name.lower() for name in keys)
    return Guarantee(row.repeated, known, newest.lower(), "" if keys else question, _VERSIONS)


_VERSIONS = "Write only the newest row of each key, chosen by a column of the row, and none that is older than what is there."
_STAGED = "Write the batch to a staging table that is named by the batch id, and merge it by a key in one transaction."
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""The formats of Spark's own files."""
_FILES = 'Overwrite the partition of the batch id: mode("overwrite"), partitionOverwriteMode "dynamic", partitionBy the id.'
_HUDI_UPSERT = {
    "hoodie.datasource.write.operation": (None, "upsert"),
    "hoodie.datasource.write.payload.class": (None,),
    "hoodie.datasource.insert.dup.policy": (None, "none"),
}
_MONGO_3 = {
    "shardkey": (None,),
    "spark.mongodb.output.shardkey": (None,),
    "spark.mongodb.output.forceinsert": (None,),
}
_ALONE = {"preactions": (None,), "postactions": (None,)}


def _of_search(name: str, formats: tuple[str, ...], source: str) -> tuple[Connector, ...]:
    """Return the rows of Elasticsearch, or of OpenSearch: their options differ in what they begin with."""
    key, does = f"{name}.mapping.id", f"{name}.write.operation"
    unscripted = {f"{name}.update.script{kind}": (None,) for kind in ("", ".file", ".inline", ".stored")}
    remedy = f"Name the column that identifies a row: option {key}; else each write gets an id of its own."
    return (
        Connector(formats, Repeated.FAILS, source, keys=(key,), needs={does: ("create",)}),
        Connector(
            formats, Repeated.REPLACES, source, keys=(key,), needs={does: (None, "index", "update", "upsert"), **unscripted},
        ),
        Connector(formats, Repeated.ADDS, source, remedy, needs={key: (None,), does: (None, "index", "create")}),
    )  # fmt: skip


CONNECTORS = (
    Connector(
        ("avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"), Repeated.ADDS,
        "https://spark.apache.org/docs/latest/sql-data-sources-load-save-functions.html#save-modes", _FILES,
    ),
    Connector(
        ("delta",), Repeated.ADDS,
        "https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch",
        "Let Delta skip a batch that it has: options txnAppId and txnVersion, the batch id; or overwrite with replaceWhere.",
    ),
    Connector(
        ("iceberg",), Repeated.ADDS, "https://iceberg.apache.org/docs/latest/spark-writes/",
        "Merge by a key (MERGE INTO), or overwrite the partition of the batch id: writeTo(table).overwritePartitions().",
    ),
    Connector(
        ("hudi", "org.apache.hudi"), Repeated.KEEPS, "https://hudi.apache.org/docs/configurations",
        keys=("hoodie.datasource.write.recordkey.field",), within=("hoodie.datasource.write.partitionpath.field",),
        needs={
            "hoodie.datasource.write.operation": (None, "insert", "upsert"),
            "hoodie.datasource.write.insert.drop.duplicates": ("true",),
        },
    ),
    Connector(
        ("hudi", "org.apache.hudi"), Repeated.ADDS, "https://hudi.apache.org/docs/write_operations",
        "Write with the operation upsert, the default, and name the record key: hoodie.datasource.write.recordkey.field.",
        needs={
            "hoodie.datasource.write.operation": ("insert", "bulk_insert"),
            "hoodie.datasource.write.insert.drop.duplicates": (None, "false"),
            "hoodie.datasource.insert.dup.policy": (None, "none"),
        },
    ),
    Connector(
        ("hudi", "org.apache.hudi"), Repeated.REPLACES, "https://hudi.apache.org/docs/record_merger",
        keys=("hoodie.datasource.write.recordkey.field",), within=("hoodie.datasource.write.partitionpath.field",),
        needs={**_HUDI_UPSERT, "hoodie.write.record.merge.mode": (None, "event_time_ordering")},
        newest=("hoodie.table.ordering.fields", "hoodie.datasource.write.precombine.field"),
    ),
    Connector(
        ("hudi", "org.apache.hudi"), Repeated.REPLACES, "https://hudi.apache.org/docs/record_merger",
        keys=("hoodie.datasource.write.recordkey.field",), within=("hoodie.datasource.write.partitionpath.field",),
        needs={**_HUDI_UPSERT, "hoodie.write.record.merge.mode": ("commit_time_ordering",)},
    ),
    Connector(
        ("jdbc",), Repeated.ADDS, "https://spark.apache.org/docs/latest/sql-data-sources-jdbc.html",
        "JDBC's append has no key: write the batch to a staging table, and merge it with the batch id in one transaction.",
    ),
    Connector(
        ("com.microsoft.sqlserver.jdbc.spark", "mssql"), Repeated.ADDS,
        "https://github.com/microsoft/sql-spark-connector#supported-options",
        "NO_DUPLICATES covers executors, not a batch that runs again: merge from a staging table with the batch id.",
    ),
    Connector(
        ("kafka",), Repeated.ADDS,
        "https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html#writing-data-to-kafka",
        "Kafka takes each record again: send an id with each one (key or header), and let readers drop what they have seen.",
    ),
    Connector(
        ("eventhubs",), Repeated.ADDS,
        "https://github.com/Azure/azure-event-hubs-spark/blob/master/docs/PySpark/structured-streaming-pyspark.md",
        "The stream takes each record again: send an id with each one, and let readers drop what they have seen.",
    ),
    Connector(
        ("org.apache.spark.sql.cassandra", "cassandra"), Repeated.REPLACES,
        "https://github.com/apache/cassandra-spark-connector/blob/trunk/doc/14_data_frames.md",
    ),
    *_of_search(
        "es", ("org.elasticsearch.spark.sql", "es", "elasticsearch"),
        "https://www.elastic.co/docs/reference/elasticsearch-hadoop/configuration",
    ),
    *_of_search(
        "opensearch", ("org.opensearch.spark.sql", "opensearch"),
        "https://github.com/opensearch-project/opensearch-hadoop/blob/main/USER_GUIDE.md",
    ),
    Connector(
        ("mongodb",), Repeated.REPLACES,
        "https://www.mongodb.com/docs/spark-connector/current/batch-mode/batch-write-config/",
        keys=("idfieldlist", "spark.mongodb.write.idfieldlist"), default=("_id",),
        needs={"operationtype": (None, "replace", "update")},
    ),
    Connector(
        ("mongodb",), Repeated.KEEPS,
        "https://www.mongodb.com/docs/spark-connector/current/batch-mode/batch-write-config/",
        default=("_id",), needs={"operationtype": ("insert",), "ignoreduplicatesoninsert": ("true",), "ordered": ("false",)},
    ),
    Connector(
        ("mongodb",), Repeated.FAILS,
        "https://www.mongodb.com/docs/spark-connector/current/batch-mode/batch-write-config/",
        default=("_id",), needs={"operationtype": ("insert",)},
    ),
    Connector(
        ("mongodb",), Repeated.ADDS,
        "https://www.mongodb.com/docs/spark-connector/current/batch-mode/batch-write-config/",
        "Name the columns that identify a row: idFieldList, with operationType replace; else rows get a new _id each time.",
    ),
    Connector(
        ("mongo", "com.mongodb.spark.sql", "com.mongodb.spark.sql.defaultsource"), Repeated.REPLACES,
        "https://github.com/mongodb/mongo-spark/blob/r3.0.2/src/main/scala/com/mongodb/spark/MongoSpark.scala", default=("_id",),
        needs={"forceinsert": (None, "false"), **_MONGO_3},
    ),
    Connector(
        ("mongo", "com.mongodb.spark.sql", "com.mongodb.spark.sql.defaultsource"), Repeated.FAILS,
        "https://github.com/mongodb/mongo-spark/blob/r3.0.2/src/main/scala/com/mongodb/spark/MongoSpark.scala", default=("_id",),
        needs={"forceinsert": ("true",), **_MONGO_3},
    ),
    Connector(
        ("mongo", "com.mongodb.spark.sql", "com.mongodb.spark.sql.defaultsource"), Repeated.ADDS,
        "https://github.com/mongodb/mongo-spark/blob/r3.0.2/src/main/scala/com/mongodb/spark/MongoSpark.scala",
        "Give each row an _id made of its own columns: rows without one get a new one each time.",
        needs=_MONGO_3, lacks=("_id",),
    ),
    Connector(
        ("org.apache.spark.sql.redis", "redis"), Repeated.REPLACES,
        "https://github.com/RedisLabs/spark-redis/blob/master/doc/dataframe.md", keys=("key.column",),
    ),
    Connector(
        ("org.apache.spark.sql.redis", "redis"), Repeated.ADDS,
        "https://github.com/RedisLabs/spark-redis/blob/master/doc/dataframe.md",
        "Name the column that identifies a row: option key.column; else each row gets a UUID each time.",
    ),
    Connector(
        ("net.snowflake.spark.snowflake", "snowflake"), Repeated.ADDS,
        "https://docs.snowflake.com/en/user-guide/spark-connector-use", _STAGED, needs=_ALONE,
    ),
    Connector(
        ("bigquery", "com.google.cloud.spark.bigquery"), Repeated.ADDS,
        "https://github.com/GoogleCloudDataproc/spark-bigquery-connector", _STAGED, lacks=("_change_type",),
    ),
    Connector(
        ("io.github.spark_redshift_community.spark.redshift", "com.databricks.spark.redshift", "redshift"), Repeated.ADDS,
        "https://github.com/spark-redshift-community/spark-redshift", _STAGED, needs=_ALONE,
    ),
    Connector(
        ("cosmos.oltp",), Repeated.KEEPS,
        "https://github.com/Azure/azure-sdk-for-java/blob/main/sdk/cosmos/azure-cosmos-spark_3/docs/configuration-reference.md",
        needs={"spark.cosmos.write.strategy": ("itemappend",)}, lacks=("operationtype",),
    ),
    Connector(
        ("cosmos.oltp",), Repeated.REPLACES,
        "https://github.com/Azure/azure-sdk-for-java/blob/main/sdk/cosmos/azure-cosmos-spark_3/docs/configuration-reference.md",
        needs={"spark.cosmos.write.strategy": (None, "itemoverwrite")}, lacks=("operationtype",),
    ),
    Connector(
        ("org.neo4j.spark.datasource", "neo4j"), Repeated.REPLACES, "https://neo4j.com/docs/spark/current/write/labels/",
        keys=("node.keys",), modes=("overwrite",),
    ),
    Connector(
        ("org.neo4j.spark.datasource", "neo4j"), Repeated.ADDS, "https://neo4j.com/docs/spark/current/write/labels/",
        'Let Neo4j MERGE: mode("overwrite") with node.keys; append always creates.', needs={"query": (None,)},
    ),
    Connector(
        ("kudu", "org.apache.kudu.spark.kudu"), Repeated.REPLACES,
        "https://github.com/apache/kudu/blob/master/java/kudu-spark/src/main/scala/org/apache/kudu/spark/kudu/DefaultSource.scala",
        needs={"kudu.operation": (None, "upsert")},
    ),
    Connector(
        ("excel",), Repeated.ADDS,
        "https://github.com/nightscape/spark-excel", "Write a file that is named by the batch id, with mode overwrite.",
    ),
)  # fmt: skip
"""The first row that applies counts. Each says what its source says; no row: unknown."""

TARGETS = (
    "path", "dbtable", "table", "topic", "collection", "spark.mongodb.collection", "es.resource", "es.resource.write",
    "opensearch.resource", "opensearch.resource.write", "spark.cosmos.container", "kudu.table", "labels", "relationship",
)  # fmt: skip
"""The options that name what is written to."""
