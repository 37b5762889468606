"""What people write in `foreachBatch` and in transformations of streams, each on Spark and on rows in memory."""
# ruff: noqa: PD010, PLC0415, PLC3002, PLW0108  it is written as people write it

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Observation, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

OUTCOMES = Path(__file__).parent / "snippet_outcomes.json"
"""What Spark 4.3 gave (local[1]); tests/spark/recorded/test_frames_conformance.py keeps it true."""
Snippet = Callable[[Any, Any, str], Any]
"""It takes a session, a frame and the path of a directory, and returns a frame or a value."""
SNIPPETS: dict[str, Snippet] = {}
WITHOUT_JAR = frozenset(
    {"deltatable_forpath_merge", "sql_merge_into_delta", "write_delta_append", "write_jdbc"}
)
"""Those that need a package that PySpark does not bring: nothing is recorded of them, but that they are followed."""


def snippet(function: Snippet) -> Snippet:
    """Add a snippet."""
    SNIPPETS[function.__name__] = function
    return function


def _add(name: str, function: Snippet) -> None:
    SNIPPETS[name] = function


# fmt: off
SCHEMA = t.StructType([
    t.StructField("id", t.IntegerType()), t.StructField("user", t.StringType()), t.StructField("amount", t.DoubleType()),
    t.StructField("ts", t.TimestampType()), t.StructField("tags", t.ArrayType(t.StringType())),
    t.StructField("props", t.MapType(t.StringType(), t.StringType())),
    t.StructField("addr", t.StructType([t.StructField("city", t.StringType()), t.StructField("zip", t.StringType())])),
    t.StructField("value", t.StringType())])
ROWS = [
    (1, "ann", 10.5, datetime(2024, 3, 31, 0, 30), ["a", "b"], {"src": "web"}, ("Bern", "3000"),
        '{"order":{"no":7,"items":[{"sku":"x","qty":2},{"sku":"y","qty":1}]},"at":"2024-03-31T01:02:03Z"}'),
    (2, "bob", None, datetime(2024, 3, 31, 0, 50), [], {}, ("Rome", None), '{"order":{"no":8,"items":[]}}'),
    (3, "ann", -4.0, datetime(2024, 3, 31, 1, 10), ["b", None, "c"], {"src": "app", "v": "2"}, None, "oops"),
    (4, None, 3.25, datetime(2024, 4, 1, 12, 0), None, None, ("Oslo", "0150"), None),
    (2, "bob", 7.0, datetime(2024, 3, 31, 0, 51), ["a"], {"src": "web"}, ("Rome", "00100"), '{"order":{"no":9}}')]
_add("from_json nested + select fields", lambda spark, df, _: df.select("id", F.from_json("value",
    "order STRUCT<no: INT, items: ARRAY<STRUCT<sku: STRING, qty: INT>>>, at STRING").alias("v")).select("id", "v.order.no",
    "v.at"))
_add("from_json StructType, explode items", lambda spark, df, _: df.select("id", F.from_json("value", t.StructType([t
    .StructField("order", t.StructType([t.StructField("items", t.ArrayType(t.StructType([t.StructField("sku", t.StringType()), t
    .StructField("qty", t.IntegerType())])))]))])).alias("v")).select("id", F.explode("v.order.items").alias("it")).select("id",
    "it.sku", "it.qty"))
_add("from_json with options (PERMISSIVE)", lambda spark, df, _: df.select(F.from_json("value",
    "at STRING, _corrupt_record STRING", {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}).alias("v"))
    .select("v.*"))
_add("from_json timestamp + time zone", lambda spark, df, _: df.select(F.from_json("value", "at TIMESTAMP").alias("v"))
    .select("v.at"))
_add("cast of binary value", lambda spark, df, _: df.select(F.col("value").cast("binary").cast("string").alias("v")))
_add("schema_of_json", lambda spark, df, _: df.limit(1).select(F.schema_of_json(F.lit('{"a":1}')).alias("s")))
_add("explode_outer tags", lambda spark, df, _: df.select("id", F.explode_outer("tags").alias("tag")))
_add("posexplode", lambda spark, df, _: df.select("id", F.posexplode("tags")))
_add("explode a map", lambda spark, df, _: df.select("id", F.explode("props")))
_add("struct access and withField", lambda spark, df, _: df.select("addr.city", F.col("addr").withField("land", F.lit("CH"))
    .alias("a")))
