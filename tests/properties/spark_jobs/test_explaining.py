"""An explanation of a sink says where the fault strikes, what is done again, and what is there then and in the end."""

import sqlite3
import urllib.request
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.explanation import Explanation, Run, StepKind
from headrace_properties.promises.table_promises import newest_wins
from headrace_properties.sinks import check_sink, try_fault
from headrace_properties.sinks.story import OtherRows
from headrace_properties.spark_jobs.explaining import explain_query, explain_sink
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_sim.deliveries import RowDelivery
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java


def append(df: Any, _batch_id: int) -> None:
    df.write.mode("append").format("delta").save("t")


def insert(df: Any, _batch_id: int) -> None:
    with closing(sqlite3.connect("bank.db")) as bank, bank:
        bank.execute("CREATE TABLE IF NOT EXISTS paid (n)")
        bank.executemany("INSERT INTO paid VALUES (?)", [(row.n,) for row in df.collect()])


def post(df: Any, batch_id: int) -> None:
    for _attempt in range(2):
        try:
            urllib.request.urlopen(
                urllib.request.Request(f"http://shop/{batch_id}", data=b"1", method="POST")
            )
        except OSError:
            df.count()
        else:
            return


def _struck(sink: Callable[[Any, int], Any], fault: SinkFault) -> tuple[Run, tuple[str, ...]]:
    explanation = explain_sink(try_fault(sink, [[(1,)], [(2,)]], "n INT", fault))
    return explanation.runs[1], explanation.difference


def _marked(run: Run) -> list[str]:
    """The lines, with their marks and without what comes before the action."""
    lines = []
    for step in run.steps:
        mark = "! " * (step.kind is StepKind.FAULT) + "again: " * step.again
        lines += [f"{mark}{line.partition('  (')[0]}" for line in step.lines]
    return lines


def _strikes(run: Run) -> list[str]:
    return [step.text for step in run.steps if step.kind is StepKind.FAULT]


def test_driver_that_dies_is_told_between_the_attempts() -> None:
    run, difference = _struck(append, SinkFault(SinkFaultKind.KILL, 0, 1))
    lines = _marked(run)
    assert lines[0] == "driver 1, batch 0: append (delta) on t"
    assert lines[1].startswith("! in batch 0 the driver died after append (delta) on t")
    assert lines[2:] == [
        "!   then t has (n=1)",
        "again: driver 2, batch 0: append (delta) on t",
        "driver 2, batch 1: append (delta) on t",
    ]
    assert run.outcome == ("t has (n=1), (n=1), (n=2)",)
    assert difference == ("t has (n=1) once more than it should",)


def test_open_transaction_is_gone_when_its_driver_died() -> None:
    run, _ = _struck(insert, SinkFault(SinkFaultKind.KILL, 1, 2))
    assert "!   then bank.db: paid has (n=1)" in _marked(run)


def test_driver_that_hung_goes_on_behind_its_successor() -> None:
    run, difference = _struck(append, SinkFault(SinkFaultKind.PAUSE, 0, 0))
    lines = _marked(run)
    assert lines[0].startswith("! in batch 0 the driver hung before append")
    assert lines[-2:] == ["! driver 1 goes on", "driver 1, batch 0: append (delta) on t"]
    assert difference == ("t has (n=1) once more than it should",)


def test_request_whose_reply_is_lost_is_followed_by_the_fault() -> None:
    lines = _marked(_struck(post, SinkFault(SinkFaultKind.LOSE_REPLY, 0, 0))[0])
    assert lines[0] == "driver 1, batch 0: POST on http://shop/0"
    assert lines[1].startswith("! in batch 0 the request was carried out, but its reply was lost")
    assert lines[2] == "again: driver 1, batch 0: POST on http://shop/0"


def insert_once(df: Any, batch_id: int) -> None:
    with closing(sqlite3.connect("bank.db", isolation_level=None)) as bank:
        bank.execute("CREATE TABLE IF NOT EXISTS paid (batch, n)")
        bank.execute("BEGIN IMMEDIATE")
        if not bank.execute("SELECT 1 FROM paid WHERE batch = ?", (batch_id,)).fetchone():
            bank.executemany("INSERT INTO paid VALUES (?, ?)", [(batch_id, row.n) for row in df.collect()])
        bank.execute("COMMIT")


