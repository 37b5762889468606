"""A sink for any DB-API database: rows are written by the tasks, and each batch counts once."""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from headrace import OptionsError
from headrace.spark import FencedWriterError, SinkError, SinkTableError, TableSink
from headrace.spark.sinks import table_sink as _table_sink
from tests.spark.sinks.test_databases import Frame

COLUMNS = {"key": t.StringType(), "value": t.BinaryType(), "timestamp": t.LongType()}


class Tasks(Frame):
    """A frame of two partitions, whose tasks Spark runs as often as it says."""

    def __init__(self, *keys: str, runs: tuple[int, int] = (1, 1)) -> None:
        super().__init__([(key, b"1", 7) for key in keys], COLUMNS)
        self._runs = runs
        self.between: Callable[[], object] = lambda: None

    def mapInArrow(self, run: Callable[..., Iterator[pa.RecordBatch]], _schema: str) -> "Told":  # noqa: N802  Spark's
        (rows,) = self.toArrow().combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], self.toArrow().schema)
        ]
        half = rows.num_rows // 2
        told: list[dict[str, Any]] = []
        for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
            counted: list[list[dict[str, Any]]] = []
            for attempt in range(self._runs[number]):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(_table_sink, "task_attempt", partial("{}.{}".format, number, attempt))
                    counted = [batch.to_pylist() for batch in run(iter([part]))]
            told += counted[0]
        self.between()
        return Told(told)


class Told(list[dict[str, Any]]):
    def collect(self) -> list[dict[str, Any]]:
        return self


def keys_in(path: str, table: str = "counts") -> list[str]:
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute(f"SELECT key FROM {table} ORDER BY key")]  # noqa: S608


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "out.db")


def sink_at(path: str, **options: Any) -> TableSink:
    return TableSink(partial(sqlite3.connect, path), "counts", **options)


@pytest.mark.parametrize("style", ["qmark", "numeric"])
def test_a_batch_that_comes_again_is_computed_and_not_written(path: str, style: str) -> None:
    sink = sink_at(path, paramstyle=style)
    assert [sink.write(Tasks("a", "b"), "q", 0), sink.write(Tasks("a", "b"), "q", 0)] == [True, False]
    again = sink_at(path, paramstyle=style)
    assert [again.write(Tasks("a", "b"), "q", 0), again.write(Tasks("c"), "q", 1)] == [False, True]
    assert keys_in(path) == ["a", "b", "c"]
    assert keys_in(path, "counts_staged") == []


def test_an_attempt_that_spark_does_not_count_leaves_nothing(path: str) -> None:
    """Both tasks have committed their rows, and Spark runs them again."""
    frame = Tasks("a", "b", "c", runs=(2, 3))
    assert sink_at(path).write(frame, "q", 0)
    assert keys_in(path) == ["a", "b", "c"]


def test_a_driver_that_dies_after_its_tasks_leaves_nothing(path: str) -> None:
    frame = Tasks("a", "b")
    frame.between = partial(int, "dead")
    with pytest.raises(ValueError, match="dead"):
        sink_at(path).write(frame, "q", 0)
    assert keys_in(path) == []
    assert sink_at(path).write(Tasks("a", "b"), "q", 0)
    assert (keys_in(path), keys_in(path, "counts_staged")) == (["a", "b"], [])


def test_a_zombie_that_computes_while_it_is_replaced_writes_nothing(path: str) -> None:
    zombie, frame = sink_at(path), Tasks("z")
    frame.between = lambda: sink_at(path).write(Tasks("a"), "q", 0)
    with pytest.raises(FencedWriterError):
        zombie.write(frame, "q", 0)
    assert keys_in(path) == ["a"]
    unused = Tasks("z")
    with pytest.raises(FencedWriterError):
        zombie.write(unused, "q", 1)
    assert unused.computed == 0


def test_two_writers_by_name_share_a_table(path: str) -> None:
    one, two = sink_at(path, writer="one"), sink_at(path, writer="two")
    assert [sink.write(Tasks(key), "q", 0) for sink, key in ((one, "a"), (two, "b"), (two, "b"))] == [
        True, True, False,
    ]  # fmt: skip
    assert keys_in(path) == ["a", "b"]


def test_a_table_with_other_columns_is_refused_and_so_is_a_lost_database(path: str, tmp_path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE counts (key TEXT)")
    with pytest.raises(SinkTableError, match=r"'counts' lacks the columns \['value', 'timestamp'\]"):
        sink_at(path).write(Tasks("a"), "q", 0)
    with pytest.raises(
        SinkError, match=r"OperationalError: unable to open database file\. None of this batch"
    ):
        sink_at(str(tmp_path / "nowhere" / "out.db"))


def test_wrong_options_are_named(path: str) -> None:
    with pytest.raises(OptionsError, match="paramstyle='named': expected one of qmark"):
        sink_at(path, paramstyle="named")
    with sqlite3.connect(path) as connection, pytest.raises(OptionsError, match="a function that pickles"):
        TableSink(lambda: connection, "counts")


@pytest.mark.spark
def test_tasks_of_spark_write_the_rows(spark: SparkSession, path: str) -> None:
    frame = (
        spark.range(20)
        .selectExpr("CAST(id AS STRING) AS key", "id AS value", "id AS timestamp")
        .repartition(2)
    )
    sink = TableSink(partial(sqlite3.connect, path, timeout=60), "counts")
    assert [sink.write(frame, "q", 0), sink.write(frame, "q", 0)] == [True, False]
    assert keys_in(path) == sorted(map(str, range(20)))
