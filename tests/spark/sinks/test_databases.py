"""Sinks in databases: each batch once, one writer at a time (MillWheel 6.1.1, 6.2)."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from headrace import BytesCodec, Computation, OptionsError
from headrace.spark.io_errors import FencedWriterError, SinkBusyError, SinkError, SinkTableError
from headrace.spark.sinks import databases as _databases
from headrace.spark.sinks.databases import without_password
from headrace.spark.sinks.file_sink import committed_files
from headrace.spark.sinks.table_sink import TableSink
from headrace.spark.sources.data_source import injected
from headrace.spark.sources.injected_rows import NewRecord
from headrace.spark.sources.sources import Generated
from tests.spark.sources.source_rig import pipeline_of

pytestmark = pytest.mark.spark

POSTGRES_URL = os.environ.get("HEADRACE_TEST_POSTGRES", "")
"""Of a database that the tests may write to, if there is one."""

COLUMNS = {
    "stream": t.StringType(),
    "key": t.StringType(),
    "value": t.BinaryType(),
    "timestamp": t.LongType(),
    "record_id": t.StringType(),
}


class Frame:
    """What a sink uses of a DataFrame; tells whether it was computed."""

    def __init__(
        self,
        rows: list[tuple[Any, ...]],
        columns: Mapping[str, t.DataType] = COLUMNS,
        *,
        fails: bool = False,
    ) -> None:
        self.schema = t.StructType([t.StructField(name, kind) for name, kind in columns.items()])
        self.columns = list(columns)
        self._rows = rows
        self._fails = fails
        self.computed = 0

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's
        self.computed += 1
        if self._fails:
            raise ZeroDivisionError
        return pa.Table.from_pylist(
            [dict(zip(self.columns, row, strict=True)) for row in self._rows],
            to_arrow_schema(self.schema, timezone="UTC"),
        )

    @property
    def write(self) -> "Writer":
        return Writer(self)


class Writer:
    """What a sink uses of a DataFrameWriter."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def format(self, name: str) -> "Writer":
        assert name == "noop"
        return self

    def mode(self, _name: str) -> "Writer":
        return self

    def save(self) -> None:
        self._frame.computed += 1


def put(sink: TableSink, batch: int, *keys: str, query: str = "q") -> bool:
    frame = Frame([("counts", key, b'{"n":1}', 7, f"{key}#0") for key in keys])
    written = sink.write(frame, query, batch)
    assert frame.computed == 1
    return written


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/out.db"
        return
    if not POSTGRES_URL:
        pytest.skip("HEADRACE_TEST_POSTGRES names no database")
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    yield POSTGRES_URL


def rows_of(url: str, sql: str) -> list[tuple[Any, ...]]:
    with _databases.database_of(url, "qmark", 5).transaction() as ask:
        return ask(sql)


def keys_of(url: str, table: str = "counts") -> list[str]:
    return [row[0] for row in rows_of(url, f'SELECT key FROM "{table}" ORDER BY record_id')]  # noqa: S608


def test_a_batch_that_comes_again_is_computed_and_not_written(url: str) -> None:
    sink = TableSink(url, "counts")
    assert [put(sink, 0, "a", "b"), put(sink, 0, "a", "b"), put(sink, 1, "c"), put(sink, 0, "a")] == [
        True,
        False,
        True,
        False,
    ]
    restarted = TableSink(url, "counts")
    assert [put(restarted, 1, "c"), put(restarted, 2, "d")] == [False, True]
    assert keys_of(url) == ["a", "b", "c", "d"]


def test_another_query_has_batches_of_its_own(url: str) -> None:
    sink = TableSink(url, "counts")
    put(sink, 0, "a")
    assert put(sink, 0, "b", query="other")
    other_table = TableSink(url, "more")
    assert put(other_table, 0, "a")
    assert (keys_of(url), keys_of(url, "more")) == (["a", "b"], ["a"])


def test_a_zombie_is_refused_after_the_query_was_started_again(url: str) -> None:
    """A driver stalls with a batch in its hands; another takes over; the first one wakes up."""
    zombie = TableSink(url, "counts")
    put(zombie, 0, "a")
    successor = TableSink(url, "counts")
    frame = Frame([("counts", "z", b"1", 7, "z#0")])
    with pytest.raises(FencedWriterError) as caught:
        zombie.write(frame, "q", 1)
    assert (caught.value.epoch, caught.value.latest_epoch, frame.computed) == (1, 2, 0)
    told = str(caught.value)
    assert "a newer sink of the same name has since claimed epoch 2" in told
    assert "If the job was restarted elsewhere, leave that job running: it has replaced this process" in told
    assert "Only if these are two jobs, or two streams of one job, stop both" in told
    put(successor, 1, "b")
    assert keys_of(url) == ["a", "b"]


def test_a_zombie_that_computes_while_it_is_replaced_writes_nothing(url: str) -> None:
    zombie = TableSink(url, "counts")
    frame = Frame([("counts", "z", b"1", 7, "z#0")])
    compute = frame.toArrow

    def slowly() -> pa.Table:
        assert put(TableSink(url, "counts"), 0, "a")
        return compute()

    frame.toArrow = slowly  # type: ignore[method-assign]
    with pytest.raises(FencedWriterError):
        zombie.write(frame, "q", 0)
    assert keys_of(url) == ["a"]


