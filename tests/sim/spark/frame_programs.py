"""Programs on DataFrames, each run on Spark and on rows in memory: what `foreachBatch` functions do with columns."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

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


PROGRAMS: dict[str, Program] = {
    "star": lambda df: df.select("*"),
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
    "rows as they are": lambda df: df.limit(1).select("s", "a", "p", "m", "t"),
}

OUTCOMES = Path(__file__).parent / "frame_outcomes.json"
"""What Spark 4.3 gave for each program; tests/spark/test_frames_conformance.py keeps it true."""


def outcome(df: Any, program: Program) -> Any:
    """The columns and the rows that a program gives, or the class of Spark's error."""
    try:
        made = program(df)
        columns = [[field.name, field.dataType.simpleString()] for field in made.schema.fields]
        return [columns, sorted(map(repr, made.collect()))]
    except PySparkException as error:
        return str(error).partition("]")[0].lstrip("[")
