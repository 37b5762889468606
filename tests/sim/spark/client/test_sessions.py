"""Stand-ins for Spark: each public name of PySpark's is followed, or refused with the user's line."""

import inspect
import json
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import (
    Column,
    DataFrameNaFunctions,
    DataFrameStatFunctions,
    SparkSession,
)
from pyspark.sql import functions as F
from pyspark.sql.catalog import Catalog
from pyspark.sql.connect.streaming.query import StreamingQuery

from headrace_properties.sinks import SinkFailsError, UnfollowableSinkError, check_sink
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.sessions import ClientSession, ModuleSession, connected
from headrace_sim.spark.columns.ddl import SchemaTextError
from headrace_sim.spark.refusals import CannotFollowError, gap_in
from headrace_sim.spark.spark_job import SparkJobError
from tests.sim.spark.frame_programs import ROWS, SCHEMA


@pytest.fixture
def df() -> Iterator[Any]:
    session = ClientSession()
    with connected(session):
        yield session.createDataFrame(ROWS, SCHEMA)


FUNCTIONS = sorted(
    name
    for name in getattr(F, "__all__", dir(F))  # 3.5 lists none
    if inspect.isfunction(getattr(F, name))
    and not name.startswith("_")
    and getattr(F, name).__module__.startswith(F.__name__)
    and name not in {"udf", "udtf", "pandas_udf", "arrow_udf", "arrow_udtf", "broadcast"}
)


def _called(function: Any) -> Any:
    """Call it with columns of text, and with functions of columns where it takes these."""
    given: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += ["k", "n"]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            is_function = name in {"f", "comparator", "merge"}
            given.append(
                (lambda *items: items[0])
                if is_function and name != "merge"
                else (lambda a, _: a)
                if is_function
                else "k"
            )
    return function(*given)


def _is_followed_or_refused(call: Callable[..., Any], *given: Any) -> bool:
    try:
        call(*given)
    except (CannotFollowError, SchemaTextError, PySparkException):
        return True
    except Exception as error:  # noqa: BLE001  whatever it is
        return gap_in(error) is not None
    return True


def test_each_function_of_columns_is_followed_or_refused(df: Any) -> None:
    columns = {name: getattr(F, name) for name in FUNCTIONS}
    columns |= {name: getattr(F.col("k"), name) for name in dir(Column) if not name.startswith("_")}

    def select(function: Any) -> None:
        df.select(_called(function)).collect()

    assert [name for name, call in columns.items() if not _is_followed_or_refused(select, call)] == []


@pytest.mark.parametrize(
    ("kind", "attribute"), [(DataFrameNaFunctions, "na"), (DataFrameStatFunctions, "stat")]
)
def test_functions_of_a_frame_call_the_frame(kind: Any, attribute: str, df: Any) -> None:
    names = [name for name in dir(kind) if not name.startswith("_")]
    of_frame = getattr(df, attribute)
    assert [name for name in names if not _is_followed_or_refused(_called, getattr(of_frame, name))] == []


def _checked(function: Callable[[Any, int], Any]) -> Any:
    return check_sink(function, [[(1, [1])]], "n INT, items ARRAY<INT>", overtaken=False)


def _misses_ours(df: Any, _batch_id: int) -> None:
    df.limit("1")


def _hides_what_it_misses(df: Any, _batch_id: int) -> None:
    try:
        df.groupBy("n").applyInArrow(lambda table: table, "n INT, items ARRAY<INT>")
    except Exception:  # noqa: BLE001  as users do
        df.write.mode("append").save("t")


def _asks_java(df: Any, _batch_id: int) -> None:
    df._jdf.write()


@pytest.mark.parametrize("function", [_misses_ours, _hides_what_it_misses, _asks_java])
def test_what_a_stand_in_lacks_is_not_the_users_error(function: Callable[[Any, int], Any]) -> None:
    with pytest.raises(UnfollowableSinkError, match=r"test_sessions.py:\d+: cannot follow"):
        _checked(function)


def _misspells(df: Any, _batch_id: int) -> None:
    df.colect()


def _breaks_in_a_library(_df: Any, _batch_id: int) -> None:
    json.loads("{")


def _calls_a_value(df: Any, _batch_id: int) -> None:
    df.collect()[0]["none"]


def _reads_behind_a_row(df: Any, _batch_id: int) -> None:
    df.collect()[0][7]


def _sends_a_lock(df: Any, _batch_id: int) -> None:
    lock = Lock()
    df.foreach(lambda _row: lock)


def _takes_one_argument(df: Any) -> None:
    df.count()


@pytest.mark.parametrize(
    "function",
    [
        _misspells,
        _breaks_in_a_library,
        _calls_a_value,
        _reads_behind_a_row,
        _sends_a_lock,
        _takes_one_argument,
    ],
)
def test_what_spark_raises_too_is_the_users_error(function: Any) -> None:
    with pytest.raises(SinkFailsError, match="Fix it first"):
        _checked(function)