def test_new_checkpoint_strikes_where_the_query_starts_again() -> None:
    run, difference = _struck(insert_once, SinkFault(SinkFaultKind.NEW_CHECKPOINT, 0, 0))
    lines = _marked(run)
    (struck,) = (number for number, line in enumerate(lines) if line.startswith("! "))
    assert lines[struck] == "! the query starts again from the latest offsets, and what is written stays"
    assert lines[0].startswith("driver 1, batch 0: ")
    assert lines[struck + 1] == "again: driver 2, batch 0: CREATE TABLE IF NOT EXISTS paid on bank.db: paid"
    assert difference == ("bank.db: paid lacks (batch=1, n=2)",)


def test_fault_that_cannot_strike_leaves_the_undisturbed_run() -> None:
    explanation = explain_sink(try_fault(append, [[(1,)]], "n INT", SinkFault(SinkFaultKind.KILL, 7, 0)))
    assert [run.title for run in explanation.runs] == ["Undisturbed"]


def insert_new_in_batch(df: Any, batch_id: int) -> None:
    with closing(sqlite3.connect("bank.db")) as bank, bank:
        bank.execute("CREATE TABLE IF NOT EXISTS paid (batch, n)")
        bank.execute("DELETE FROM paid WHERE batch = ?", (batch_id,))
        rows = [(batch_id, row.n) for row in df.dropDuplicates().collect()]
        bank.executemany("INSERT INTO paid VALUES (?, ?)", rows)


def overwrite(df: Any, _batch_id: int) -> None:
    df.write.mode("overwrite").format("delta").save("t")


def keep_newest_of_batch(df: Any, _batch_id: int) -> None:
    newest = {row.id: row.n for row in sorted(df.collect(), key=lambda row: row.n)}
    with closing(sqlite3.connect("bank.db")) as bank, bank:
        bank.execute("CREATE TABLE IF NOT EXISTS newest (id PRIMARY KEY, n)")
        bank.executemany("INSERT OR REPLACE INTO newest VALUES (?, ?)", newest.items())


def _compared(sink: Any, batches: Any, schema: str, shown: Any, **given: Any) -> Explanation:
    return explain_sink(try_fault(sink, batches, schema, shown.fault, rows=shown.rows, **given), shown.rows)


@pytest.mark.parametrize(
    ("sink", "batches", "schema", "title", "marked", "difference"),
    [
        (
            insert_new_in_batch,
            [[(1,)], [(2,)]],
            "n INT",
            "With rows again after those of the next batch",
            ["batch 1 has (2,), (1,)"],
            ["bank.db: paid has (batch=1, n=1)"],
        ),
        (
            overwrite,
            [[(1,)], [(2,)]],
            "n INT",
            "With the rows in one batch",
            ["batch 0 has (1,), (2,)"],
            ["t has (n=1)"],
        ),
        (
            keep_newest_of_batch,
            [[("a", 2)], [("a", 1)]],
            "id STRING, n INT",
            "With the rows in one batch",
            ["batch 0 has ('a', 2), ('a', 1)"],
            ["bank.db: newest has (id='a', n=2)", "bank.db: newest lacks (id='a', n=1)"],
        ),
    ],
)
def test_what_no_fault_shows_is_compared_with_the_rows_that_show_it(
    sink: Any, batches: Any, schema: str, title: str, marked: list[str], difference: list[str]
) -> None:
    report = check_sink(sink, batches, schema, overtaken=False, progress=lambda done, _: done > 0)
    shown: list[Any] = [*report.findings, *report.questions]
    wrong = shown[0]
    again = try_fault(sink, batches, schema, wrong.fault)
    same = [each for each in (*again.findings, *again.questions) if type(each) is type(wrong)]
    explanation = _compared(sink, batches, schema, same[0])
    calm, other = explanation.runs
    assert (calm.title, _strikes(calm), other.title) == ("Undisturbed", [], title)
    assert _strikes(other) == marked
    assert [*explanation.difference] == difference


def take_first(df: Any, _batch_id: int) -> None:
    overwrite(df, df.collect()[0].n)


def test_batch_on_which_a_sink_fails_is_shown_beside_those_that_it_takes() -> None:
    fault = SinkFault(SinkFaultKind.DELIVERED, 0, [*RowDelivery].index(RowDelivery.EMPTY))
    again = try_fault(take_first, [[(1,)], [(2,)]], "n INT", fault, filters=True)
    explanation = _compared(take_first, [[(1,)], [(2,)]], "n INT", again.findings[0], filters=True)
    assert explanation.runs[1].title == "With a batch without rows"
    assert explanation.difference == ("batch 1 fails: IndexError: list index out of range",)


