"""Rows are drawn from what a job says itself: each filter is passed and failed, and each branch taken, in the first feed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.connect.plan import LogicalPlan

from headrace.api.errors import HeadraceError
from headrace_properties.sinks.trial import undisturbed_run
from headrace_properties.spark_jobs.feeds.drawing import batches_for
from headrace_properties.spark_jobs.feeds.drawn_rows import drawn_batches
from headrace_properties.spark_jobs.feeds.hints import Hints
from headrace_properties.spark_jobs.feeds.job_feeds import feed_of
from headrace_properties.spark_jobs.feeds.query_plans import read_hints
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_sim.spark.client.connect_answers import Answers
from headrace_sim.spark.client.recording import captured, record
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.plan.plan_splitter import inputs_of
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import Columns, SparkJob, Union

ORDER = t.StructType(
    [
        t.StructField("order_id", t.LongType()),
        t.StructField(
            "customer",
            t.StructType([t.StructField("name", t.StringType()), t.StructField("vip", t.BooleanType())]),
        ),
        t.StructField("amount", t.DecimalType(10, 2)),
        t.StructField("status", t.StringType()),
        t.StructField("at", t.TimestampType()),
    ]
)


def kafka(spark: Any, topic: str) -> Any:
    return spark.readStream.format("kafka").option("subscribe", topic).load()


def orders(spark: Any) -> Any:
    """Parse JSON of Kafka, sort out some, and set a size."""
    parsed = kafka(spark, "orders").select(F.from_json(F.col("value").cast("string"), ORDER).alias("o"))
    valid = parsed.where("o IS NOT NULL").select("o.*", F.col("o.customer.name").alias("name"))
    paid = valid.filter((F.col("amount") > 100) & F.col("status").isin("PAID", "SENT"))
    size = (
        F.when(F.col("amount") >= 10_000, "huge").when(F.col("amount") >= 1_000, "large").otherwise("usual")
    )
    return paid.withColumn("branch", size)


def quarantine(spark: Any) -> Any:
    """Mark what is wrong with a row."""
    rows = spark.readStream.schema("id STRING, email STRING, age INT").json("/landing/users")
    wrong = (
        F.when(F.col("id").isNull(), "no id")
        .when(~F.col("email").contains("@"), "no email")
        .when((F.col("age") < 0) | (F.col("age") > 130), "no age")
        .otherwise("fine")
    )
    return rows.withColumn("branch", wrong)


def lines(spark: Any) -> Any:
    """Split lines of a socket."""
    parts = F.split("value", ",")
    text = spark.readStream.format("socket").option("host", "localhost").option("port", 9999).load()
    named = text.select(
        parts[0].alias("sensor"),
        parts[1].cast("double").alias("value"),
        parts.getItem(2).cast("int").alias("at"),
    )
    hot = named.filter("value > 37.5 and at >= 3")
    return hot.withColumn("branch", F.when(F.col("sensor").like("probe%"), "probe").otherwise("room"))


def nested(spark: Any) -> Any:
    """Explode what a document lists."""
    item = "ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>"
    rows = kafka(spark, "baskets").select(
        F.from_json(F.col("value").cast("string"), f"basket STRING, items {item}").alias("b")
    )
    items = rows.select("b.basket", F.explode("b.items").alias("item")).select("basket", "item.*")
    many = F.when(F.col("quantity") > 10, "many").otherwise("few")
    return items.where(F.col("quantity") * F.col("price") > 500).withColumn("branch", many)


def by_path(spark: Any) -> Any:
    """Read a change of a database by paths."""
    text = kafka(spark, "cdc").selectExpr("CAST(value AS STRING)")
    change = text.select(
        F.get_json_object("value", "$.payload.op").alias("op"),
        F.get_json_object("value", "$.payload.after.id").cast("int").alias("id"),
    )
    known = change.filter(F.col("op").isin("c", "u", "d") & F.col("id").isNotNull())
    return known.withColumn("branch", F.when(F.col("op") == "d", "gone").otherwise("there"))


def tagged(spark: Any) -> Any:
    """Look for words in a cleaned text."""
    text = kafka(spark, "posts").selectExpr("CAST(value AS STRING) AS text")
    words = text.select(F.explode(F.split(F.lower(F.trim("text")), r"\s+")).alias("word"))
    tags = words.filter(F.col("word").startswith("#"))
    return tags.withColumn("branch", F.when(F.col("word").contains("spark"), "spark").otherwise("other"))


def numbers(spark: Any) -> Any:
    """Go by the remainder of a counted value."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    kind = F.when(F.col("value") % 4 == 0, "fourth").when(F.col("value") % 2 == 0, "even").otherwise("odd")
    return rate.filter(F.col("value") != 3).withColumn("branch", kind)


