"""Columns under the settings of a session that change values: programs, each on Spark and on rows in memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from headrace_sim.spark.refusals import CannotFollowError
from tests.sim.spark.frame_programs import outcome

OUTCOMES = Path(__file__).parent / "settings_outcomes.json"
"""What Spark 4.3 gave (local[1]); tests/spark/recorded/test_frames_conformance.py keeps it true."""
LEFT = "left to the real Spark"
SCHEMA = "t TIMESTAMP, s STRING, day DATE, l BIGINT, n STRING, a ARRAY<INT>, st STRUCT<x: INT, y: STRING>, m DECIMAL(38,10)"
ROWS: list[tuple[Any, ...]] = [
    (datetime(2024, 3, 31, 0, 59, 59, 250000), "2024-03-31 02:30:00", date(2024, 3, 31), 1711843200, "x1", [1], (1, "a"),
     Decimal("1.5")),
    (datetime(2024, 10, 27, 1, 30), "2024-10-27 02:30:00", date(2024, 10, 27), 1729989000, "7", [], (None, None),
     Decimal("12345678901234567890.1234567891")),
    (datetime(2024, 10, 27, 0, 30), "2024-10-27T01:30:00Z", date(2024, 2, 29), 0, "2147483648", None, None, Decimal(-3)),
    (datetime(1999, 12, 31, 23, 30), "1999-12-31", date(1999, 12, 31), -1, " 12 ", [2, None], (2, "b"), Decimal(0)),
    (None, None, None, None, None, None, None, None),
]  # fmt: skip
Program = Callable[[Any], Any]


def _expressions(*texts: str) -> dict[str, Program]:
    def program(text: str) -> Program:
        return lambda df: df.selectExpr(f"{text} AS x")

    return {text: program(text) for text in texts}


def _each_as_text(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        yield pd.DataFrame({"x": part.t.astype(str)})


def _shown(frame: Any) -> Any:
    """Return what `toPandas` gives, as a frame that can be compared."""
    return frame.sparkSession.createDataFrame([(str(frame.toPandas().t.tolist()),)], "x STRING")


_TIMES = _expressions(
    "cast(t AS string)", "cast(t AS date)", "cast(day AS timestamp)", "cast(s AS timestamp)", "cast(t AS bigint)",
    "cast(l AS timestamp)", "concat(t, '!')", "hour(t)", "minute(t)", "second(t)", "dayofmonth(t)", "year(t)", "weekday(t)",
    "date_format(t, 'yyyy-MM-dd HH:mm:ss')", "date_trunc('day', t)", "date_trunc('hour', t)", "date_trunc('WEEK', t)",
    "date_trunc('minute', t)", "date_trunc('year', day)", "to_timestamp(substr(s, 1, 10), 'yyyy-MM-dd')", "to_timestamp(s)",
    "to_date(s)", "from_unixtime(l, 'yyyy-MM-dd HH:mm:ss')", "unix_timestamp(t)", "unix_timestamp(day)",
    "t + INTERVAL 1 DAY", "t - INTERVAL '1 12' DAY TO HOUR", "t + INTERVAL 3 HOURS", "t > '2024-10-27 02:00:00'",
    "t = TIMESTAMP '2024-10-27 02:30:00'", "TIMESTAMP '2024-03-31 02:30:00'", "TIMESTAMP '2024-03-31T02:30:00Z'",
    "TIMESTAMP '2024-03-31'", "date_add(t, 1)", "datediff(t, day)", "day = t", "greatest(t, day)", "last_day(t)",
    "to_json(struct(t))", "to_json(struct(day))", "from_json(concat('{\"t\": \"', s, '\"}'), 't TIMESTAMP, d DATE')",
    "window(t, '1 day')", "window(day, '1 day')", "trunc(t, 'month')", "date_sub(day, 1)", "cast(t AS double)",
    "from_utc_timestamp(t, 'Asia/Tokyo')", "months_between(t, day)", "unix_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", "hash(t)",
    "make_timestamp(2024, 3, 31, 2, 30, 0)", "date_format(t, 'EEE')", "to_unix_timestamp(day)", "array(t, day)[1]",
)  # fmt: skip
_TIMES |= {
    "udf": lambda df: df.select(F.udf(lambda at: f"{at}", "string")("t").alias("x")),
    "pandas_udf": lambda df: df.select(
        F.pandas_udf(lambda of: of.astype(str), "string")("t").alias("x"),
        F.pandas_udf(lambda of: of, "timestamp")("t").alias("y"),
    ),
    "mapInPandas": lambda df: df.select("t").mapInPandas(_each_as_text, "x STRING"),
    "toPandas": lambda df: _shown(df.select("t")),
    "createDataFrame of pandas": lambda df: df.sparkSession.createDataFrame(
        pd.DataFrame({"t": [pd.Timestamp("2024-10-27 12:00:00")]})
    ),
    "count by day": lambda df: df.groupBy(F.to_date("t").alias("d")).count(),
    "literal": lambda df: df.select((F.col("t") == F.lit(datetime(2024, 10, 27, 1, 30))).alias("x")),
    "compared with text": lambda df: df.filter(df.t < "2024-10-27 02:00").select("s"),
}
_NAMES: dict[str, Program] = {
    "another case": lambda df: df.select("T"),
    "another case in SQL": lambda df: df.selectExpr("L + 1 AS x"),
    "field of a struct": lambda df: df.select("st.X"),
    "field of a struct, as it is": lambda df: df.select("st.x"),
    "two cases": lambda df: df.withColumn("L", F.lit(1)).select("l", "L"),
    "two cases, of which one is dropped": lambda df: df.select("l", "n").withColumn("L", F.lit(1)).drop("L"),
    "drop": lambda df: df.select("l", "n").drop("L"),
    "rename": lambda df: df.select("l", "n").withColumnRenamed("L", "x"),
    "fill": lambda df: df.select("l", "n").fillna({"L": 0}),
    "fill some": lambda df: df.select("l", "n").fillna(0, subset=["L"]),
    "group": lambda df: df.groupBy("S").count(),
    "group by one of two": lambda df: df.withColumn("S", F.lit("a")).groupBy("S").count(),
    "distinct": lambda df: df.select("l").withColumn("L", F.lit(1)).dropDuplicates(["L"]).select("L"),
    "join": lambda df: df.select("l").join(df.select(F.col("l").alias("L")), "l"),
    "join by condition": lambda df: df.select("l").join(
        df.select(F.col("l").alias("L")), F.col("l") == F.col("L")
    ),
    "union of more": lambda df: df.select("l").unionByName(df.select(F.col("l").alias("L")), True),
    "alias": lambda df: df.alias("o").select("O.l"),
}
_DECIMALS = _expressions("m * m", "m / 3.000", "m + 0.123456789012", "m % 7")
_ANSI = _expressions(
    "cast(n AS int)", "l / 0", "element_at(array(1), 3)", "make_date(2024, 13, 1)", "elt(4, n)", "next_day(day, 'no')",
    "size(a)", "n = l", "date_format(t, 'EEE')", "conv('99999999999999999999', 10, 16)", "cast(m AS int)",
)  # fmt: skip
_MAPS = _expressions(
    "map('k', l, 'k', 2)", "map_from_arrays(array('a', 'a'), array(1, 2))", "map_concat(map('a', 1), map('a', l))",
    "map('k', 1)['k']",
)  # fmt: skip
_JSON = _expressions(
    "to_json(struct(l, a, st))", "to_json(st)", "to_json(struct(l), map('ignoreNullFields', 'true'))",
    "from_json(n, 'x INT, _corrupt_record STRING')", "from_json(n, 'x INT, bad STRING')",
)  # fmt: skip
_TEXTS = _expressions(
    r"n rlike '^\\d+$'", r"n rlike '^\d+$'", r"regexp_extract(s, '(\\d+)-', 1)", r"'a\tb'", "split(s, '-')[0]"
)
_SIZES = _expressions("size(a)", "size(null)", "cardinality(a)")
_FORMATS = _expressions(
    "date_format(t, 'yyyy-MM-dd HH:mm')", "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", "date_format(t, 'u')",
    "to_date(s, 'yyyy-MM-dd')", "from_unixtime(l, 'yyyy-MM-dd')",
)  # fmt: skip
_CASTS = _expressions("cast(a AS string)", "cast(st AS string)", "cast(map('a', null) AS string)")
_LEGACY = {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.timeParserPolicy": "CORRECTED"}
_ZONE = "spark.sql.session.timeZone"
CASES: dict[str, tuple[Mapping[str, str], Mapping[str, Program]]] = {
    "Zurich": ({_ZONE: "Europe/Zurich"}, _TIMES),
    "New York": ({_ZONE: "America/New_York"}, _TIMES),
    "Kolkata": ({_ZONE: "Asia/Kolkata"}, _TIMES),
    "offset": ({_ZONE: "-03:30"}, _TIMES),
    "Zurich, without ANSI mode": ({_ZONE: "Europe/Zurich", **_LEGACY}, _TIMES),
    "cases differ": ({"spark.sql.caseSensitive": "true"}, _NAMES),
    "cases do not differ": ({}, _NAMES),
    "maps": ({}, _MAPS),
    "last key wins": ({"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}, _MAPS),
    "ANSI": ({}, _ANSI),
    "without ANSI": (_LEGACY, _ANSI),
    "size of null": ({"spark.sql.legacy.sizeOfNull": "false", **_LEGACY}, _SIZES),
    "size of null as usual": (_LEGACY, _SIZES),
    "nulls in JSON": ({"spark.sql.jsonGenerator.ignoreNullFields": "false"}, _JSON),
    "JSON": ({}, _JSON),
    "corrupt record": ({"spark.sql.columnNameOfCorruptRecord": "bad"}, _JSON),
    "decimals": ({}, _DECIMALS),
    "precise decimals": ({"spark.sql.decimalOperations.allowPrecisionLoss": "false"}, _DECIMALS),
    "texts": ({}, _TEXTS),
    "escaped texts": ({"spark.sql.parser.escapedStringLiterals": "true"}, _TEXTS),
    "old times": ({"spark.sql.legacy.timeParserPolicy": "LEGACY"}, _FORMATS),
    "old casts": ({"spark.sql.legacy.castComplexTypesToString.enabled": "true", **_LEGACY}, _CASTS),
}  # fmt: skip
"""Settings, and the programs that are run under them."""


@contextmanager
def _set(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


def outcomes(session: Any, name: str) -> dict[str, Any]:
    """Return what the programs of a case give, by name."""
    settings, programs = CASES[name]
    df = session.createDataFrame(ROWS, SCHEMA).coalesce(1)
    with _set(session, settings):
        return {program: _outcome(df, run) for program, run in programs.items()}


def _outcome(df: Any, program: Program) -> Any:
    try:
        return outcome(df, program)
    except CannotFollowError:
        return LEFT