_add("window() groupBy agg", lambda spark, df, _: df.groupBy(F.window("ts", "15 minutes"), "user").agg(F.sum("amount")
    .alias("s"), F.count("*").alias("n")).select("window.start", "user", "s", "n"))
_add("session_window", lambda spark, df, _: df.groupBy(F.session_window("ts", "5 minutes"), "user").count()
    .select("session_window.start", "user", "count"))
_add("groupBy agg many", lambda spark, df, _: df.groupBy("user").agg(F.sum("amount"), F.avg("amount").alias("avg"), F.min("ts"),
    F.max("ts"), F.countDistinct("id").alias("d"), F.collect_set("id").alias("ids").cast("string")))
_add("first/last aggregates", lambda spark, df, _: df.orderBy("ts").groupBy("user").agg(F.first("id").alias("f"), F.last("id")
    .alias("l")))
_add("approx_count_distinct, stddev, percentile", lambda spark, df, _: df.groupBy().agg(F.approx_count_distinct("user")
    .alias("a"), F.round(F.stddev("amount"), 6).alias("s"), F.expr("percentile_approx(amount, 0.5)").alias("p")))
_add("pivot", lambda spark, df, _: df.groupBy("user").pivot("id", [1, 2]).agg(F.sum("amount")))
_add("rollup", lambda spark, df, _: df.rollup("user").agg(F.count("*").alias("n")))
_add("having: filter after agg", lambda spark, df, _: df.groupBy("user").count().filter("count > 1"))
_add("join of df columns (df.a == other.a)", lambda spark, df, _: (lambda o: df.join(o, df.id == o.oid, "left").select(df.id, o
    .name))(spark.createDataFrame([(1, "x"), (2, "y")], "oid INT, name STRING")))
_add("self join by alias", lambda spark, df, _: df.alias("a").join(df.alias("b"), F.col("a.user") == F.col("b.user"))
    .select("a.id", F.col("b.id").alias("other")))
_add("left_anti against existing keys", lambda spark, df, _: df.join(spark.createDataFrame([(2,)], "id INT"), "id", "left_anti")
    .select("id", "user"))
_add("dropDuplicates keep latest by window", lambda spark, df, _: df.withColumn("rn", F.row_number().over(Window
    .partitionBy("id").orderBy(F.col("ts").desc()))).where("rn = 1").drop("rn").select("id", "amount"))
_add("dropDuplicates", lambda spark, df, _: df.select("id", "user").dropDuplicates(["id"]))
_add("rank, lag, running sum", lambda spark, df, _: (lambda w: df.select("id", "ts", F.rank().over(w).alias("r"), F
    .lag("amount").over(w).alias("p"), F.sum("amount").over(w.rowsBetween(Window.unboundedPreceding, 0)).alias("t")))(Window
    .partitionBy("user").orderBy("ts")))
_add("ntile, percent_rank, first_value", lambda spark, df, _: (lambda w: df.select("id", "ts", F.ntile(2).over(w).alias("n"), F
    .percent_rank().over(w).alias("p"), F.first("id").over(w).alias("f")))(Window.orderBy("ts")))
@snippet
def sql_over_temp_view(spark: Any, df: Any, tmp: str) -> Any:
    df.createOrReplaceTempView("updates")
    return spark.sql("SELECT user, SUM(amount) AS total, COUNT(*) AS n FROM updates WHERE id < 4 GROUP BY user")
@snippet
def sql_cte_join_of_views(spark: Any, df: Any, tmp: str) -> Any:
    df.createOrReplaceTempView("updates")
    spark.createDataFrame([("ann", "CH"), ("bob", "IT")], "name STRING, land STRING").createOrReplaceTempView("users")
    return spark.sql("WITH latest AS (SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts DESC) rn FROM updates) "
        "SELECT l.id, u.land FROM latest l LEFT JOIN users u ON l.user = u.name WHERE rn = 1 ORDER BY 1")
@snippet
def sql_on_df_sparkSession(spark: Any, df: Any, tmp: str) -> Any:
    df.createOrReplaceTempView("v")
    return df.sparkSession.sql("select max(id) as m from v")
