"""A writer of ``foreach`` is called as Spark's tasks call it: what it does again is found, and an upsert is left alone."""

import ast
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkAttributeError

from headrace_properties.sinks import SinkReport, check_sink
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.sinks.foreach_writers import function_of_writer
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.sink_runs import undisturbed
from tests.sim.spark.apart import call

_SCHEMA = "id STRING, v INT"
_ROWS = [[("a", 71), ("b", 72), ("c", 73)], [("d", 74), ("e", 75)]]


def make_table() -> None:
    with sqlite3.connect("out.db") as db:
        db.execute("CREATE TABLE t (id TEXT, v INT)")
        db.execute("CREATE TABLE keyed (id TEXT PRIMARY KEY, v INT)")
        db.execute("CREATE TABLE done (part INT, epoch INT, PRIMARY KEY (part, epoch))")


class Appends:
    """Commits each row by itself."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.db = sqlite3.connect("out.db")
        return True

    def process(self, row: Any) -> None:
        with self.db:
            self.db.execute("INSERT INTO t VALUES (?, ?)", (row.id, row.v))

    def close(self, error: Exception | None) -> None:
        self.db.close()


class Upserts(Appends):
    """Replaces the row of the same key."""

    def process(self, row: Any) -> None:
        with self.db:
            self.db.execute("INSERT OR REPLACE INTO keyed VALUES (?, ?)", (row.id, row.v))


class SkipsKnownParts(Appends):
    """Takes a partition and an epoch for the same rows each time."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        super().open(partition_id, epoch_id)
        self.at = (partition_id, epoch_id)
        return not self.db.execute("SELECT 1 FROM done WHERE part = ? AND epoch = ?", self.at).fetchone()

    def process(self, row: Any) -> None:
        self.db.execute("INSERT INTO t VALUES (?, ?)", (row.id, row.v))

    def close(self, error: Exception | None) -> None:
        if error is None and self.db.in_transaction:
            self.db.execute("INSERT INTO done VALUES (?, ?)", self.at)
            self.db.commit()
        self.db.close()


class NeverCommits(Appends):
    """Leaves its transaction open."""

    def process(self, row: Any) -> None:
        self.db.execute("INSERT INTO t VALUES (?, ?)", (row.id, row.v))


def upsert_row(row: Any) -> None:
    with sqlite3.connect("out.db") as db:
        db.execute("INSERT OR REPLACE INTO keyed VALUES (?, ?)", (row.id, row.v))


def append_row(row: Any) -> None:
    with Path("out.txt").open("a") as file:
        file.write(f"{row.id}\n")


def judged(writer: Any) -> SinkReport:
    return call(check_sink, function_of_writer(writer), _ROWS, _SCHEMA, prepare=make_table)


@pytest.mark.parametrize(
    ("writer", "wrong"),
    [
        (Appends(), {"twice"}),
        pytest.param(append_row, {"twice"}, marks=pytest.mark.nightly),
        (SkipsKnownParts(), {"missing"}),
        (Upserts(), set()),
        pytest.param(upsert_row, set(), marks=pytest.mark.nightly),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_writer_is_judged_by_what_it_does_again(writer: Any, wrong: set[str]) -> None:
    report = judged(writer)
    assert {finding.wrong.value for finding in report.findings} >= wrong
    assert bool(report.findings) == bool(wrong)
    assert report.unknown == ()


def test_rows_that_a_writer_never_commits_are_missed() -> None:
    assert "never committed" in {finding.wrong.value for finding in judged(NeverCommits()).findings}


def parts(df: Any, batch_id: int) -> None:
    def told(rows: Any) -> None:
        context = TaskContext.get()
        assert context is not None
        names = (batch_id, context.partitionId(), context.attemptNumber(), context.stageId())
        for row in rows:
            Path(f"{row.id}.txt").write_text(f"{names}\n")

    df.foreachPartition(told)
    assert TaskContext.get() is None


def test_task_of_a_batch_knows_its_partition() -> None:
    trial = call(_kept, parts)
    assert trial == {
        "a": (0, 0, 0, 0),
        "b": (0, 1, 0, 0),
        "c": (0, 0, 0, 0),
        "d": (1, 0, 0, 0),
        "e": (1, 1, 0, 0),
    }


def _kept(function: Any) -> dict[str, Any]:
    """Return what a function writes, undisturbed."""
    rows = tuple(map(tuple, _ROWS))
    sink = Sink(function, parse_schema(_SCHEMA), rows, None)
    return {name[0]: ast.literal_eval(str(lines[0])) for name, lines in undisturbed(sink).contents.items()}


def test_query_with_a_writer_is_tried() -> None:
    def job(rows: Any) -> Any:
        return rows.writeStream.foreach(Appends()).start()

    report = call(spark_target("job", job, schemas=_SCHEMA, feed=_ROWS, prepare=make_table).verify)
    assert {finding.kind.name for finding in report.findings} == {"twice"}
    assert report.findings[0].place is not None
    assert Path(report.findings[0].place.file).name == Path(__file__).name


def test_what_is_no_writer_is_refused_as_spark_does() -> None:
    with pytest.raises(PySparkAttributeError):
        function_of_writer(object())
    with pytest.raises(Exception, match="process"):
        record(lambda rows: rows.writeStream.foreach(object()).start(), _SCHEMA)