def looked_up(spark: Any) -> Any:
    """Join a static table."""
    countries = spark.createDataFrame([("de", "Germany"), ("fr", "France")], "code STRING, country STRING")
    visits = spark.readStream.schema("visit STRING, code STRING").csv("/landing/visits")
    return visits.join(countries, "code", "left").withColumn(
        "branch", F.coalesce("country", F.lit("unknown"))
    )


def two_topics(spark: Any) -> Any:
    """Unite two topics whose documents differ."""
    web = (
        kafka(spark, "web")
        .select(F.from_json(F.col("value").cast("string"), "user STRING, ms LONG").alias("w"))
        .select("w.*")
    )
    app = kafka(spark, "app").select(
        F.from_json(F.col("value").cast("string"), "uid STRING, s INT").alias("a")
    )
    both = web.unionByName(
        app.select(F.col("a.uid").alias("user"), (F.col("a.s") * 1000).cast("long").alias("ms"))
    )
    return both.filter(F.col("ms") > 5_000).withColumn(
        "branch", F.when(F.col("ms") > 60_000, "long").otherwise("short")
    )


def cleaned(spark: Any) -> Any:
    """Drop rows with nulls, and fill others."""
    rows = spark.readStream.schema("name STRING, score INT, level STRING").json("/landing/scores")
    kept = rows.dropna(subset=["name", "score"]).filter(F.length("name") > 2)
    return kept.withColumn("branch", F.coalesce("level", F.lit("none")))


def timed(spark: Any) -> Any:
    """Cast milliseconds to a time."""
    schema = "device STRING, ts LONG, celsius DOUBLE"
    rows = (
        kafka(spark, "temps")
        .select(F.from_json(F.col("value").cast("string"), schema).alias("d"))
        .select("d.*")
    )
    at = rows.withColumn("at", (F.col("ts") / 1000).cast("timestamp"))
    return at.filter(~F.col("celsius").between(-10, 40)).withColumn(
        "branch", F.when(F.col("celsius") > 40, "hot").otherwise("cold")
    )


USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"]}],
}


def registered(spark: Any) -> Any:
    """Read Avro, behind the id of its schema."""
    users = (
        kafka(spark, "users")
        .select(from_avro(F.expr("substring(value, 6)"), json.dumps(USER), {"mode": "PERMISSIVE"}).alias("u"))
        .select("u.*")
    )
    return users.where("age >= 18").withColumn("branch", F.when(F.col("age") > 65, "old").otherwise("young"))


def in_sql(spark: Any) -> Any:
    """Query a view that has replaced the one that it reads."""
    rows = spark.readStream.schema("merchant STRING, amount INT, country STRING").json("/landing/payments")
    rows.createOrReplaceTempView("payments")
    spark.sql("SELECT * FROM payments WHERE amount > 0").createOrReplaceTempView("payments")
    return spark.sql(
        "SELECT merchant, CASE WHEN amount >= 500 THEN 'large' ELSE 'small' END AS branch FROM payments WHERE country = 'DE'"
    )


JOBS: dict[Callable[[Any], Any], set[Any]] = {
    orders: {"huge", "large", "usual"},
    quarantine: {"no id", "no email", "no age", "fine"},
    lines: {"probe", "room"},
    nested: {"many", "few"},
    by_path: {"gone", "there"},
    tagged: {"spark", "other"},
    numbers: {"fourth", "even", "odd"},
    looked_up: {"Germany", "unknown"},
    two_topics: {"long", "short"},
    cleaned: {"none"},
    timed: {"hot", "cold"},
    in_sql: {"large", "small"},
    registered: {"old", "young"},
}


def job_of(build: Callable[[Any], Any]) -> SparkJob:
    def started(spark: Any) -> Any:
        return build(spark).writeStream.foreachBatch(lambda frame, number: None).start()

    return record(started)


