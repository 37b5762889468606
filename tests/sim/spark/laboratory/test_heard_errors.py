"""Errors that a program's own code catches on the real Spark, in the driver and in a task: they say why rows are missing."""

from pathlib import Path

import pytest

from headrace_properties.sinks.story import Wrong
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.laboratory.test_workers import READ, START, tried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

CATCHES = """
def save(rows, batch_id):
    db = sqlite3.connect("out.db", isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS done (batch INTEGER PRIMARY KEY)")
    db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER, amount INTEGER)")
    try:
        db.execute("INSERT INTO done VALUES (?)", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?)", [(row.id, row.amount) for row in rows])
    except Exception as error:
        print("not saved", error)

def write(df, batch_id):
    CALL

"""
IN_DRIVER, IN_TASK = (
    READ + CATCHES.replace("CALL", call) + f"payments.writeStream.foreachBatch(write){START}"
    for call in (
        "save(df.collect(), batch_id)",
        "df.repartition(1).foreachPartition(lambda rows: save(rows, batch_id))",
    )
)


@pytest.mark.parametrize("program", [pytest.param(IN_DRIVER, id="driver"), pytest.param(IN_TASK, id="task")])
def test_an_error_that_is_only_printed_is_blamed_for_what_is_missing(
    jvm: SparkJvm, tmp_path: Path, program: str
) -> None:
    trial = tried(jvm, tmp_path, program, SinkFault(SinkFaultKind.KILL, 1, 3))
    (finding,) = trial.findings
    assert (finding.destination, finding.wrong) == ("out.db: payments", Wrong.MISSING)
    assert "IntegrityError: UNIQUE constraint failed: done.batch" in str(finding)


SKIPS = (
    READ  # noqa: S608  a program's text
    + """
def write(df, batch_id):
    try:
        rows = df.collect()
    except Exception:
        return
    with sqlite3.connect("out.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER, amount INTEGER)")
        db.executemany("INSERT INTO payments VALUES (?, ?)", [tuple(row) for row in rows])

payments.writeStream.foreachBatch(write)"""
    + START
)


def test_an_action_that_fails_and_is_caught_loses_its_batch(jvm: SparkJvm, tmp_path: Path) -> None:
    trial = tried(jvm, tmp_path, SKIPS, SinkFault(SinkFaultKind.FAIL, 1, 0))
    assert [(finding.destination, finding.wrong) for finding in trial.findings] == [
        ("out.db: payments", Wrong.MISSING)
    ]