def test_two_writers_by_name_take_two_streams_of_one_query(url: str) -> None:
    one, two = TableSink(url, "counts", writer="one"), TableSink(url, "counts", writer="two")
    assert [put(one, 0, "a"), put(two, 0, "b"), put(two, 0, "b")] == [True, True, False]
    assert keys_of(url) == ["a", "b"]


def test_two_writers_by_name_share_a_table(url: str) -> None:
    one, two = TableSink(url, "counts", writer="one"), TableSink(url, "counts", writer="two")
    put(one, 0, "a")
    put(two, 0, "b", query="other")
    put(one, 1, "c")
    assert keys_of(url) == ["a", "b", "c"]


def test_a_batch_that_fails_leaves_nothing_behind(url: str) -> None:
    sink = TableSink(url, "counts")
    with pytest.raises(ZeroDivisionError):
        sink.write(Frame([], fails=True), "q", 0)
    rows = [("counts", "a", b"1", 7, "a#0"), ("counts", "b", b"1", 2**63 - 1, "b#0")]
    rows_of(url, 'DROP TABLE "counts"')
    strict = "stream TEXT, key TEXT, value TEXT, record_id TEXT, timestamp BIGINT CHECK (timestamp < 9)"
    rows_of(url, f'CREATE TABLE "counts" ({strict})')
    with pytest.raises(SinkTableError, match=r"CHECK|check"):
        sink.write(Frame(rows), "q", 0)
    assert keys_of(url) == []
    assert put(sink, 0, "a")


def test_values_are_text_where_all_codecs_write_json(url: str) -> None:
    put(TableSink(url, "bytes"), 0, "a")
    put(TableSink(url, "text", pipeline=pipeline_of()), 0, "a")
    mixed = pipeline_of()
    mixed.add(Computation(), name="raw", inputs=["mail"], outputs=["raw"])
    mixed.stream("raw", BytesCodec())
    put(TableSink(url, "mixed", pipeline=mixed), 0, "a")
    values = [rows_of(url, f'SELECT value FROM "{table}"')[0][0] for table in ("bytes", "text", "mixed")]  # noqa: S608
    assert values == [b'{"n":1}', '{"n":1}', b'{"n":1}']


def test_columns_of_other_types_are_written_as_such(url: str) -> None:
    at = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    columns = {
        "city": t.StringType(),
        "n": t.IntegerType(),
        "share": t.DoubleType(),
        "late": t.BooleanType(),
        "at": t.TimestampType(),
        "day": t.DateType(),
        "cost": t.DecimalType(9, 2),
    }
    frame = Frame([("Riva", 3, 0.5, True, at, at.date(), Decimal(12))], columns)
    TableSink(url, "typed").write(frame, "q", 0)
    ((city, n, share, late, when, day, cost),) = rows_of(url, 'SELECT * FROM "typed"')
    assert (city, n, share, bool(late)) == ("Riva", 3, 0.5, True)
    assert (str(when).replace("T", " "), str(day), float(cost)) == (
        "2024-02-29 12:30:00+00:00",
        "2024-02-29",
        12,
    )


def test_a_type_may_be_given_and_one_that_is_missing_is_asked_for(url: str) -> None:
    frame = Frame([(["a"],)], {"tags": t.ArrayType(t.StringType())})
    with pytest.raises(
        SinkTableError, match=r"no column type for 'tags' \(array<string>\)\. Convert it to text with to_json"
    ):
        TableSink(url, "tags").write(frame, "q", 0)
    if url.startswith("postgresql"):
        TableSink(url, "tags", types={"tags": "TEXT[]"}).write(frame, "q", 0)
        assert rows_of(url, 'SELECT tags FROM "tags"') == [(["a"],)]


def test_a_table_with_other_columns_is_refused(url: str) -> None:
    rows_of(url, 'CREATE TABLE "counts" (id TEXT, key TEXT)')
    with pytest.raises(SinkTableError) as caught:
        put(TableSink(url, "counts"), 0, "a")
    assert str(caught.value) == (
        f"{TableSink(url, 'counts').name}: 'counts' lacks the columns ['stream', 'value', 'timestamp', 'record_id']; "
        "its columns are ['id', 'key']. Choose another table, or select only its columns; an empty staging table can be dropped"
    )


def test_others_locks_are_waited_for_and_then_reported(url: str) -> None:
    sink = TableSink(url, "counts", timeout_s=0.1)
    patient = _databases.database_of(url, "qmark", 5)
    with patient.transaction() as ask:
        ask("UPDATE headrace_writers SET epoch = epoch")
        with pytest.raises(SinkBusyError, match=r"another process has kept (it locked|a lock) for 0\.1 s"):
            put(sink, 0, "a")
    assert put(sink, 0, "a")