_add("sql with parameters", lambda spark, df, _: spark.sql("SELECT :x + 1 AS y", {"x": 4}))
@snippet
def sql_merge_into_delta(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").dropDuplicates(["id"]).write.format("delta").mode("overwrite").save(tmp + "/delta_t")
    df.select("id", "user").dropDuplicates(["id"]).createOrReplaceTempView("src")
    spark.sql(f"MERGE INTO delta.`{tmp}/delta_t` t USING src s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET user = s.user WHEN NOT MATCHED THEN INSERT *")
    return spark.read.format("delta").load(tmp + "/delta_t").count()
@snippet
def deltatable_forpath_merge(spark: Any, df: Any, tmp: str) -> Any:
    from delta.tables import DeltaTable  # type: ignore[import-not-found]
    DeltaTable.forPath(spark, tmp + "/delta_t").alias("t").merge(df.alias("s"),
        "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
@snippet
def write_jdbc(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id").write.jdbc("jdbc:sqlite:" + tmp + "/x.db", "t", mode="append")
@snippet
def write_parquet_append(spark: Any, df: Any, tmp: str) -> Any:
    df.write.mode("append").parquet(tmp + "/p")
@snippet
def write_partitionBy_overwrite(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").write.mode("overwrite").partitionBy("user").parquet(tmp + "/pp")
@snippet
def write_saveAsTable(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").write.mode("append").saveAsTable("libs_t")
@snippet
def write_csv_header(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").write.mode("overwrite").option("header", True).csv(tmp + "/c")
@snippet
def write_delta_append(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id").write.format("delta").option("txnAppId", "a").option("txnVersion", 1).mode("append").save(tmp + "/d2")
@snippet
def write_insertInto(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").write.mode("overwrite").saveAsTable("libs_i")
    df.select("id", "user").write.insertInto("libs_i")
@snippet
def read_parquet_static_join(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id", "user").write.mode("overwrite").parquet(tmp + "/s")
    return df.select("id").join(spark.read.parquet(tmp + "/s"), "id")
@snippet
def read_csv_with_schema(spark: Any, df: Any, tmp: str) -> Any:
    Path(tmp, "in.csv").write_text("id,name\n1,x\n2,y\n")
    return spark.read.option("header", True).schema("id INT, name STRING").csv(tmp + "/in.csv")
@snippet
def read_table(spark: Any, df: Any, tmp: str) -> Any:
    df.select("id").write.mode("overwrite").saveAsTable("libs_r")
    return spark.table("libs_r")
@snippet
def cache_count_unpersist(spark: Any, df: Any, tmp: str) -> Any:
    df.persist()
    n = df.count()
    df.unpersist()
    return n
@snippet
def isEmpty_then_return(spark: Any, df: Any, tmp: str) -> Any:
    return df.isEmpty(), df.filter("id > 9").isEmpty(), None
@snippet
def rdd_isEmpty(spark: Any, df: Any, tmp: str) -> Any:
    return df.rdd.isEmpty()
@snippet
def rdd_map_collect(spark: Any, df: Any, tmp: str) -> Any:
    return sorted(df.rdd.map(lambda r: r.id * 2).collect())
@snippet
def rdd_foreachPartition(spark: Any, df: Any, tmp: str) -> Any:
    df.rdd.foreachPartition(lambda rows: list(rows))
@snippet
def getNumPartitions(spark: Any, df: Any, tmp: str) -> Any:
    return df.rdd.getNumPartitions() > 0
@snippet
def toPandas_to_dict(spark: Any, df: Any, tmp: str) -> Any:
    return df.select("id", "user").toPandas().to_dict("records")
@snippet
def toJSON_collect(spark: Any, df: Any, tmp: str) -> Any:
    return sorted(df.select("id", "user").toJSON().collect())
@snippet
def collect_asDict(spark: Any, df: Any, tmp: str) -> Any:
    return [r.asDict(recursive=True) for r in df.select("id", "addr").collect()]
@snippet
def toLocalIterator(spark: Any, df: Any, tmp: str) -> Any:
    return [r["id"] for r in df.toLocalIterator()]
@snippet
def first_head_take(spark: Any, df: Any, tmp: str) -> Any:
    return df.orderBy("id").first().id, df.orderBy("id").head(2)[1].id, len(df.take(3))
_add("createDataFrame of Rows, no schema", lambda spark, df, _: spark.createDataFrame([t.Row(a=1, b="x")]))
_add("createDataFrame names only", lambda spark, df, _: spark.createDataFrame([(1, "x"), (2, None)], ["a", "b"]))
@snippet
def createDataFrame_of_pandas(spark: Any, df: Any, tmp: str) -> Any:
    return spark.createDataFrame(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
_add("broadcast join", lambda spark, df, _: df.select("id").join(F.broadcast(spark.createDataFrame([(1, "x")],
    "id INT, n STRING")), "id"))
_add("udf decorator", lambda spark, df, _: df.select(F.udf(lambda u: (u or "?").upper(), "string")("user").alias("u")))
@snippet
def udf_register_in_sql(spark: Any, df: Any, tmp: str) -> Any:
    spark.udf.register("plus1", lambda x: x + 1, "int")
    return df.selectExpr("plus1(id) as y")
_add("pandas_udf", lambda spark, df, _: df.select(F.pandas_udf(lambda s: s * 2, "double")("amount").alias("d")))
_add("mapInPandas", lambda spark, df, _: df.select("id", "amount").mapInPandas(lambda it: (p[p.amount > 0] for p in it),
    "id INT, amount DOUBLE"))
_add("applyInPandas", lambda spark, df, _: df.select("user", "amount").groupBy("user").applyInPandas(lambda p: p.assign(amount=p
    .amount.fillna(0).sum()).head(1), "user STRING, amount DOUBLE"))
_add("regexp_extract_all, rlike, translate", lambda spark, df, _: df.select(F
    .expr("regexp_extract_all(value, '\"(\\\\w+)\":', 1)").alias("a"), F.col("user").rlike("^a").alias("b"), F.translate("user",
    "abn", "xyz").alias("c")))
_add("time zones", lambda spark, df, _: df.select(F.from_utc_timestamp("ts", "Europe/Zurich").alias("z"), F
    .to_utc_timestamp("ts", "America/New_York").alias("u")))
_add("date functions", lambda spark, df, _: df.select(F.date_format("ts", "EEE dd MMM yyyy HH:mm").alias("f"), F
    .months_between(F.lit("2024-06-01"), "ts").alias("m"), F.add_months("ts", 1).alias("a"), F.next_day("ts", "Mon").alias("n"),
    F.trunc("ts", "month").alias("t")))
_add("to_timestamp with pattern, interval", lambda spark, df, _: df.select(F.to_timestamp(F.lit("03/02/2024 04:05"),
    "dd/MM/yyyy HH:mm").alias("a"), (F.col("ts") + F.expr("INTERVAL 2 HOURS")).alias("b")))
_add("from_unixtime / timestamp_seconds", lambda spark, df, _: df.select(F.from_unixtime(F.lit(1711843200)).alias("a"), F
    .timestamp_seconds(F.lit(1711843200)).alias("b"), F.unix_millis("ts").alias("c")))
_add("arrays", lambda spark, df, _: df.select(F.array_contains("tags", "b").alias("a"), F.array_distinct("tags").alias("b"), F
    .slice("tags", 1, 1).alias("c"), F.array_join("tags", ",", "-").alias("d"), F.size("tags").alias("e"), F.flatten(F
    .array("tags", "tags")).alias("f")))
_add("maps", lambda spark, df, _: df.select(F.map_keys("props").alias("a"), F.map_values("props").alias("b"), F
    .col("props")["src"].alias("c"), F.create_map(F.lit("k"), "id").alias("d"), F.map_from_arrays(F.array(F.lit("x")), F
    .array("id")).alias("e")))
_add("higher-order functions", lambda spark, df, _: df.select(F.transform("tags", lambda x: F.upper(x)).alias("a"), F
    .filter("tags", lambda x: x.isNotNull()).alias("b"), F.exists("tags", lambda x: x == "a").alias("c"), F.aggregate(F.array(F
    .lit(1), F.col("id")), F.lit(0), lambda a, x: a + x).alias("d")))
_add("higher-order functions in SQL", lambda spark, df, _: df.selectExpr("transform(tags, x -> concat(x, '!')) as a",
    "filter(tags, t -> t <> 'b') as b"))
_add("unionByName allowMissingColumns", lambda spark, df, _: df.select("id").unionByName(spark.createDataFrame([(9, "z")],
    "id INT, user STRING"), allowMissingColumns=True))
_add("union, intersect, exceptAll", lambda spark, df, _: df.select("id").union(df.select("id")).intersect(df.select("id"))
    .exceptAll(spark.createDataFrame([(1,)], "id INT")))
_add("fillna, na.replace", lambda spark, df, _: df.select("user", "amount").fillna({"user": "?", "amount": 0.0}).na
    .replace("ann", "Ann"))
_add("sample with a seed", lambda spark, df, _: df.sample(0.5, seed=3).select("id").filter("id >= 0").limit(0))
_add("repartition by column, coalesce", lambda spark, df, _: df.repartition(4, "user").coalesce(1).select("id"))
_add("sortWithinPartitions", lambda spark, df, _: df.select("id").sortWithinPartitions("id"))
@snippet
def checkpoint_local(spark: Any, df: Any, tmp: str) -> Any:
    return df.localCheckpoint().count()
@snippet
def foreachPartition(spark: Any, df: Any, tmp: str) -> Any:
    df.foreachPartition(lambda rows: [r.id for r in rows])
@snippet
def foreach_row(spark: Any, df: Any, tmp: str) -> Any:
    df.foreach(lambda r: r.id)
@snippet
def conf_set_get(spark: Any, df: Any, tmp: str) -> Any:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark.conf.get("spark.sql.shuffle.partitions")
@snippet
def accumulator(spark: Any, df: Any, tmp: str) -> Any:
    acc = spark.sparkContext.accumulator(0)
    df.foreach(lambda r: acc.add(1))
    return acc.value
@snippet
def broadcast_variable(spark: Any, df: Any, tmp: str) -> Any:
    b = spark.sparkContext.broadcast({"ann": 1})
    return df.select(F.udf(lambda u: b.value.get(u), "int")("user").alias("x"))
_add("current_timestamp, uuid columns", lambda spark, df, _: df.select("id", F.current_timestamp().alias("now"), F
    .expr("uuid()").alias("u")).select("id"))
_add("monotonically_increasing_id, spark_partition_id", lambda spark, df, _: df.coalesce(1).select(F
    .monotonically_increasing_id().alias("m"), F.spark_partition_id().alias("p")))
_add("input_file_name / hash / xxhash64", lambda spark, df, _: df.select(F.hash("id", "user").alias("h"), F.xxhash64("id")
    .alias("x")))
_add("when/otherwise + isin + between", lambda spark, df, _: df.select(F.when(F.col("amount") > 5, "hi").when(F.col("amount")
    .isNull(), "none").otherwise("lo").alias("c"), F.col("id").isin([1, 2]).alias("d"), F.col("id").between(1, 2).alias("e")))
_add("cast decimal, format_number, bround", lambda spark, df, _: df.select(F.col("amount").cast("decimal(12,2)").alias("a"), F
    .format_number("amount", 1).alias("b"), F.bround("amount", 0).alias("c")))
_add("try_cast / try_divide", lambda spark, df, _: df.selectExpr("try_cast(user as int) as a", "try_divide(id, 0) as b"))
_add("to_json struct(*) for Kafka", lambda spark, df, _: df.select(F.col("id").cast("string").alias("key"), F.to_json(F
    .struct("id", "user", "addr")).alias("value")))
_add("get_json_object / json_tuple", lambda spark, df, _: df.select(F.get_json_object("value", "$.order.no").alias("n"), F
    .json_tuple("value", "at").alias("at")))
_add("select by list comprehension, dtypes", lambda spark, df, _: df.select([F.col(c).alias(c.upper()) for c, t in df
    .dtypes if t in ("int", "string")]))
_add("drop struct field, colRegex, describe", lambda spark, df, _: df.select(F.col("addr").dropFields("zip").alias("a")))
@snippet
def observe_metrics(spark: Any, df: Any, tmp: str) -> Any:
    o = Observation("m")
    df.observe(o, F.count(F.lit(1)).alias("n")).collect()
    return o.get
@snippet
def catalog_tableExists(spark: Any, df: Any, tmp: str) -> Any:
    return spark.catalog.tableExists("no_such_table")
@snippet
def printSchema_show_explain(spark: Any, df: Any, tmp: str) -> Any:
    df.printSchema()
    df.show(2, truncate=False)
@snippet
def randomSplit(spark: Any, df: Any, tmp: str) -> Any:
    a, b = df.randomSplit([0.5, 0.5], seed=1)
    return a.count() + b.count()
@snippet
def groupBy_max_struct(spark: Any, df: Any, tmp: str) -> Any:
    return df.groupBy("user").agg(F.max(F.struct("ts", "id")).alias("m")).select("user", "m.id")
# fmt: on


def result(session: Any, name: str, place: str) -> Any:
    """Return what a snippet gives: the columns and the rows of a frame, or a value as text."""
    made = SNIPPETS[name](session, session.createDataFrame(ROWS, SCHEMA).coalesce(1), place)
    if not hasattr(made, "collect"):
        return repr(made)
    return [
        [[field.name, field.dataType.simpleString()] for field in made.schema.fields],
        sorted(map(repr, made.collect())),
    ]
