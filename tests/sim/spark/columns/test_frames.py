"""Frames in memory: what Spark gives, and the name and place of what is not simulated."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns import frames
from headrace_sim.spark.columns.ddl import SchemaTextError, parse_schema, parse_type
from headrace_sim.spark.columns.draws import forget_draws
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.refusals import CannotFollowError
from tests.sim.spark.frame_programs import PROGRAMS, ROWS, SCHEMA, outcome, recorded, set_as_recorded


@pytest.fixture
def df() -> Iterator[Any]:
    session = ClientSession()
    with connected(session):
        set_as_recorded(session)
        yield session.createDataFrame(ROWS, SCHEMA)


def _twice(df: Any) -> Any:
    return df.select("k", "i").crossJoin(df.select("k"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_frame_returns_what_spark_returned(name: str, df: Any) -> None:
    assert outcome(df, PROGRAMS[name]) == recorded(name)


def test_column_may_have_any_name_beside_windows_and_items(df: Any) -> None:
    items = df.select(F.col("k").alias("item"), "t", "a")
    windows = items.groupBy(F.window("t", "1 day"), "item").agg(F.count("item").alias("count"))
    assert windows.columns == ["window", "item", "count"]
    assert items.select("item", F.explode("a")).columns == ["item", "col"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda df: df.join(df, df.k == df.n), "'k' of one of two joined frames that both have it"),
        (lambda df: _twice(df).select(df.k), "'k' of one of two joined frames"),
        (lambda df: df.alias("a").join(df.alias("b"), "k").select("b.*"), "b.* behind a join on names"),
        (lambda df: df.alias("a").join(df.alias("b"), "k").select("b.k"), "'b.k' behind a join on names"),
        (lambda df: _twice(df).drop(df.k), "cannot follow 'k' of one of two joined frames"),
        (
            lambda df: df.join(df.select(F.col("i").alias("k")), "k"),
            "join() on columns of types string and int",
        ),
        (lambda df: df.rdd.groupBy(str), "DataFrame.rdd.groupBy"),
        (lambda df: df.select(F.soundex("k")), "the function soundex()"),
        (lambda df: df.select(F.round("i", -1)), "round() of int"),
        (lambda df: df.select(F.date_format("t", "EEE")), "date_format() with 'EEE' in the pattern 'EEE'"),
        (lambda df: df.filter(df.k.rlike(r"\p{Alpha}")), "rlike() with the pattern"),
        (lambda df: df.select(F.split("k", "[a-z&&[^b]]")), "split() with the pattern"),
        (lambda df: df.select(F.unix_timestamp("n", "dd")), "unix_timestamp() of string"),
        (lambda df: df.select(F.sum("i")), "the function sum()"),
        (
            lambda df: df.orderBy(F.pandas_udf(lambda of: of, "boolean")("b")),
            "<lambda>(), which takes whole columns,",
        ),
        (lambda df: df.selectExpr("i div 2"), "the SQL text 'i div 2', at 'i DIV 2'"),
        (lambda df: df.filter("i >"), "the SQL text 'i >', at '>'"),
        (lambda df: df.select(F.expr("levenshtein(k, n)")), "the function levenshtein()"),
        (
            lambda df: df.select(F.sum("l").over(Window.orderBy("i").rangeBetween(-1, 1))),
            "rangeBetween() with a number",
        ),
        (lambda df: df.select(F.window("t", "soon")), "window(t, soon)"),
        (lambda df: df.select(F.ntile(2).over(Window.orderBy("i"))), "the function ntile()"),
        (
            lambda df: df.select(F.pandas_udf(lambda of: of, "x INT")("i")),
            "<lambda>(), a pandas function with structs,",
        ),
        (lambda df: df.select(df.a.cast("string")), "a cast of array<int> to string"),
        (lambda df: df.groupBy("k").pivot("b", [True]).count(), "pivot of Aggregate"),
        (lambda df: df.sparkSession.sql("OPTIMIZE t"), "spark.sql('OPTIMIZE t')"),
        (
            lambda df: df.sparkSession._sc._jvm.io.delta.tables.DeltaTable.forName(df.sparkSession, "t"),
            "Java's io.delta.tables.DeltaTable.forName()",
        ),
        (lambda df: df.select(F.from_json("j", "x INT", {"mode": "FAILFAST"})), "from_json() with options"),
    ],
)
def test_call_that_is_not_simulated_is_named_with_its_place(
    call: Callable[[Any], Any], named: str, df: Any
) -> None:
    with pytest.raises(CannotFollowError) as caught:
        call(df).collect()
    assert named in str(caught.value)
    line = call.__code__.co_firstlineno
    assert f"test_frames.py:{line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda of: of.head(1), "[RESULT_ROWS_MISMATCH] the result of <lambda>() has 1 rows, and not 5"),
        (lambda of: of.sum(), "[UDF_RETURN_TYPE] <lambda>() returns float64, not a pandas.Series"),
        (lambda of: of.astype(str) + "x", "int32"),  # 3.5 says: to Arrow Array (int32)
    ],
    ids=["too few", "a number", "text"],
)
def test_pandas_function_that_returns_what_spark_refuses(function: Any, told: str, df: Any) -> None:
    with pytest.raises(PySparkException) as caught:
        df.select(F.pandas_udf(function, "int")("i")).collect()
    assert told in str(caught.value)


@pytest.mark.parametrize("mode", ["true", "false"])
@pytest.mark.parametrize(
    ("column", "condition"),
    [("element_at(a, 0)", "INVALID_INDEX_OF_ZERO"), ("map(k, 1, n, 2)", "NULL_MAP_KEY")],
)
def test_error_of_a_column_does_not_depend_on_ansi_mode(
    column: str, condition: str, mode: str, df: Any
) -> None:
    df.sparkSession.conf.set("spark.sql.ansi.enabled", mode)
    with pytest.raises(PySparkException, match=condition):
        df.selectExpr(column).collect()


def test_frame_is_a_dataframe_of_a_session(df: Any) -> None:
    assert isinstance(df, DataFrame)
    assert SparkSession.builder.getOrCreate() is df.sparkSession is SparkSession.getActiveSession()


def test_columns_need_spark_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have left its session running.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with connected(ClientSession()):
        assert repr(F.col("x") + 1) == "Column<'+(x, 1)'>"
    with pytest.raises((AssertionError, PySparkException)):
        F.col("x")


def test_pandas_frame_has_sparks_types(df: Any) -> None:
    frame = df.select("k", "i", "l", "b", "t").filter(df.l > 0).toPandas()
    assert frame.dtypes.astype(str).to_dict() == {
        "k": "object",
        "i": "int32",
        "l": "int64",
        "b": "bool",
        "t": "datetime64[ns]" if VERSION >= (4, 0) else "datetime64[us]",
    }


def test_each_partition_gets_its_own_copy_of_the_function(df: Any) -> None:
    seen: list[int] = []
    df.repartition(2).foreachPartition(lambda rows: seen.extend(row.i for row in rows))
    assert seen == []  # as in Spark, where the function travels to other processes


def test_columns_of_a_stream_are_bound_once_and_again_under_other_settings(monkeypatch: Any) -> None:
    bound = Mock(side_effect=bind)
    monkeypatch.setattr(frames, "bind", bound)

    def build(df: Any) -> Any:
        texts = df.withColumn("x", F.col("t").cast("string")).filter("x > ''")
        return texts.writeStream.format("noop").start()

    job = record(build, "t TIMESTAMP")
    feed = [[(datetime(2024, 1, 1),)]] * 20
    first, times = run_job(job, feed).rows(), bound.call_count
    assert times < 20
    assert run_job(job, feed).rows() == first
    assert bound.call_count == times
    job.state.settings.set(ZONE, "Asia/Tokyo")
    assert {row[1] for row in run_job(job, feed).rows()} == {"2024-01-01 09:00:00"}


def test_random_column_is_drawn_anew_by_a_new_driver_unless_it_has_a_seed(df: Any) -> None:
    own, given = (df.select(drawn.alias("r")) for drawn in (F.rand(), F.rand(7)))
    before = own.collect(), given.collect()
    assert (own.collect(), given.collect()) == before
    forget_draws()
    assert (own.collect() == before[0], given.collect() == before[1]) == (False, True)


def test_frame_has_the_same_ids_in_all_its_actions_and_another_frame_has_others(df: Any) -> None:
    ids = df.select("k", F.expr("uuid()").alias("id"), F.rand(7).alias("r"))
    assert ids.collect() == ids.collect()
    assert ids.select("id").collect() == ids.select("k", "id").select("id").collect()
    again = df.select("k", F.expr("uuid()").alias("id"), F.rand(7).alias("r"))
    assert {row.id for row in ids.collect()}.isdisjoint({row.id for row in again.collect()})
    assert [row.r for row in ids.collect()] == [row.r for row in again.collect()]


def test_batch_that_is_run_again_has_other_ids_even_of_a_seed(df: Any) -> None:
    drawn = df.select(F.rand(7).alias("r")).schema  # the columns of a stream are computed in `derived`
    draw = Recorded("as", (Recorded("rand", (7,), ""), "r"), "")
    first, second = (df.sparkSession.derived(df, lambda rows: rows.select([draw])) for _ in range(2))
    assert first.collect() == first.collect() != second.collect()
    assert first.schema == drawn


def test_rows_of_a_frame_as_an_rdd_are_its_own(df: Any) -> None:
    rows = df.select("k").rdd
    assert (rows.isEmpty(), rows.count(), df.filter("false").rdd.isEmpty()) == (False, 5, True)
    assert rows.take(2) == rows.collect()[:2] == [rows.first(), df.select("k").collect()[1]]


def test_row_that_does_not_fit_its_schema_is_refused_as_in_spark(df: Any) -> None:
    with pytest.raises(PySparkException, match=r"FIELD_DATA_TYPE_UNACCEPTABLE|CANNOT_ACCEPT_OBJECT_IN_TYPE"):
        df.sparkSession.createDataFrame([("x",)], "n INT")


def test_types_are_read_from_text() -> None:
    text = "a INT NOT NULL COMMENT 'x', `b c`: array<struct<d: decimal(4, 2)>>, m map<string,varchar(3)>"
    assert parse_schema(text) == t.StructType([
        t.StructField("a", t.IntegerType(), nullable=False, metadata={"comment": "x"}),
        t.StructField("b c", t.ArrayType(t.StructType([t.StructField("d", t.DecimalType(4, 2))]))),
        t.StructField("m", t.MapType(t.StringType(), t.VarcharType(3))),
    ])  # fmt: skip
    assert parse_type("bigint") == t.LongType()
    assert parse_type("a bigint") == parse_type("struct<a: bigint>")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a INTT", "at 'INTT': [UNSUPPORTED_DATATYPE] unsupported data type 'intt'"),
        ("a INT,", "a column's name is missing"),
        ("a INT b INT", "at 'b INT': [PARSE_SYNTAX_ERROR] the text should end here"),
        ("a array<int", "'>' is missing"),
        ("a", "a type is missing"),
        ("a DECIMAL(x)", "'x' is not a number"),
    ],
)
def test_invalid_schema_text_is_refused_at_its_position(text: str, problem: str) -> None:
    with pytest.raises(SchemaTextError) as caught:
        parse_schema(text)
    assert problem in str(caught.value)


def test_groups_are_mapped_by_functions_of_frames(df: Any) -> None:
    def largest(group: Any) -> Any:
        return group.nlargest(1, "i")[["k", "i"]]

    def counted(key: Any, group: Any) -> Any:
        return group.head(1).assign(k=key[0], i=len(group))[["i", "k"]]

    known = df.where("i IS NOT NULL")
    made = known.groupBy("k").applyInPandas(largest, "k STRING, i INT")
    assert made.columns == ["k", "i"]
    assert sorted(map(tuple, made.collect())) == [("", 0), ("a", 2147483647), ("b", -7)]
    made = known.groupBy("k").applyInPandas(counted, "k STRING, i INT")
    assert sorted(map(tuple, made.collect())) == [("", 1), ("a", 2), ("b", 1)]
    empty = known.groupBy("k").applyInPandas(lambda group: group[group.i > 0][["k", "i"]], "k STRING, i INT")
    assert sorted(map(tuple, empty.collect())) == [("a", 1), ("a", 2147483647)]


def test_rows_as_json_are_texts_as_on_classic_spark(df: Any) -> None:
    rows = df.where("k = 'b'").select("k", "i").toJSON()
    assert (rows.collect(), rows.first()) == (['{"k":"b","i":-7}'], '{"k":"b","i":-7}')
    with pytest.raises(CannotFollowError, match=r"DataFrame.toJSON\(\).map"):
        rows.map(len)


def test_checkpoint_keeps_the_rows(df: Any) -> None:
    kept = df.select("i", F.rand().alias("r")).localCheckpoint()
    assert kept.collect() == kept.collect()
    assert kept.columns == ["i", "r"]
