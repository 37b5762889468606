"""Restarts on the real Spark: with a new checkpoint, with one from a backup, and with a batch in other partitions."""

from pathlib import Path

import pytest

from headrace_properties.sinks.story import Wrong
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.laboratory.test_workers import FILES, READ, START, tried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

LATEST, BACKUP = (
    SinkFault(SinkFaultKind.NEW_CHECKPOINT, 0, 0),
    SinkFault(SinkFaultKind.CHECKPOINT_RESTORED, 1, 0),
)
REORDERED = SinkFault(SinkFaultKind.REORDER, 0, 3)
DATABASE = f"""{READ}
def write(df, batch_id):
    rows = [(row.id, row.amount) for row in df.collect()]
    with sqlite3.connect("bank.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS done (batch INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, amount INTEGER)")
        if MARKED:
            db.executemany("INSERT OR REPLACE INTO payments VALUES (?, ?)", rows)

payments.writeStream.foreachBatch(write){START}"""  # noqa: S608  a program of ours
BY_ID = DATABASE.replace(
    "MARKED", 'db.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch_id,)).rowcount'
)
BY_ROW = DATABASE.replace("MARKED", "True")


@pytest.mark.parametrize(
    ("program", "fault", "lacks"),
    [
        (BY_ID, LATEST, "bank.db: payments lacks (id=3, amount=30)"),
        (BY_ID, BACKUP, "bank.db: payments lacks (id=4, amount=40)"),
        (FILES, LATEST, "/data/out lacks (id=3, amount=30)"),
        (BY_ROW, LATEST, ""),
        (BY_ROW, BACKUP, ""),
    ],
)
def test_new_checkpoint_skips_rows_on_spark_where_batch_ids_count(
    jvm: SparkJvm, tmp_path: Path, program: str, fault: SinkFault, lacks: str
) -> None:
    found = tried(jvm, tmp_path, program, fault).findings
    assert len(found) == bool(lacks)
    assert all(lacks in finding.story for finding in found)


BY_PARTITION = f"""{READ}
def write(df, batch_id):
    rows = [tuple(row) for row in df.withColumn("part", PART).collect()]
    with sqlite3.connect("bank.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER, amount INTEGER, part INTEGER, UNIQUE (id, part))")
        db.executemany("INSERT OR REPLACE INTO payments VALUES (?, ?, ?)", rows)

payments.writeStream.foreachBatch(write){START}"""  # noqa: S608  a program of ours


@pytest.mark.parametrize(("part", "twice"), [("F.spark_partition_id()", True), ("F.lit(0)", False)])
def test_batch_comes_back_in_other_partitions_on_spark(
    jvm: SparkJvm, tmp_path: Path, part: str, *, twice: bool
) -> None:
    trial = tried(jvm, tmp_path, BY_PARTITION.replace("PART", part), REORDERED)
    assert [finding.wrong for finding in trial.findings] == [Wrong.TWICE] * twice
    assert trial.fault is not None