def test_job_may_ask_its_session_for_what_changes_nothing() -> None:
    def build(spark: SparkSession) -> None:
        spark.sparkContext.setLogLevel("WARN")
        spark.conf.set("spark.sql.shuffle.partitions", 4)
        assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) == 4
        assert spark.conf.get("my.own", "none") == "none"
        assert spark.version == pyspark.__version__
        query = spark.readStream.format("rate").load().writeStream.queryName("q").foreachBatch(print).start()
        assert (query.name, query.isActive, query.lastProgress) == ("q", True, None)
        assert query.id != query.runId
        assert query.status["isDataAvailable"] is False
        assert not query.awaitTermination(10)
        assert [other.id for other in spark.streams.active] == [query.id]
        spark.streams.addListener(None)
        spark.streams.awaitAnyTermination()
        assert not query.isActive
        spark.stop()

    assert record(build).sink.function is print


def test_probe_of_a_database_is_answered(df: Any) -> None:
    read = df.sparkSession.read
    assert read.jdbc("jdbc:postgresql://db", "(SELECT 1 AS ok) AS probe").collect() == [(1,)]
    assert (
        read.format("jdbc").options(url="jdbc:h2", query="SELECT 'up' AS state").load().first().state == "up"
    )


def test_transforms_that_iceberg_partitions_by_are_no_columns(df: Any) -> None:
    df.writeTo("lake.days").using("iceberg").partitionedBy(
        getattr(F, "partitioning", F).days("n"), "k"
    ).create()
    assert df.sparkSession.table("lake.days").count() == len(ROWS)
    with pytest.raises(CannotFollowError, match="of a computed column"):
        df.writeTo("lake.other").partitionedBy(F.upper("k")).create()


def test_mqtt_has_a_schema_of_its_own(df: Any) -> None:
    provider = "org.apache.bahir.sql.streaming.mqtt.MQTTStreamSourceProvider"
    assert df.sparkSession.readStream.format(provider).load().columns == [
        "id",
        "topic",
        "payload",
        "timestamp",
    ]


def test_catalog_of_classic_pyspark_is_that_of_the_session(df: Any) -> None:
    df.write.saveAsTable("names")
    assert [Catalog(df.sparkSession).tableExists(name) for name in ("names", "other")] == [True, False]


def test_program_may_log_the_memory_of_the_jvm(df: Any) -> None:
    runtime = df.sparkSession.sparkContext._jvm.java.lang.Runtime.getRuntime()
    assert runtime.freeMemory() < runtime.totalMemory() < runtime.maxMemory()


def test_batch_may_look_at_the_query_that_runs_it_and_stop_it(df: Any) -> None:
    query = StreamingQuery(df.sparkSession, "id", "run", "totals")
    assert (query.isActive, query.lastProgress, query.exception()) == (True, None, None)
    query.stop()
    with pytest.raises(CannotFollowError, match="a query of another session"):
        query.awaitTermination()


def test_settings_of_a_builder_are_those_of_the_session() -> None:
    def build() -> Any:
        builder = SparkSession.builder.config("spark.sql.streaming.multipleWatermarkPolicy", "max")
        return builder.getOrCreate().readStream.format("rate").load()

    assert record(build).policy.value == "max"


def test_setting_that_is_not_known_is_refused() -> None:
    def build(spark: Any) -> None:
        spark.conf.get("spark.sql.files.maxPartitionBytes")

    with pytest.raises(CannotFollowError, match=r"test_sessions.py:\d+: cannot follow spark.conf.get"):
        record(build)


def _when_it_is_there(df: Any, _batch_id: int) -> None:
    if not df.sparkSession.catalog.tableExists("T"):
        df.write.mode("append").saveAsTable("t")


def _by_another_name(df: Any, batch_id: int) -> None:
    _when_it_is_there(df, batch_id)
    df.sparkSession.catalog.tableExists("main.t")


def test_catalog_knows_the_tables_that_the_sink_wrote() -> None:
    assert not _checked(_when_it_is_there).findings
    with pytest.raises(UnfollowableSinkError, match=r"tableExists\('main.t'\) behind a write to 't'"):
        _checked(_by_another_name)


def test_session_of_a_module_is_the_one_in_force() -> None:
    with connected(ModuleSession()):
        spark: Any = SparkSession.builder.getOrCreate()
        names = spark.createDataFrame([(1, "Ann")], "n INT, name STRING")

    def build() -> Any:
        return spark.readStream.format("rate").load().na.fill(0).writeStream.foreachBatch(print)

    def write(df: Any, _batch_id: int) -> None:
        spark.sparkContext._jvm.org.apache.log4j.LogManager.getLogger("job").info("begins")
        names.write.mode("overwrite").format("delta").save("names")
        spark.createDataFrame([(2,)], "n INT").join(names, "n", "left").write.mode("append").save("t")

    assert record(build).output.names == ["timestamp", "value"]
    assert {finding.destination for finding in _checked(write).findings} == {"t"}


def test_gap_that_ends_the_recording_is_refused() -> None:
    with pytest.raises(CannotFollowError, match=r"cannot follow DataFrame.unpivot\(\)"):
        record(lambda rows: rows.unpivot("at", ["at"], "a", "b"), "at TIMESTAMP")
    with pytest.raises(SparkJobError, match="raises ZeroDivisionError"):
        record(lambda rows: 1 / 0, "at TIMESTAMP")