def _counted(df: Any) -> Any:
    late = df.withWatermark("at", "1 second").groupBy(F.window("at", "10 seconds")).count()
    return late.writeStream.outputMode("append").format("memory").queryName("counts").start()


def test_rows_that_are_late_undisturbed_are_compared_with_one_batch_in_which_none_is() -> None:
    seconds = [[0, 1], [60], [61], [2], [120]]
    feed = [[(datetime(2030, 1, 1) + timedelta(seconds=at),) for at in batch] for batch in seconds]
    target = spark_target("counted", _counted, schemas="at TIMESTAMP", feed=feed)
    explanation = explain_query(target.job, feed, QueryTrial(Cause.LATE))
    assert [run.title for run in explanation.runs] == ["Undisturbed", "With all rows in one batch"]
    assert "lacks: 1 rows were dropped as late" in explanation.difference
    assert "batch 3 has (datetime.datetime(2030, 1, 1, 0, 0, 2),)" in [
        step.text for step in explanation.runs[0].steps
    ]


def _shown(df: Any) -> Any:
    newest = df.groupBy("id").agg(F.last("n").alias("n"))
    return newest.writeStream.outputMode("update").format("memory").queryName("newest").start()


def test_broken_promise_about_versions_is_compared_with_the_older_ones_first() -> None:
    feed = [[("a", 2)], [("b", 1), ("a", 1)]]
    target = spark_target("shown", _shown, schemas="id STRING, n INT", feed=feed)
    promise = newest_wins("id", version="n", table="output", name="newest")
    explanation = explain_query(target.job, feed, QueryTrial(Cause.PROMISE, promise="newest"), [promise])
    assert explanation.runs[1].title == "With the older versions of each key first"
    assert _strikes(explanation.runs[1]) == [
        "batch 0 has ('a', 1)",
        "batch 1 has ('b', 1), ('a', 2)",
    ]


def test_what_is_there_is_known_behind_each_effect_of_each_driver() -> None:
    trial = try_fault(insert, [[(1,)], [(2,)]], "n INT", SinkFault(SinkFaultKind.KILL, 0, 3))
    steps = explain_sink(trial).runs[1].steps
    one, two = ((("n", "1"),), (("n", "2"),))
    seen = [(step.by, (step.tables or {}).get("bank.db: paid")) for step in steps]
    first = [("driver 1", ()), ("driver 1", ()), ("driver 1", (one,)), ("driver 1", (one,))]
    assert seen[:4] == first
    assert [tables for _, tables in seen[4:7]] == [(one,), (one,), (one, one)]
    assert seen[-1] == ("driver 2", (one, one, two))


def test_overtaken_driver_is_looked_at_when_it_goes_on() -> None:
    trial = try_fault(append, [[(1,)], [(2,)]], "n INT", SinkFault(SinkFaultKind.PAUSE, 0, 0))
    steps = explain_sink(trial).runs[1].steps
    assert [(step.by, step.late, len((step.tables or {}).get("t", ()))) for step in steps] == [
        ("driver 1", False, 0),
        ("driver 2", False, 1),
        ("driver 2", False, 2),
        ("driver 1", True, 0),
        ("driver 1", True, 3),
    ]


def test_undisturbed_run_and_one_on_other_rows_and_one_behind_a_new_checkpoint_are_looked_at_too() -> None:
    trial = try_fault(insert_once, [[(1,)], [(2,)]], "n INT", SinkFault(SinkFaultKind.NEW_CHECKPOINT, 0, 0))
    for run in explain_sink(trial).runs:
        seen = [len((step.tables or {}).get("bank.db: paid", ())) for step in run.steps if step.to]
        assert (len(seen), seen[0], seen[-1]) == (
            len(run.steps) - (run.title != "Undisturbed"),
            0,
            len(run.tables["bank.db: paid"]),
        )
    rows = OtherRows("all rows in one batch", [[(1,), (2,)]])
    fault = SinkFault(SinkFaultKind.NONE, 0, 0)
    _, other = explain_sink(try_fault(append, [[(1,)], [(2,)]], "n INT", fault, rows=rows), rows).runs
    assert [len((step.tables or {}).get("t", ())) for step in other.steps if step.to] == [2]
