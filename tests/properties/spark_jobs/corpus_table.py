"""Sixty streaming jobs as people write them, and what is right to say of each.

Each is a file of the folder ``corpus``, as its owner has it: nothing in it knows who reads it. About half have a mistake of the
kinds that public jobs have. What is right follows from what Spark, the connector or the database documents.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


@dataclass(frozen=True, slots=True)
class CorpusJob:
    """A job of the corpus, how it is run, and what is right to say of it.

    Attributes:
        file: In the folder, or ``-m package.module``.
        code: The right exit code: 0, 1 or 3.
        findings: The names of all that is right to find.
        why: What a crash does to it, or why nothing does.
        options: Of the command.
        arguments: Of the job.

    """

    file: str
    code: int
    findings: tuple[str, ...]
    why: str
    options: str = ""
    arguments: str = ""

    @property
    def name(self) -> str:
        """The file, or the package, without an ending."""
        return self.file.removeprefix("-m ").split(".", maxsplit=1)[0]

    def command(self) -> list[str]:
        """Return what follows ``headrace``."""
        behind = ["--", *self.arguments.split()] if self.arguments else []
        return ["verify", *self.file.split(), *self.options.split(), *behind]


SINKS = (
    CorpusJob("orders_jdbc_lambda.py", 1, ("twice",),
        "JDBC's append has no key: a batch that runs again is there twice"),
    CorpusJob("orders_upsert_psycopg2.py", 0, (),
        "newest of each order, and none that is older than what is there, in one transaction"),
    CorpusJob("clicks_mysql_class.py", 1, ("missing", "twice"),
        "each row is committed by itself and inserted again; an error is only logged"),
    CorpusJob("sensors_cassandra.py", 0, (),
        "Cassandra writes by the primary key: the same row again is the same row"),
    CorpusJob("bots_redis_writer.py", 0, (), "a set has a member once, however often it is added"),
    CorpusJob("views_redis_counter.py", 1, ("differs",), "HINCRBY adds again when a batch runs again"),
    CorpusJob("logs_elasticsearch.py", 1, ("twice",),
        "a document without an id gets a new one with each write", arguments="--topic logs"),
    CorpusJob("logs_elasticsearch_id.py", 0, (),
        "the id is topic, partition and offset, which a row keeps", arguments="--topic logs"),
    CorpusJob("usage_snowflake.py", 1, ("twice",), "the connector's append has no key",
        options="--env SNOWFLAKE_URL=u --env SNOWFLAKE_USER=u --env SNOWFLAKE_PASSWORD=p", arguments="--landing /landing/usage"),
    CorpusJob("cdc_merge_notebook.py", 1, ("stuck",),
        "two changes of one customer in a batch: Delta refuses the MERGE, whenever it is tried again"),
    CorpusJob("cdc_merge_latest.py", 0, (),
        "the newest of each product, and none that is older than what is there"),
    CorpusJob("merge_sql_view.py", 0, (), "as cdc_merge_latest, in SQL"),
    CorpusJob("daily_totals_merge_add.py", 1, ("differs",),
        "t.total + s.total adds again when a batch runs again"),
    CorpusJob("bookings_delta_txn.py", 0, (),
        "Delta skips a batch of this txnAppId and txnVersion that it has"),
    CorpusJob("scd2_employees.py", 1, ("stuck", "twice"),
        "a batch that runs again appends the new versions once more; two changes of one employee in a batch end the MERGE"),
    CorpusJob("events_partition_overwrite.py", 1, ("overwritten",),
        "a later batch with rows of a day replaces those that an earlier one wrote"),
    CorpusJob("events_partition_of_batch.py", 0, (),
        "each batch has a partition of its own, which a repeated one replaces"),
    CorpusJob("temperature_jdbc_default_mode.py", 1, ("stuck",),
        "the default mode fails once the table is there: at the second batch"),
    CorpusJob("stock_csv_snapshot.py", 1, ("overwritten",),
        "each batch replaces the whole folder, and with it the rows of those before"),
    CorpusJob("invoices_file_per_batch.py", 0, (), "a file named by the batch, renamed into place"),
    CorpusJob("-m payments_quarantine.main", 1, ("twice",),
        "both files are appended to, and a batch that runs again is there twice"),
    CorpusJob("alerts_http_post.py", 1, ("missing", "twice"),
        "a POST again is another alert; one that failed is only logged"),
    CorpusJob("alerts_http_put.py", 0, (), "PUT to an address that is the row's own"),
    CorpusJob("scores_kafka_producer.py", 1, ("not flushed", "twice"),
        "a record that is sent again is another record, and nobody waits for those that are sent"),
    CorpusJob("tickets_random_key_merge.py", 1, ("twice",),
        "the key is drawn anew when the batch runs again, so that nothing matches"),
    CorpusJob("ledger_sqlite_once.py", 0, (),
        "rows and batch id in one transaction, begun before the id is looked up"),
    CorpusJob("profiles_mongo_replace.py", 1, ("differs",),
        "a driver that was replaced may put an older profile over a newer one"),
    CorpusJob("window_counts_update_jdbc.py", 1, ("twice",),
        "results that are revised in update mode are appended"),
)  # fmt: skip
STATEFUL = (
    CorpusJob("visits_sessions_pandas.py", 3, ("batching",),
        "the state holds the clicks of the last call only: how the input is cut decides"),
    CorpusJob("card_fraud_tws.py", 0, (), "a count in a value state with a TTL, as meant"),
    CorpusJob("heartbeat_offline_tws.py", 3, ("batching",),
        "an endless chain of timers: a device that is gone is told of as often as there are batches"),
    CorpusJob("device_first_seen_tws.py", 3, ("growth",), "nothing removes the state of a device"),
    CorpusJob("running_total_module_dict.py", 1, ("faults", "memory", "order"),
        "the totals are in the module of a Python worker"),
    CorpusJob("order_flow_tws.py", 1, ("swallowed",),
        "a float is no row of the state: the error is logged, and state stays empty"),
)  # fmt: skip
PLAIN = (
    CorpusJob("wordcount_socket.py", 3, ("growth",), "complete mode keeps each word for ever", arguments="localhost 9999"),
    CorpusJob("trips_parquet.py", 0, (), "the file sink's log has each batch once"),
    CorpusJob("enrich_kafka_to_kafka.py", 3, ("repeated",),
        "Kafka's sink is at least once: only its readers can drop what comes again",
        options="--env KAFKA_BROKERS=b:9092"),
    CorpusJob("traffic_windows_append.py", 0, (), "windows with a watermark, to files"),
    CorpusJob("clicks_windows_no_watermark.py", 1, ("error",),
        "Spark refuses append mode for windows without a watermark"),
    CorpusJob("meters_watermark_of_other_column.py", 3, ("growth",),
        "the watermark is of another column than the windows, which stay for ever"),
    CorpusJob("web_session_window.py", 0, (), "session windows with a watermark, to Delta's sink"),
    CorpusJob("transactions_dedup_watermark.py", 0, (), "duplicates are forgotten with the watermark"),
    CorpusJob("orders_dedup_forever.py", 3, ("growth",), "each order_id is kept for ever"),
    CorpusJob("ads_join_bounded.py", 0, (), "both sides are bounded by time and watermark"),
    CorpusJob("rides_join_unbounded.py", 3, ("growth",), "each ride and each fare is kept for ever"),
    CorpusJob("shipments_left_outer.py", 0, (),
        "an outer join with bounds of time and a watermark on both sides"),
    CorpusJob("visits_static_join.py", 0, (), "a table that is read once per batch, and files"),
    CorpusJob("tweets_one_checkpoint.py", 1, ("checkpoint",),
        "two queries write their offsets to one checkpoint: Spark lets only one of them run"),
    CorpusJob("medallion_three_tables.py", 0, (),
        "three queries, each behind the other, with checkpoints of their own"),
    CorpusJob("two_topics_one_path.py", 1, ("missing",),
        "two file sinks with one log: batch 0 of the second counts as written"),
    CorpusJob("sales_complete_parquet.py", 1, ("error",), "Spark's file sink refuses complete mode"),
    CorpusJob("hashtags_trending.py", 3, ("growth",), "complete mode keeps each tag for ever"),
    CorpusJob("rate_monitor.py", 0, (), "the memory sink is for looking"),
    CorpusJob("sql_view_tumbling.py", 0, (), "windows with a watermark, in SQL"),
    CorpusJob("autoloader_bronze_notebook.py", 0, (), "each file once, to Delta's sink"),
    CorpusJob("users_avro_delta.py", 0, (), "rows to Delta's sink"),
    CorpusJob("debezium_flatten.py", 0, (), "rows to Iceberg's sink, which knows what it committed"),
    CorpusJob("offers_clock_udf.py", 1, ("chance",),
        "a filter that goes by the clock of the moment: a batch that runs again has other rows"),
    CorpusJob("topics_in_threads.py", 0, (), "a query for each topic, started in threads"),
    CorpusJob("calls_exit_codes.py", 0, (), "rows to files",
        options="--env CHECKPOINT_DIR=/checkpoints"),
)  # fmt: skip
CORPUS = {job.name: job for job in (*SINKS, *STATEFUL, *PLAIN)}
"""All jobs, by name: with a sink of their own, with state of their own, and queries of Spark's own operators and sinks."""
