"""Programs on DataFrames, each run on Spark and on rows in memory: what `foreachBatch` functions do with columns."""

import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace_sim.spark.pyspark_versions import VERSION

SCHEMA = (
    "k STRING, i INT, l BIGINT, d DOUBLE, f FLOAT, b BOOLEAN, t TIMESTAMP, day DATE, m DECIMAL(10,2), "
    "s STRUCT<x: INT, y: STRING>, a ARRAY<INT>, p MAP<STRING, INT>, n STRING, j STRING"
)
ROWS: list[tuple[Any, ...]] = [
    ("a", 1, 10, 1.5, 0.1, True, datetime(2024, 1, 2, 3, 4, 5, 600), date(2024, 1, 2), Decimal("1.50"), (1, "one"),
     [1, 2], {"u": 1}, "12", '{"x": 7, "y": "q"}'),
    ("b", -7, 1 << 40, float("nan"), 2.5, False, datetime(2024, 5, 6), date(2020, 2, 29), Decimal("-2.25"),
     (None, "two"), [3], {}, " -3 ", '{"x": "no", "z": [1]}'),
    ("c", None, None, None, None, None, None, None, None, None, None, None, None, None),
    ("a", 2147483647, 9, 1e10, 1e20, True, datetime(1999, 12, 31, 23, 59, 59), date(1999, 12, 31), Decimal("0.00"),
     (5, None), [], {"v": None}, "7", "broken"),
    ("", 0, 0, -0.0, 0.0, False, datetime(2024, 1, 2), date(2024, 1, 2), Decimal("3.00"), (0, ""), [None], {"u": 2}, "0", ""),
]  # fmt: skip

Program = Callable[[Any], Any]


def _one(column: Callable[[], Any]) -> Program:
    return lambda df: df.select(column())


