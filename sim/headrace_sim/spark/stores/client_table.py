"""The clients that are answered: for each module, its classes and functions by name.

A name that is not here may be named and not called. The modules' calls are in the files beside this one.
"""

from collections.abc import Callable, Mapping
from typing import Any

from headrace_sim.spark.stores.amazon_calls import RESOURCES, SERVICES, SESSION, service
from headrace_sim.spark.stores.cassandra_calls import (
    CLUSTER,
    Statement,
    Statements,
    execute_concurrent,
    execute_concurrent_with_args,
)
from headrace_sim.spark.stores.client_objects import ClientKind, nothing
from headrace_sim.spark.stores.cloud_calls import (
    BIGQUERY,
    COSMOS,
    EVENT_HUB,
    FIRESTORE,
    PUBLISHER,
    EventData,
    Increment,
    JobConfig,
)
from headrace_sim.spark.stores.elastic_calls import ELASTIC, ELASTIC_HELPERS
from headrace_sim.spark.stores.http_calls import http_rows
from headrace_sim.spark.stores.mongo_calls import PYMONGO
from headrace_sim.spark.stores.object_calls import AZURE_STORAGE, GOOGLE_STORAGE, MINIO
from headrace_sim.spark.stores.queue_calls import CONFLUENT, KAFKA_PYTHON
from headrace_sim.spark.stores.redis_calls import REDIS
from headrace_sim.spark.stores.series_calls import HBASE, HBASE_POOL, INFLUX, INFLUX_1, Options, SeriesPoint

Row = ClientKind | Callable[..., Any]
CLIENTS: Mapping[str, Mapping[str, Row]] = {
    "pymongo": PYMONGO,
    "bson": {"ObjectId": lambda *args: args[0] if args else None},
    "elasticsearch": {"Elasticsearch": ELASTIC, **ELASTIC_HELPERS},
    "opensearchpy": {"OpenSearch": ELASTIC, **ELASTIC_HELPERS},
    "boto3": {"client": service(SERVICES), "resource": service(RESOURCES), "Session": SESSION},
    "botocore": {"Config": nothing()},
    "cassandra": {
        "Cluster": CLUSTER,
        "SimpleStatement": Statement,
        "BatchStatement": Statements,
        "PlainTextAuthProvider": nothing(),
        "execute_concurrent": execute_concurrent,
        "execute_concurrent_with_args": execute_concurrent_with_args,
        **{
            name: nothing()
            for name in ("DCAwareRoundRobinPolicy", "TokenAwarePolicy", "ExecutionProfile", "RoundRobinPolicy")
        },
    },
    "influxdb_client": {"InfluxDBClient": INFLUX, "Point": SeriesPoint, "WriteOptions": Options},
    "influxdb": {"InfluxDBClient": INFLUX_1},
    "happybase": {"Connection": HBASE, "ConnectionPool": HBASE_POOL},
    "google.cloud.pubsub_v1": {"PublisherClient": PUBLISHER},
    "google.cloud.bigquery": {"Client": BIGQUERY, "LoadJobConfig": JobConfig},
    "google.cloud.firestore": {"Client": FIRESTORE, "Increment": Increment},
    "google.cloud.storage": {"Client": GOOGLE_STORAGE},
    "azure.cosmos": {"CosmosClient": COSMOS, "PartitionKey": nothing()},
    "azure.eventhub": {"EventHubProducerClient": EVENT_HUB, "EventData": EventData},
    "azure.storage.blob": {"BlobServiceClient": AZURE_STORAGE},
    "azure.identity": {"DefaultAzureCredential": nothing(), "ClientSecretCredential": nothing()},
    "minio": {"Minio": MINIO},
    "kafka": {"KafkaProducer": KAFKA_PYTHON},
    "confluent_kafka": {"Producer": CONFLUENT},
    "redis": dict.fromkeys(("Redis", "StrictRedis", "from_url"), REDIS) | {"ConnectionPool": nothing()},
    "requests": http_rows("requests"),
    "httpx": http_rows("httpx"),
}  # fmt: skip
"""By the name of the module that is imported; the names of its submodules are here, too."""
SERVERS: Mapping[str, str] = {
    "psycopg2": "pyformat", "psycopg": "pyformat", "pymysql": "pyformat", "MySQLdb": "format", "mysql.connector": "pyformat",
    "mariadb": "qmark", "pyodbc": "qmark", "pymssql": "pyformat", "oracledb": "named", "cx_Oracle": "named",
    "snowflake.connector": "pyformat", "pg8000": "format",
}  # fmt: skip
"""Modules of DB-API, and how their statements mark parameters."""
