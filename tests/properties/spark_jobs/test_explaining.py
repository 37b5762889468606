"""An explanation of a sink says where the fault strikes, what is done again, and what is there then and in the end."""

import sqlite3
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from headrace_properties.spark_jobs.explaining import Run, explain_sink
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks import try_fault

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
    marks = dict.fromkeys(run.again, "again: ") | dict.fromkeys(run.strikes, "! ")
    return [f"{marks.get(number, '')}{line.partition('  (')[0]}" for number, line in enumerate(run.lines)]


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