def counts_of(job: SparkJob, feed: list[list[tuple[Any, ...]]]) -> tuple[list[tuple[str, int, int]], Rows]:
    """Run the steps of a job on all rows at once. Return the rows before and after each step, and what comes out."""
    rows, counts = Rows(job.input, [tuple(row for batch in feed for row in batch)]), []
    steps = job.steps
    if isinstance(steps[0], Union):
        united = []
        for place, part in enumerate(steps[0].branches):
            own = tuple(row[place] for row in rows.all() if row[place] is not None)
            streams = Rows(job.input.fields[place].dataType, [own])
            united += list(reduce(lambda frame, step: step.compute(frame), part.steps, streams).all())  # type: ignore[union-attr]
        rows, steps = Rows(steps[0].output, [tuple(united)]), steps[1:]
    for step in steps:
        assert isinstance(step, Columns)
        made = step.compute(rows)
        counts.append((step.call, len(rows.all()), len(made.all())))
        rows = made
    return counts, rows


@pytest.mark.parametrize("build", JOBS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("seed", [0, 1])
def test_each_filter_is_passed_and_failed_and_each_branch_taken(
    build: Callable[[Any], Any], seed: int
) -> None:
    job = job_of(build)
    counts, rows = counts_of(job, feed_of(job, seed, {}))
    assert all(0 < after < before for call, before, after in counts if call in {"filter", "dropna"}), counts
    assert {row[rows.schema.names.index("branch")] for row in rows.all()} >= JOBS[build]


def test_rows_that_are_drawn_for_the_schema_alone_reach_nothing_of_this() -> None:
    job = job_of(orders)
    counts, rows = counts_of(job, drawn_batches(job.input, 0))
    assert counts[-2][0::2] == ("filter", 0)
    assert rows.all() == []


def rows_of(build: Callable[[Any], Any], *, seed: int = 0) -> list[tuple[Any, ...]]:
    return [row for batch in feed_of(job_of(build), seed, {}) for row in batch]


def test_times_are_written_in_the_pattern_that_the_job_reads() -> None:
    def build(spark: Any) -> Any:
        rows = spark.readStream.schema("id STRING, day STRING, at STRING, ms LONG, made STRING").csv(
            "/landing"
        )
        days = rows.withColumn("day", F.to_date("day", "dd/MM/yyyy")).withColumn(
            "at", F.to_timestamp("at", "yyyy-MM-dd'T'HH:mm:ss.SSSX")
        )
        return days.select("id", "day", "at", F.timestamp_millis("ms"), F.col("made").cast("timestamp"))

    job = read_hints(*plan_of(build))
    row = feed_of_hints(job)[0]
    assert row[1:] == ("01/01/2030", "2030-01-01T00:10:00.000Z", 1893456600000, "2030-01-01 00:10:00")


def plan_of(build: Callable[[Any], Any]) -> tuple[bytes, Any]:
    """Return a plan that is not evaluated, and its source."""
    with captured() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Answers, "schema", lambda *_: t.StructType([]))
        relation = build(session)._plan.to_proto(session.client).root
        (source,) = session.answers.splitter.split(leaf_of(relation)).sources.values()
    return relation.SerializeToString(), [source]


def leaf_of(relation: Any) -> Any:
    inner = inputs_of(relation)
    return leaf_of(inner[0]) if inner else relation


def feed_of_hints(hints: Hints) -> list[tuple[Any, ...]]:
    return [row for batch in batches_for(hints, 0) for row in batch]


def test_csv_in_a_text_and_json_with_a_format_of_its_own_are_written_as_they_are_parsed() -> None:
    def build(spark: Any) -> Any:
        text = spark.readStream.format("socket").option("host", "h").option("port", "1").load()
        csv = F.from_csv("value", "name STRING, age INT", {"sep": "|"}).alias("p")
        return text.select(csv).filter("p.age > 30")

    def build_json(spark: Any) -> Any:
        text = spark.readStream.format("text").load("/landing")
        return text.select(F.from_json("value", "at TIMESTAMP", {"timestampFormat": "dd.MM.yy HH:mm"}))

    ((text,), *_) = feed_of_hints(read_hints(*plan_of(build)))
    assert re.fullmatch(r"\w+\|\d+", text)
    assert feed_of_hints(read_hints(*plan_of(build_json)))[0] == ('{"at":"01.01.30 00:10"}',)