def _upper(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for part in parts:
        yield part.str.upper()


def _names(df: Any) -> Any:
    rows = [("a", "Ann"), ("a", "Al"), ("b", None), (None, "nobody"), ("z", "Zoe")]
    return df.sparkSession.createDataFrame(rows, "k STRING, name STRING")


PROGRAMS: dict[str, Program] = {
    "star": lambda df: df.select("*"),
    "transform": _one(lambda: F.transform("a", lambda item: item + 1).alias("x")),
    "transform with places": lambda df: df.select(
        F.transform("a", lambda item, place: item * place + F.col("i") % 10)
    ),
    "transform within transform": _one(
        lambda: F.transform("a", lambda x: F.transform(F.array(x), lambda y: x + y))
    ),
    "filter items": _one(lambda: F.filter("a", lambda item: item > 1)),
    "exists": _one(lambda: F.exists("a", lambda item: item > 1)),
    "forall": _one(lambda: F.forall("a", lambda item: item > 1)),
    "filter items by a number": _one(lambda: F.filter("a", lambda item: item)),
    "fill numbers": lambda df: df.na.fill(7),
    "fill fractions": lambda df: df.fillna(1.9, subset=["i", "d", "k"]),
    "fill text": lambda df: df.na.fill("none", ["K", "i"]),
    "fill truths": lambda df: df.fillna(True),
    "fill by column": lambda df: df.na.fill({"k": "-", "f": 2, "b": False}).select("k", "f", "b"),
    "fill a column that is not there": lambda df: df.fillna(1, subset=["none"]),
    "union by name of more columns": lambda df: df.select("k").unionByName(df.select("i", "k")),
    "union by name of columns that one lacks": lambda df: df.select("k", "i").unionByName(
        df.select("d", "K", "s"), allowMissingColumns=True
    ),
    "frame of inferred types": lambda df: df.sparkSession.createDataFrame([("a", 1), (None, 2)], ["k", "n"]),
    "frame of rows by names": lambda df: df.sparkSession.createDataFrame([{"k": "a", "n": 1.5}, {"k": "b"}]),
    "frame of values of two types": lambda df: df.sparkSession.createDataFrame([("a", 1), ("b", "c")]),
    "names": lambda df: df.select("k", df.i, df["l"], F.col("K"), "s.x"),
    "star of a struct": lambda df: df.select("k", "s.*"),
    "add": _one(lambda: F.col("l") + 1),
    "add overflows": _one(lambda: F.col("i") + 1),
    "add fraction": _one(lambda: F.col("i") + 0.5),
    "add integer and float": _one(lambda: F.col("l") + F.col("f")),
    "add short literal and float": _one(lambda: F.col("f") + F.col("f")),
    "reverse": _one(lambda: 10 - F.col("i") % 100),
    "multiply": _one(lambda: (F.col("l") * 2).alias("twice")),
    "divide": _one(lambda: F.col("i") / 4),
    "divide floats": _one(lambda: F.col("f") / 4),
    "divide by zero": _one(lambda: F.lit(1) / F.col("i")),
    "remainder": lambda df: df.select(F.col("i") % 3, F.col("d") % 2),
    "negate": lambda df: df.select(-F.col("l"), -F.col("d"), F.abs("d")),
    "compare": lambda df: df.select(
        df.i > 0, df.d >= 1.5, df.k == "a", df.k != "a", df.f < df.d, df.d == F.lit(float("nan"))
    ),
    "compare with text": lambda df: df.select(
        df.t > "2024-01-01", df.day == "2024-01-02", df.i == "1", df.t >= df.day
    ),
    "compare with a null": lambda df: df.select(df.i == None, df.i.eqNullSafe(None), df.d.eqNullSafe(df.d)),  # noqa: E711
    "logic": lambda df: df.select(df.b & (df.i > 0), df.b | (df.i > 0), ~df.b),
    "logic of nulls": lambda df: df.select(df.b & F.lit(False), df.b | F.lit(True), df.b & F.lit(None)),
    "null tests": lambda df: df.select(df.i.isNull(), df.i.isNotNull(), F.isnull("d")),
    "in": lambda df: df.select(df.i.isin(1, 2), df.k.isin(["a", "c"]), df.i.isin(1, None)),
    "between": lambda df: df.filter(df.i.between(0, 10)),
    "case": lambda df: df.select(
        F.when(df.i > 0, "up").when(df.i < 0, "down").otherwise("level"), F.when(df.b, df.i).alias("if")
    ),
    "case of numbers": lambda df: df.select(F.when(df.b, 1).otherwise(2.5)),
    "coalesce": lambda df: df.select(F.coalesce("i", F.lit(0)), F.coalesce(df.i, df.l)),
    "greatest": lambda df: df.select(F.greatest("i", "l"), F.least(df.d, F.lit(1.0))),
    "to string": lambda df: df.select(
        *(F.col(name).cast("string") for name in "kildfb"),
        df.t.cast("string"),
        df.day.cast("string"),
        df.m.cast("string"),
    ),
    "to integers": lambda df: df.filter(df.d < 100).select(
        df.d.cast("int"), df.m.cast("long"), df.b.cast("int"), df.t.cast("long"), df.n.cast("int")
    ),
    "nan to int": lambda df: df.select(df.d.cast("int")),
    "text to int": lambda df: df.select(df.k.cast("int")),
    "to fractions": lambda df: df.select(
        df.i.cast("double"), df.d.cast("float"), df.n.cast("double"), df.m.cast("double"), df.t.cast("double")
    ),
    "to boolean": lambda df: df.select(df.i.cast("boolean"), (df.i > 0).cast("string").cast("boolean")),
    "to dates": lambda df: df.select(
        df.t.cast("date"),
        df.day.cast("timestamp"),
        F.lit("2024-02-03").cast("date"),
        F.lit("2024-02-03 04:05").cast("timestamp"),
    ),
    "text to date": lambda df: df.select(df.k.cast("date")),
    "seconds to a timestamp": lambda df: df.filter(df.i < 10).select(df.i.cast("timestamp")),
    "to decimals": lambda df: df.filter(df.l < 100).select(
        df.l.cast("decimal(12,1)"), df.n.cast("decimal(4,2)")
    ),
    "decimal overflows": lambda df: df.select(df.l.cast("decimal(3,1)")),
    "cast of a sum": lambda df: df.select((df.l + 1).cast("string")),
    "cast to a type": lambda df: df.select(df.i.cast(df.schema["l"].dataType)),
    "text": lambda df: df.select(
        F.upper("k"),
        F.lower(df.k),
        F.length("n"),
        F.trim("n"),
        F.concat(df.k, F.lit("-"), df.i),
        df.n.substr(1, 2),
        F.substring("n", -2, 2),
    ),
    "text tests": lambda df: df.filter(df.k.startswith("a") | df.n.contains("3") | df.k.endswith("c")),
    "fields": lambda df: df.select(df.s.x, df.s["y"], df.s.getField("x")),
    "element": lambda df: df.filter(F.col("k") == "b").select(df.a[0], df.p["u"]),
    "element is missing": lambda df: df.select(df.a[1]),
    "struct": lambda df: df.select(F.struct("k", df.i).alias("pair"), F.array(df.i, F.lit(2))),
    "from json": lambda df: df.select(F.from_json("j", "x INT, y STRING").alias("made")).select("made.*"),
    "from json, whole": lambda df: df.select(F.from_json(df.j, "x INT, z ARRAY<INT>")),
    "with column": lambda df: (
        df.withColumn("i", df.i.cast("long") + 1).withColumn("new", F.lit("x")).drop("s", "missing")
    ),
    "renamed": lambda df: df.withColumnRenamed("K", "key").withColumnRenamed("missing", "x"),
    "filter": lambda df: df.where((df.i > 0) & df.k.isNotNull()),
    "filter is no condition": lambda df: df.filter(df.i),
    "distinct": lambda df: df.select("k").distinct(),
    "distinct by keys": lambda df: df.select("k", "b").dropDuplicates(["k"]),
    "no nulls": lambda df: df.select("k", "i", "l").dropna(),
    "no nulls in one": lambda df: df.select("k", "i").dropna(subset=["i"]),
    "union": lambda df: df.select("k").union(df.select("n")),
    "union by name": lambda df: df.select("k", "i").unionByName(df.select("i", "k")),
    "sorted": lambda df: df.select("k", "l").orderBy(F.col("l").desc(), "k").limit(3),
    "sorted up": lambda df: df.select("d").sort("d"),
    "sorted by names": lambda df: df.orderBy(F.desc("l"), F.asc_nulls_last("k")).limit(2).select("k"),
    "count by key": lambda df: df.groupBy("k").count(),
    "totals": lambda df: df.groupBy("k").agg(
        F.sum("l").alias("sum"), F.count("*"), F.count("i"), F.max("d"), F.min(df.t), F.avg("l")
    ),
    "sum overflows not": lambda df: df.groupBy().agg(F.sum("i")),
    "sum of columns": lambda df: df.groupBy("k").sum("l"),
    "all rows": lambda df: df.agg(F.max("i"), F.count(F.lit(1)).alias("rows")),
    "of no rows": lambda df: df.filter(df.i > 5e9).agg(F.sum("i"), F.count("*"), F.max("k")),
    "computed group": lambda df: df.groupBy((df.l % 2).alias("odd")).agg(F.count("*").alias("n")),
    "by a dict": lambda df: df.groupBy("k").agg({"l": "max"}),
    "not grouped": lambda df: df.groupBy("k").agg(df.i),
    "no such column": lambda df: df.select("nothing"),
    "not a number": lambda df: df.select(df.b + 1),
    "text functions": lambda df: df.select(
        F.initcap(F.concat(df.k, F.lit("Bc de"))),
        F.instr(df.n, "3"),
        F.lpad("n", 4, "ab"),
        F.rpad("n", 2, "x"),
        F.ltrim("n"),
        F.rtrim("n"),
        F.repeat("k", 2),
        F.md5("n"),
        F.sha1("n"),
        F.sha2("n", 256),
        F.crc32("n"),
        F.md5(df.j),
    ),
    "patterns": lambda df: df.select(
        df.j.like("%x_%"),
        df.n.like("1_"),
        df.n.rlike("[0-9]$"),
        F.regexp_replace("j", r"(\w)\W+(\w)", "$2-$1"),
        F.regexp_extract("j", r'"x": (\d+)', 1),
        F.split("j", ":"),
        F.split("j", "[:,]", 2),
        F.split(df.n, ""),
        F.regexp_replace("n", " ", ""),
    ),
    "joined": lambda df: df.select(
        F.concat_ws("-", "k", df.i, "n"),
        F.concat_ws("", F.split("j", ":"), "k"),
        F.size("a"),
        F.size("p"),
        F.size(F.split("n", "")),
    ),
    "collected": lambda df: df.groupBy("k").agg(
        F.collect_list("i"), F.concat_ws(",", F.collect_list("n")).alias("n")
    ),
    "numbers joined": lambda df: df.select(F.concat_ws("-", "a")),
    "sorted arrays": lambda df: df.select(
        F.array_sort(F.array("i", F.lit(0), F.lit(5))).alias("up"),
        F.sort_array(F.array("i", F.lit(0), F.lit(5))).alias("nulls first"),
        F.sort_array(F.array("n", "k"), asc=False).alias("down"),
    ),
    "days in a row of letters": lambda df: df.select(F.date_format("t", "yyyyMMddHHmmss")),
    "days": lambda df: df.select(
        F.year("t"),
        F.quarter("day"),
        F.month("t"),
        F.dayofmonth("day"),
        F.dayofweek("day"),
        F.dayofyear("t"),
        F.weekday("t"),
        F.last_day("day"),
        F.to_date("t"),
        F.datediff("day", "t"),
        F.date_add("day", 3),
        F.date_sub("t", 40),
        F.date_add("day", df.i % 5),
    ),
    "times": lambda df: df.select(
        F.hour("t"),
        F.minute("t"),
        F.second("t"),
        F.unix_timestamp("t"),
        F.to_timestamp(F.lit("2024-02-03 04:05:06")),
        F.date_trunc("week", "t"),
        F.date_trunc("HOUR", "t"),
        F.date_trunc("mon", "day"),
        F.date_trunc("never", "t"),
        F.date_format("t", "yyyy-MM-dd'T'HH:mm:ss"),
        F.date_format("day", "dd/MM/yyyy"),
    ),
    "numbers": lambda df: df.select(
        F.round("d", 1),
        F.round(F.lit(2.5)),
        F.round(F.lit(-1.25), 1),
        F.sqrt("d"),
        F.pow("i", F.lit(2)),
        F.sqrt("i"),
    ),
    "whole numbers": lambda df: df.filter(df.k == "a").select(F.floor("d"), F.ceil("d"), F.ceil(-df.d)),
    "whole number of none": lambda df: df.select(F.floor(df.d * 1e10)),
    "latest of each key": lambda df: (
        df.withColumn("n", F.row_number().over(Window.partitionBy("k").orderBy(F.desc("t"))))
        .filter("n = 1")
        .drop("n", "p")
    ),
    "ranks": lambda df: df.select(
        "l",
        F.rank().over(Window.orderBy("b")).alias("a"),
        F.dense_rank().over(Window.orderBy(F.col("b").desc())).alias("b"),
        F.row_number().over(Window.orderBy(F.col("i").desc_nulls_first(), "k")).alias("c"),
        F.row_number().over(Window.orderBy(F.asc_nulls_last("d"))) + 10,
    ),
    "neighbours": lambda df: df.select(
        "k",
        F.lag("l").over(Window.orderBy("t")).alias("a"),
        F.lead("i", 2, 0).over(Window.orderBy("t")).alias("b"),
        (F.col("l") - F.lag("l", 1).over(Window.partitionBy("k").orderBy("t"))).alias("c"),
        F.lag("k").over(Window.orderBy("i")),
    ),
    "totals over windows": lambda df: df.select(
        "*",
        F.sum("l").over(Window.partitionBy("k")),
        F.sum("l").over(Window.orderBy("b")),
        F.count("*").over(Window.partitionBy()).alias("all"),
        F.max("i").over(Window.orderBy("t").rowsBetween(Window.unboundedPreceding, -1)).alias("before"),
        F.min("l").over(Window.orderBy("t").rowsBetween(-1, 1)),
        F.avg("l")
        .over(Window.orderBy("b").rangeBetween(Window.currentRow, Window.unboundedFollowing))
        .alias("rest"),
    ).drop("s", "a", "p"),
    "row number without an order": lambda df: df.select(F.row_number().over(Window.partitionBy("k"))),
    "window in a filter": lambda df: df.filter(F.row_number().over(Window.orderBy("k")) == 1),
    "SQL windows": lambda df: df.selectExpr(
        "k",
        "row_number() over (partition by k order by t desc, l) as n",
        "sum(l) OVER (ORDER BY b) as s",
        "count(*) over () as c",
        "max(i) over (order by t rows between unbounded preceding and current row) as m",
        "min(i) over (order by t rows between 1 preceding and 1 following) as f",
        "lag(i, 1) over (order by t nulls last) as g",
    ),
    "join": lambda df: df.select("k", "i").join(_names(df), "k"),
    "join left": lambda df: df.select("i", "k").join(F.broadcast(_names(df)), ["k"], "left"),
    "join right": lambda df: df.select("k", "i").join(_names(df).hint("broadcast"), "k", "right_outer"),
    "join full": lambda df: df.select("i", "k").join(_names(df), "k", "outer"),
    "join semi": lambda df: df.select("k", "i").join(_names(df), "k", "left_semi"),
    "join anti": lambda df: df.select("k", "i").join(_names(df), "k", "anti"),
    "join cross": lambda df: df.select("i").crossJoin(_names(df).select("name")),
    "join by a condition": lambda df: df.select("k", "i").join(
        _names(df).withColumnRenamed("k", "key"), (F.col("k") == F.col("key")) & (F.col("i") > 0), "left"
    ),
    "join by two conditions": lambda df: df.select("i", "l").join(
        _names(df).withColumnRenamed("k", "key"), [F.col("l") > F.col("i"), F.col("key") != "b"]
    ),
    "join with names twice": lambda df: (
        df.select("k", "i")
        .join(df.select("k", F.col("i").alias("j"), "l"), F.col("i") == F.col("j"))
        .withColumn("l", F.col("l") + 1)
        .drop("j")
        .select("*")
        .distinct()
    ),
    "join with a name twice that is asked for": lambda df: (
        df.select("k").crossJoin(df.select("k")).select("k")
    ),
    "join of aliases": lambda df: (
        df.select("k", "i", "s")
        .alias("a")
        .join(_names(df).alias("b"), F.col("a.k") == F.col("b.k"), "left")
        .filter("a.i is not null or b.name is null")
        .select("a.k", F.col("b.k").alias("other"), "b.name", "a.s.x", "i")
    ),
    "join with itself": lambda df: (
        df.select("k", "i")
        .alias("a")
        .join(df.select("k", "i").alias("b"), F.expr("a.k = b.k and a.i < b.i"))
        .select("a.*", "b.i")
    ),
    "no such alias": lambda df: df.alias("a").select("b.k"),
    "join on no column": lambda df: df.join(_names(df), "nothing"),
    "join of no kind": lambda df: df.join(_names(df), "k", "sideways"),
    "SQL conditions": lambda df: df.filter("i > 0 AND l != 9 or not (k <> '' and b)").select("k", "i"),
    "SQL tests": lambda df: df.where("i in (1, 0) or n like '%3' or k is null and i between -7 and 1").select(
        "k"
    ),
    "SQL tests, negated": lambda df: df.select(
        F.expr("i not in (1, 2)").alias("a"),
        F.expr("k not like 'a%'").alias("b"),
        F.expr("i is not null and not b").alias("c"),
        F.expr("i not between 0 and 1").alias("d"),
        F.expr("n rlike '[0-9]$'").alias("e"),
    ),
    "SQL columns": lambda df: df.selectExpr(
        "k",
        "CAST(i AS STRING)",
        "l + 1 as more",
        "-l * 2 - 1 less",
        "s.x",
        "`k` AS `a b`",
        "i <=> null",
        "d / 2D",
        "upper(k)",
    ),
    "SQL star": lambda df: df.selectExpr("s.*", "i"),
    "SQL casts": lambda df: df.filter("k = 'a'").selectExpr(
        "cast(n as int) + 1 as a",
        "n::double as b",
        "string(i) as c",
        "cast(m as decimal(12, 1)) as d",
        "DATE '2024-02-03' as e",
        "timestamp '2024-02-03 04:05:06' as f",
        "12L as g",
        "1e3 as h",
        "2.50 as i",
    ),
    "SQL cases": lambda df: df.selectExpr(
        "CASE WHEN i > 0 THEN 'up' WHEN i < 0 THEN \"down\" ELSE 'level' END AS way",
        "case k when 'a' then 1 when 'b' then 2 end as which",
        "if(b, i, 0) as given",
    ),
    "SQL functions": lambda df: df.selectExpr(
        "coalesce(i, 0) as a",
        "nvl(k, 'none') as b",
        "concat(k, '-', i) as c",
        "k || '\\n' || n as d",
        "concat_ws('-', k, i, n) as e",
        "substring(n, 1, 2) as f",
        "substr(n, 2) as g",
        "date_format(t, 'yyyy-MM-dd') as h",
        "year(t) as i",
        "startswith(k, 'a') as j",
        "greatest(i, l) as k",
        "regexp_replace(n, '[0-9]', '#') as l",
        "sha2(k, 256) as m",
        "size(a) as n",
        "to_date(t) as o",
    ),
    "SQL of collections": lambda df: df.filter("k = 'a' and l = 10").selectExpr(
        "a[0] as a",
        "p['u'] as b",
        "struct(k, i as j) as c",
        "array(i, 2) as d",
        "from_json(j, 'x INT').x as e",
    ),
    "SQL aggregates": lambda df: df.groupBy("k").agg(
        F.expr("count(*) as n"), F.expr("sum(l)").alias("sum"), F.expr("max(i) - min(i) as span")
    ),
    "SQL decimals": lambda df: df.selectExpr(
        "m > 1.25 as a", "i > 0.5 as b", "d < 1.75 as c", "coalesce(m, 0.125) as d", "m = 3 as e"
    ),
    "decimals": lambda df: df.select(
        df.m + df.m,
        df.m * df.m,
        df.m - 1,
        df.m / 3,
        df.m % 2,
        -df.m,
        F.abs("m"),
        df.m * df.i.cast("int") % 7,
        df.m + df.d,
    ),
    "SQL arithmetic of decimals": lambda df: df.selectExpr(
        "i % 100 * 1.25 as a", "l + 0.5 as b", "1 / 3.0 as c", "2.50 * 2 as d", "n * 1.5 as e"
    ),
    "totals of decimals": lambda df: df.groupBy("k").agg(
        F.sum("m"), F.avg("m"), F.max("m"), F.sum(F.expr("m * 0.1")).alias("tenth")
    ),
    "decimals overflow": lambda df: df.selectExpr(
        "cast(m as decimal(38, 0)) * 99999999999999999999999999999999999999"
    ),
    "decimal divided by zero": lambda df: df.selectExpr("m / 0.0"),
    "case is lazy": lambda df: df.select(
        F.when(df.i == 0, 0).otherwise(1 / df.i).alias("x"),
        F.expr("if(size(a) > 0, a[0], -1)"),
        F.expr("size(a) in (0, a[0])").alias("y"),
    ),
    "SQL precedence": lambda df: df.selectExpr(
        "2 + 3 * 4 - 6 / 3 as a",
        "not true or true as b",
        "1 = 1 and 2 > 1 as c",
        "-2 + 1 as d",
        "7 % 4 * 2 as e",
    ),
    "SQL names no column": lambda df: df.filter("nothing > 1"),
    "SQL of no condition": lambda df: df.filter("i + 1"),
    "udf": lambda df: df.select(
        F.udf(lambda text: f"<{text}>")("k"), F.udf(lambda: 7, "int")().alias("seven")
    ),
    "udf is given Python's values": lambda df: df.select(
        F.udf(lambda *given: repr(given))("i", "d", "b", "t", "day", "m", "s", "a", "p", "n")
    ),
    "udf by names": lambda df: df.select(
        F.udf(lambda k, i=3: f"{k}{i}")("k"),
        F.udf(lambda k, i=3: f"{k}{i}")(F.upper(df.k), i=F.lit(2) + 1),
        F.udf(lambda k, i=3: f"{k}{i}")(i=df.l, k=df.n),
    ),
    "udf of a udf": lambda df: df.where(
        F.udf(lambda length: length > 0, "boolean")(F.udf(len, "int")(F.coalesce("k", F.lit(""))))
    ),
    "udf returns a struct": lambda df: df.select(
        F.udf(lambda k: (1, k), "x INT, y STRING")("k").alias("pair")
    ).select("pair.*"),
    "udf returns another type": lambda df: df.limit(1).select(
        F.udf(lambda _: 2.7, "int")("k"),
        F.udf(lambda _: 3, "double")("k"),
        F.udf(lambda _: "7", "bigint")("k"),
        F.udf(lambda _: (1, 2), "array<int>")("k"),
        F.udf(lambda _: 3)("k"),
        F.udf(lambda _: True)("k"),
    ),
    "udf without Arrow returns another type": lambda df: df.limit(1).select(
        F.udf(lambda _: 2.7, "int", useArrow=False)("k"),
        F.udf(lambda _: 3, "double", useArrow=False)("k"),
        F.udf(lambda _: "7", "bigint", useArrow=False)("k"),
        F.udf(lambda _: 1 << 40, "int", useArrow=False)("k"),
        F.udf(lambda _: 3, useArrow=False)("k"),
        F.udf(lambda _: True, useArrow=False)("k"),
        F.udf(lambda _: datetime(2024, 1, 2, 3), "timestamp", useArrow=False)("k"),
        F.udf(lambda _: (1, 2.5), "x INT, y STRING", useArrow=False)("k"),
    ),
    "exploded": lambda df: df.select("k", F.explode("a")),
    "exploded, and nulls": lambda df: df.select("k", F.explode_outer("a").alias("item"), "i").withColumn(
        "j", F.col("item") + 1
    ),
    "exploded text": lambda df: df.withColumn("part", F.explode(F.split("j", ":"))).select("k", "part"),
    "grouped by windows": lambda df: (
        df.groupBy(F.window("t", "1 hour"), "b")
        .agg(F.count("*").alias("n"))
        .select("window.start", "window.end", "b", "n")
    ),
    "sliding windows": lambda df: df.groupBy(
        F.window("t", "10 minutes", "4 minutes", "1 minute").alias("w")
    ).count(),
    "columns of windows": lambda df: df.select("k", F.window("t", "1 day").getField("start").alias("day")),
    "SQL window of time": lambda df: df.selectExpr("window(t, '15 minutes').end as e", "k"),
    "two exploded": lambda df: df.select(F.explode("a"), F.explode("a")),
    "to json": lambda df: df.select(
        F.to_json(F.struct("k", "i", "d", "f", "b", "t", "day", "m", "s", "a", "p", "n")).alias("value"),
        F.to_json("a"),
        F.to_json("p"),
    ),
    "whole rows to json": lambda df: df.select("k", "l", "s").selectExpr(
        "k AS key", "to_json(struct(*)) AS value"
    ),
    "json object": lambda df: df.select(
        F.get_json_object("j", "$.x"),
        F.get_json_object("j", "$.z[0]").alias("z"),
        F.get_json_object("j", "$.z"),
        F.get_json_object(F.lit('{"a": {"b": [1, {"c": 2.50, "d": null}]}}'), "$.a.b[1]"),
        F.get_json_object(F.lit('{"a": {"b": "x"}}'), "$['a'].b"),
        F.get_json_object(F.lit('{"a": true}'), "$.a"),
    ),
    "ids": lambda df: df.select("k", F.monotonically_increasing_id(), F.spark_partition_id().alias("p")),
    "random values": lambda df: df.select(
        (F.rand() < 1).alias("a"),
        (F.rand(3) >= 0).alias("b"),
        F.length(F.expr("uuid()")).alias("c"),
        F.randn().isNotNull().alias("d"),
    ),
    "arrays and maps": lambda df: df.select(
        F.array_contains("a", 1),
        F.array_contains(F.array("i", F.lit(5)), 2),
        F.element_at("p", "u"),
        F.create_map("k", "i"),
        F.create_map(F.lit("x"), df.d, F.lit("y"), F.lit(1)).alias("m"),
        F.element_at(F.array("i", F.lit(5)), -1).alias("e"),
    ),
    "no such element": lambda df: df.select(F.element_at("a", 2)),
    "not a number?": lambda df: df.select(F.isnan("d"), F.isnan(df.f)),
    "more text": lambda df: df.select(
        F.translate("j", '"x1', "'y"), F.reverse("n"), F.from_unixtime(F.lit(86461))
    ),
    "more days": lambda df: df.select(
        F.add_months("day", 1),
        F.add_months("day", -13),
        F.trunc("day", "month"),
        F.trunc("t", "week"),
        F.trunc("day", "hour"),
    ),
    "more numbers": lambda df: df.select(F.exp(F.lit(0)), F.log("i")),
    "first and last": lambda df: (
        df.select("b", "i", "k")
        .groupBy("b")
        .agg(
            F.first("i"), F.last("i"), F.first("i", ignorenulls=True).alias("f"), F.last("k", True).alias("l")
        )
    ),
    "distinct values": lambda df: df.groupBy().agg(
        F.countDistinct("k"),
        F.count_distinct("k", "b"),
        F.sum_distinct(df.l),
        F.sort_array(F.collect_set("k")).alias("set"),
        F.max_by("k", "l"),
        F.min_by("k", "i").alias("least"),
    ),
    "spreads and truths": lambda df: (
        df.groupBy("b")
        .agg(
            *(
                getattr(F, name)("i").alias(name)
                for name in ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
            ),
            F.stddev("l").alias("of longs"),
            F.approx_count_distinct("k"),
            F.approx_count_distinct("i", 0.01),
            F.any_value("k", F.lit(True)).alias("some k"),
            F.expr("count_if(i > 1)").alias("ones"),
            F.expr("bool_and(i > 0)").alias("all"),
            F.expr("bool_or(i > 2)").alias("any"),
        )
        .sort("b")
    ),
    "SQL of rows": lambda df: df.selectExpr(
        "named_struct('a', i, 'b', k) as s",
        "array_contains(a, 3) as c",
        "get_json_object(j, '$.x') as x",
        "map('k', i) as m",
    ),
    "pandas function": lambda df: df.select(
        "k",
        F.pandas_udf(lambda of: of * 2, "double")("d").alias("twice"),
        F.concat(
            F.pandas_udf(lambda one, other: one.str.cat(other, na_rep="?"), "string")("k", df.n), F.lit("!")
        ),
        (F.pandas_udf(lambda of: of.fillna(0), "bigint")(df.l) + 1).alias("more"),
    ),
    "pandas function of other types": lambda df: df.select(
        F.pandas_udf(lambda of: of.dt.year, "int")("t"),
        F.pandas_udf(lambda of: of.notna(), "boolean")("day"),
        F.pandas_udf(lambda of: of.map(len, na_action="ignore"), "int")("a"),
        F.pandas_udf(lambda of: of.astype(str), "string")("b"),
        F.pandas_udf(lambda of: of.astype(str), "string")("i"),
        F.pandas_udf(lambda of: of.astype(str), "string")("m"),
        F.pandas_udf(lambda of: of.astype(str), "string")("t"),
    ),
    "pandas function, by name": lambda df: df.select(
        F.pandas_udf(lambda x, y: x + y, "double")(y=F.col("f").cast("double"), x=df.d).alias("sum")
    ),
    "pandas function of an iterator": lambda df: df.withColumn(
        "u", F.pandas_udf(_upper, "string")("k")
    ).select("u"),
    "pandas function in a filter": lambda df: df.filter(
        F.pandas_udf(lambda of: of.fillna(0) > 5, "boolean")("l") & (F.rand() < 1)
    ).select("k"),
    "pandas function of a total": lambda df: df.select(
        F.pandas_udf(lambda of: of.fillna(0) / of.sum(), "double")("l")
    ),
    "times of text": lambda df: df.select(
        F.to_timestamp(F.lit("2024-03-31 01:02:03"), "yyyy-MM-dd HH:mm:ss"),
        F.to_timestamp(F.lit("31/3/2024 7:05"), "dd/M/yyyy H:mm"),
        F.to_timestamp(F.lit("20240331T010203.250"), "yyyyMMdd'T'HHmmss.SSS"),
        F.to_date(F.lit("1/12/1999"), "d/M/yyyy").alias("day"),
        F.to_timestamp(F.lit(None).cast("string"), "HH:mm"),
        F.to_timestamp(F.lit("23:59"), "HH:mm"),
    ),
    "time of another text": lambda df: df.select(F.to_timestamp("k", "yyyy-MM-dd")),
    "time of text with one digit for two": lambda df: df.select(
        F.to_timestamp(F.lit("2024-3-31"), "yyyy-MM-dd")
    ),
    "no such day": lambda df: df.select(F.to_date(F.lit("2023-02-30"), "yyyy-MM-dd")),
    "text behind a time": lambda df: df.select(F.to_date(F.lit("2023-02-03 10:00"), "yyyy-MM-dd")),
    "rows as they are": lambda df: df.limit(1).select("s", "a", "p", "m", "t"),
}

OUTCOMES = Path(__file__).parent / "frame_outcomes.json"
"""What Spark 4.3 gave for each program; tests/spark/recorded/test_frames_conformance.py keeps it true."""

EARLIER = {
    "text": ((4, 0), "substr(n", "substring(n"),
    "udf returns another type": (
        (4, 2),
        "(k)=2, <lambda>(k)=3.0, <lambda>(k)=7",
        "(k)=None, <lambda>(k)=None, <lambda>(k)=None",
    ),
}
"""Programs that give something else before a release: that release, what is recorded of the newest, and what is there instead."""


def recorded(name: str) -> Any:
    """Return what the installed release of Spark gives for a program."""
    text = json.dumps(json.loads(OUTCOMES.read_text())[name])
    before, newer, older = EARLIER.get(name, ((0, 0), "", ""))
    return json.loads(text.replace(newer, older) if before > VERSION else text)


def set_as_recorded(session: Any) -> None:
    """Let a session of PySpark 3.5 compute as the newer Spark that the outcomes were recorded of."""
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")


def outcome(df: Any, program: Program) -> Any:
    """The columns and the rows that a program gives, or the class of Spark's error."""
    try:
        made = program(df)
        columns = [[field.name, field.dataType.simpleString()] for field in made.schema.fields]
        return [columns, sorted(map(repr, made.collect()))]
    except PySparkException as error:
        return str(error).partition("]")[0].lstrip("[")