def test_a_full_disk_is_reported_and_the_batch_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, connect = str(tmp_path / "out.db"), sqlite3.connect
    sink = TableSink(url, "counts")

    def on_a_full_disk(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.execute("PRAGMA max_page_count = 8")
        return connection

    keys = [f"{n:05d}" for n in range(5_000)]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", on_a_full_disk)
        with pytest.raises(SinkError, match=r"out.db: its disk is full\. Free some space"):
            put(sink, 0, *keys)
    assert put(sink, 0, *keys)
    assert keys_of(url) == keys


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one" * 30)
    with pytest.raises(SinkError, match=r"text: it is not an SQLite database\. Choose another file"):
        TableSink(str(tmp_path / "text"), "counts")
    with pytest.raises(SinkError, match="it cannot be opened"):
        TableSink(str(tmp_path / "nowhere" / "out.db"), "counts")
    with pytest.raises(OptionsError, match="database='mysql://db/mail': expected postgresql"):
        TableSink("mysql://ann:secret@db/mail", "counts")
    with pytest.raises(OptionsError, match="table='': expected the name of a table"):
        TableSink(str(tmp_path / "out.db"), "")
    with pytest.raises(OptionsError, match="timeout_s=0"):
        TableSink(str(tmp_path / "out.db"), "counts", timeout_s=0)


def test_without_its_driver_postgresql_is_refused_at_once_and_no_password_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(SinkError) as caught:
        TableSink("postgresql://ann:secret@db/mail", "counts")
    told = (
        "postgresql://db/mail: the PostgreSQL driver is not installed (psycopg). Install psycopg: "
        "pip install 'psycopg[binary]'"
    )
    assert str(caught.value) == told
    assert without_password("postgresql://db/mail") == "postgresql://db/mail"


def test_a_server_that_is_not_there_is_named() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(SinkError, match=r"postgresql://127\.0\.0\.1:9/mail: connection failed"):
        TableSink("postgresql://ann:secret@127.0.0.1:9/mail", "counts", timeout_s=2)


def test_the_log_of_the_file_sink_tells_which_files_count(tmp_path: Path) -> None:
    """Batch 9 has put the older ones together; a killed driver has left a file that nobody knows."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def entry(name: str, action: str = "add") -> str:
        return json.dumps({"path": f"file://{tmp_path}/{name}", "size": 1, "action": action})

    for name, entries in {
        "8": [entry("old")],
        "9.compact": [entry("old"), entry("a%20b"), entry("gone")],
        "10": [entry("c"), entry("gone", "delete")],
        ".10.crc": [],
    }.items():
        (log / name).write_text("\n".join(["v1", *entries]))
    (tmp_path / "stray").touch()
    assert committed_files(tmp_path) == [f"{tmp_path}/old", f"{tmp_path}/a b", f"{tmp_path}/c"]
    with pytest.raises(SinkError, match="there is no log of a streaming query"):
        committed_files(log)


# On Spark


def by_value(count: int) -> Generated:
    def numbers(_process: int, offset: int) -> list[NewRecord]:
        return [NewRecord(f"k{n}", n, n) for n in range(offset, count)]

    return Generated(numbers, count=count, max_records=2)


def test_a_query_that_dies_after_its_commit_goes_on_without_loss_or_repetition(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The driver dies between the database's commit and Spark's; the query has state, whose commit Spark checks."""
    url = str(tmp_path / "out.db")

    def run(*, dies_after: int | None) -> None:
        sink = TableSink(url, "counts", pipeline=pipeline_of())

        def write(frame: DataFrame, batch: int) -> None:
            sink(frame, batch)
            if batch == dies_after:
                raise ZeroDivisionError

        frame = injected(spark, pipeline_of(), "mail", by_value(6)).withWatermark(
            "_injector_watermark", "0 seconds"
        )
        records = frame.where("key is not null").dropDuplicates(["record_id"])
        writer = records.select("stream", "key", "value", "timestamp", "record_id").writeStream.foreachBatch(
            write
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        run(dies_after=1)
    run(dies_after=None)
    assert rows_of(url, 'SELECT key, value FROM "counts" ORDER BY key') == [
        (f"k{n}", str(n)) for n in range(6)
    ]
    assert rows_of(url, "SELECT epoch FROM headrace_writers") == [(2,)]


def test_a_sink_knows_whether_a_query_calls_it(spark: SparkSession, tmp_path: Path) -> None:
    sink = TableSink(str(tmp_path / "out.db"), "counts")
    frame = spark.createDataFrame([("a",)], "key string")
    with pytest.raises(SinkError, match="it was called outside a streaming query"):
        sink(frame, 0)
    assert sink.write(frame, "bounded", 0)
    assert not sink.write(frame, "bounded", 0)
    assert rows_of(str(tmp_path / "out.db"), "SELECT * FROM counts") == [("a",)]


def test_what_the_file_sink_has_written_is_in_its_log(spark: SparkSession, tmp_path: Path) -> None:
    frame = injected(spark, pipeline_of(), "mail", by_value(3)).where("key is not null").select("key")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    files = committed_files(tmp_path / "out")
    assert sorted(spark.read.parquet(*files).collect()) == [("k0",), ("k1",), ("k2",)]