def test_event_times_span_windows_and_some_rows_come_behind_later_ones() -> None:
    def build(spark: Any) -> Any:
        schema = "sensor STRING, at TIMESTAMP, v DOUBLE"
        rows = (
            kafka(spark, "s")
            .select(F.from_json(F.col("value").cast("string"), schema).alias("s"))
            .select("s.*")
        )
        return (
            rows.withWatermark("at", "10 minutes")
            .groupBy(F.window("at", "5 minutes"), "sensor")
            .agg(F.avg("v"))
        )

    hints = read_hints(*plan_of(build))
    assert (hints.windows_us, hints.delays_us) == ({300_000_000}, {600_000_000})
    batches = batches_for(hints, 0, with_state=True)
    documents = [[json.loads(row[1]) for row in batch] for batch in batches]
    times = [datetime.fromisoformat(document["at"]) for batch in documents for document in batch]
    behind = [one - other for one, other in pairwise(times) if one > other]
    assert behind
    assert max(behind) < timedelta(minutes=10)
    assert len({at.timestamp() // 300 for at in times}) > 3
    assert any(len({row["sensor"] for row in batch}) < len(batch) for batch in documents)
    assert times[-1] - times[-2] >= timedelta(days=3)


def payments(spark: Any) -> Any:
    schema = "id STRING, account STRING, amount DOUBLE, kind STRING, at TIMESTAMP"
    text = kafka(spark, "payments").select(F.from_json(F.col("value").cast("string"), schema).alias("p"))
    return text.select("p.*").where("amount > 0").withWatermark("at", "10 minutes")


def in_windows(spark: Any) -> Any:
    return payments(spark).groupBy(F.window("at", "5 minutes"), "account")


TOTALS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "count": (lambda spark: in_windows(spark).count(), "count > 20"),
    "average": (lambda spark: in_windows(spark).agg(F.avg("amount").alias("mean")), "mean >= 5000"),
    "sum and count": (
        lambda spark: in_windows(spark).agg(F.sum("amount").alias("total"), F.count("*").alias("n")),
        "total > 900 AND n >= 4",
    ),
    "of those alike": (
        lambda spark: in_windows(spark).agg(
            F.sum(F.when(F.col("kind") == "view", 1).otherwise(0)).alias("views"),
            F.sum(F.expr("CASE WHEN kind = 'sale' THEN 1 ELSE 0 END")).alias("sales"),
        ),
        "views > 30 AND sales < 2",
    ),
    "of different ones": (
        lambda spark: in_windows(spark).agg(F.approx_count_distinct("kind").alias("kinds")),
        "kinds >= 6",
    ),
    "without duplicates": (
        lambda spark: payments(spark).dropDuplicates(["id"]).groupBy("account").agg(F.count("id").alias("n")),
        "n > 9",
    ),
}


@pytest.mark.parametrize("case", TOTALS)
def test_groups_pass_and_fail_each_threshold(case: str) -> None:
    build, condition = TOTALS[case]
    for wanted in (condition, f"NOT ({condition})"):

        def started(spark: Any, wanted: str = wanted) -> Any:
            rows = build(spark).filter(wanted)
            return rows.writeStream.outputMode("update").foreachBatch(lambda frame, number: None).start()

        job = record(started)
        assert run_job(job, feed_of(job, 0, {})).rows(), wanted


def test_having_in_sql_is_passed() -> None:
    def started(spark: Any) -> Any:
        payments(spark).createOrReplaceTempView("payments")
        often = spark.sql("SELECT account, count(*) AS n FROM payments GROUP BY account HAVING count(*) > 25")
        return often.writeStream.outputMode("complete").format("console").start()

    job = record(started)
    assert run_job(job, feed_of(job, 0, {})).rows()


def parsed_in_the_sink(df: Any, _batch_id: int) -> None:
    """Read what Kafka's text holds, sort out some, and count."""
    if df.isEmpty():
        return
    text = df.select(F.from_json(F.col("value").cast("string"), "sku STRING, price DOUBLE").alias("o"))
    orders = text.select("o.*").where("price > 0")
    orders.createOrReplaceTempView("orders")
    df.sparkSession.sql("SELECT * FROM orders WHERE price > 5000").write.mode("append").saveAsTable("dear")
    orders.groupBy("sku").count().filter("count > 12").write.mode("append").saveAsTable("often")
    orders.filter("sku = 'none'").write.mode("append").saveAsTable("none")


def test_rows_are_drawn_for_what_the_sink_does_with_its_frames() -> None:
    def started(spark: Any) -> Any:
        return kafka(spark, "orders").writeStream.foreachBatch(parsed_in_the_sink).start()

    target = spark_target("job", started)
    calm = undisturbed_run(*target.sink_call(), target.prepare_call())
    left = {name: len(items) for name, items in calm.contents.items() if items}
    assert left.keys() == {"dear", "often", "none"}
    assert 0 < left["dear"] < sum(map(len, target.feed))


def test_sink_that_fails_is_drawn_for_up_to_there() -> None:
    def sink(df: Any, _batch_id: int) -> None:
        df.filter("n = 77").count()
        raise ValueError

    rows = [row for batch in spark_target("job", sink, schemas="n INT").feed for row in batch]
    assert {(77,)} < set(rows)


def test_rows_follow_from_the_seed_in_every_process() -> None:
    code = "from tests.properties.spark_jobs.feeds.test_job_feeds import *; print([rows_of(build) for build in JOBS])"
    number = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = os.environ | {"PYTHONHASHSEED": number, "PYTHONPATH": os.pathsep.join(sys.path)}
    elsewhere = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert elsewhere.stdout.strip() == str([rows_of(build) for build in JOBS])
    assert rows_of(orders) != rows_of(orders, seed=1)


def test_text_that_may_not_be_null_is_drawn_as_a_time_of_every_row() -> None:
    def build(spark: Any) -> Any:
        rows = spark.readStream.schema("id INT, at STRING NOT NULL").csv("/landing")
        return rows.withColumn("at", F.to_timestamp("at")).filter(F.col("at").isNull())

    assert all(row[1] for row in rows_of(build))


def test_a_table_of_a_sample_is_written_as_the_job_parses_it(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("status,amount,order_id\nPAID,200.50,7\n")
    [[row]] = feed_of(job_of(orders), 0, {"orders": str(tmp_path / "orders.csv")})
    assert row[1:3] == (b'{"order_id":7,"amount":200.5,"status":"PAID"}', "orders")


def test_static_files_are_matched(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,country\nde,Germany\nfr,France\n")

    def build(spark: Any) -> Any:
        codes = spark.read.csv(str(tmp_path / "codes.csv"), header=True, schema="code STRING, country STRING")
        visits = spark.readStream.schema("visit STRING, code STRING").csv("/landing/visits")
        return visits.join(F.broadcast(codes.select("code", F.upper("country"))), "code")

    codes = {row[1] for row in feed_of_hints(read_hints(*plan_of(build)))}
    assert codes >= {"de"}
    assert codes - {"de", "fr"}


def of_tables(spark: Any) -> Any:
    return spark.readStream.table("lake.orders").filter("amount > 100").writeStream.format("noop").start()


def test_schema_that_is_known_nowhere_can_be_given_by_the_name_of_the_table() -> None:
    told = r"readStream of table without a schema.*--schema 'lake.orders="
    with pytest.raises(HeadraceError, match=told):
        record(of_tables)
    for schemas in ({"lake.orders": "amount INT"}, "amount INT"):
        job = record(of_tables, schemas)
        assert {row[0] > 100 for batch in feed_of(job, 0, {}) for row in batch} == {True, False}


def test_query_reads_what_an_earlier_one_writes() -> None:
    with captured() as session:
        rate = session.readStream.format("rate").load()
        rate.select(F.col("value").alias("n")).writeStream.option("checkpointLocation", "/c").toTable(
            "bronze"
        )
        session.readStream.table("bronze").filter("n > 2").writeStream.format("noop").start()
    assert session.queries.jobs[1].input.simpleString() == "struct<n:bigint>"


def test_first_relation_of_a_process_is_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogicalPlan, "_nextPlanId", 0)
    assert [source.name for source in job_of(two_topics).sources] == ["stream1", "stream2"]


def test_texts_of_sql_have_their_own_columns() -> None:
    def build(spark: Any) -> Any:
        spark.readStream.schema("a INT").json("/one").createOrReplaceTempView("one")
        spark.readStream.schema("b INT").json("/two").createOrReplaceTempView("two")
        both = spark.sql("SELECT a AS n FROM one").union(spark.sql("SELECT b AS n FROM two"))
        return both.filter("n > 700")

    values = [row for batch in feed_of(job_of(build), 0, {}) for row in batch]
    assert max(row[0][0] for row in values if row[0]) > 700
    assert max(row[1][0] for row in values if row[1]) > 700
