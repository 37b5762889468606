"""The checkpoint is deleted, or comes from a backup, and the target stays: sinks that go by the batch id, and their twins."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.sinks import RowsOf, SinkReport, Wrong, check_sink, try_fault
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.apart import call

SCHEMA = "id LONG, amount LONG"
BATCHES = [[(1, 10), (2, 20)], [(3, 30)], [(4, 40)]]
NEW, OLDER = SinkFaultKind.NEW_CHECKPOINT, SinkFaultKind.CHECKPOINT_RESTORED
LATEST, FINER, WHOLE, BACKUP = (
    SinkFault(NEW, 0, 0), SinkFault(NEW, 0, 1), SinkFault(NEW, 0, 2), SinkFault(OLDER, 1, 0),
)  # fmt: skip


def prepare() -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("CREATE TABLE payments (batch INT, id INT, amount INT)")
        db.execute("CREATE TABLE amounts (id INT PRIMARY KEY, amount INT)")
        db.execute("CREATE TABLE done (batch INT PRIMARY KEY)")


def rows_of(df: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


def skips_known_ids(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("BEGIN IMMEDIATE")
        if not db.execute("SELECT 1 FROM done WHERE batch = ?", (batch_id,)).fetchone():
            db.execute("INSERT INTO done VALUES (?)", (batch_id,))
            db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in rows_of(df)])


def replaces_by_id(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("DELETE FROM payments WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in rows_of(df)])


def names_files(df: Any, batch_id: int) -> None:
    part = Path(f"batch-{batch_id}.tmp")
    part.write_text("".join(f"{id_},{amount}\n" for id_, amount in rows_of(df)))
    part.rename(f"batch-{batch_id}.csv")


def overwrites_partition(df: Any, batch_id: int) -> None:
    df.withColumn("batch", F.lit(batch_id)).write.format("delta").mode("overwrite").option(
        "replaceWhere", f"batch = {batch_id}"
    ).save("s3a://lake/payments")


def has_one_application(df: Any, batch_id: int) -> None:
    writer = df.write.format("delta").mode("append").option("txnAppId", "payments")
    writer.option("txnVersion", batch_id).save("s3a://lake/payments")


def keys_partitions(df: Any, batch_id: int) -> None:
    rows = rows_of(df.select(F.spark_partition_id() * 100 + F.col("id"), "amount"))
    with sqlite3.connect("bank.db") as db:
        db.executemany("INSERT OR REPLACE INTO amounts VALUES (?, ?)", rows)


def keys_rows(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.executemany("INSERT OR IGNORE INTO amounts VALUES (?, ?)", rows_of(df))


def keys_rows_and_logs_ids(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch_id,))
        db.executemany("INSERT OR IGNORE INTO amounts VALUES (?, ?)", rows_of(df))


def refuses_a_gap(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("BEGIN IMMEDIATE")
        last = db.execute("SELECT max(batch) FROM done").fetchone()[0]
        if batch_id > (-1 if last is None else last) + 1:
            raise ValueError("a batch is missing")
        db.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch_id,))
        db.executemany("INSERT OR IGNORE INTO amounts VALUES (?, ?)", rows_of(df))


def appends_and_skips(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db", isolation_level=None) as db:
        if db.execute("INSERT OR IGNORE INTO done VALUES (?)", (batch_id,)).rowcount:
            db.executemany("INSERT OR IGNORE INTO amounts VALUES (?, ?)", rows_of(df))


@pytest.mark.parametrize(
    ("sink", "shown"),
    [
        (skips_known_ids, {LATEST, FINER, BACKUP}),
        (replaces_by_id, {LATEST, WHOLE}),
        (names_files, {LATEST, WHOLE}),
        (overwrites_partition, {LATEST}),
        (has_one_application, {LATEST}),
        (keys_rows, set()),
        (keys_rows_and_logs_ids, set()),
    ],
)
def test_new_checkpoint_breaks_what_goes_by_the_batch_id_and_not_what_goes_by_rows(
    sink: Callable[[Any, int], None], shown: set[SinkFault]
) -> None:
    for fault in (LATEST, FINER, WHOLE, BACKUP) if len(shown) != 1 else shown:
        found = call(try_fault, sink, BATCHES, SCHEMA, fault, prepare=prepare).findings
        assert {finding.wrong for finding in found} == ({Wrong.RESTARTED} if fault in shown else set())


def _check(sink: Callable[[Any, int], None], batches: Any = BATCHES[:2], **options: Any) -> SinkReport:
    return call(check_sink, sink, batches, SCHEMA, prepare=prepare, overtaken=False, **options)


def test_what_an_operator_does_to_the_checkpoint_is_a_note_unless_it_is_declared() -> None:
    told = _check(skips_known_ids)
    note, restored = told.notes
    assert restored.startswith("if the target is restored from a backup, and the checkpoint is not, ")
    assert told.holds
    assert note.startswith(
        "if its checkpoint is deleted, batch ids begin at 0 again: from the latest offsets, bank.db: payments lacks"
        " (id=3, amount=30) ("
    )
    also = "; rows also differ from the earliest offsets and with a checkpoint restored from a backup, or copied for a second"
    assert also in note
    (finding,) = _check(skips_known_ids, new_checkpoint=True).findings
    assert (finding.wrong, finding.destination, finding.trials) == (Wrong.RESTARTED, "bank.db: payments", 3)
    kept = _check(skips_known_ids, new_checkpoint=False)
    assert (kept.holds, kept.notes) == (True, ())


def test_rows_that_a_restored_target_lacks_are_told_where_that_is_declared() -> None:
    (note,) = _check(keys_rows, new_checkpoint=True).notes
    assert note.startswith(
        "if the target is restored from a backup, and the checkpoint is not, Spark does not give batch 0 again:"
        " bank.db: amounts lacks (id=1, amount=10), (id=2, amount=20). Restore the checkpoint of that time with it"
    )
    assert _check(keys_rows).notes == ()
    (refused,) = _check(refuses_a_gap, new_checkpoint=True).notes
    assert refused.endswith("as it will each time: nothing is lost without a word")
    of_state = _check(keys_rows, rows_of=RowsOf.APPENDED, new_checkpoint=True)
    assert ["amounts lacks (id=1, amount=10)" in each for each in of_state.notes] == [True]


def test_sink_that_a_failure_breaks_is_told_nothing_of_checkpoints() -> None:
    report = _check(appends_and_skips)
    assert {finding.wrong for finding in report.findings} == {Wrong.MISSING}
    assert report.notes == ()


def test_declared_new_checkpoint_that_cannot_be_tried_is_unknown() -> None:
    of_state = _check(keys_rows, BATCHES[:1], rows_of=RowsOf.APPENDED, new_checkpoint=True)
    one_batch = _check(keys_rows, BATCHES[:1], new_checkpoint=True)
    assert of_state.unknown == ("a new checkpoint was not tried: it forgets the query's state",)
    assert one_batch.unknown == ("a new checkpoint was not tried: fewer than two batches have rows",)


def test_rows_that_are_keyed_by_their_partition_are_doubled_when_a_batch_comes_back_in_others() -> None:
    (finding,) = _check(keys_partitions, new_checkpoint=False).findings
    assert (finding.wrong, finding.fault.kind) == (Wrong.TWICE, SinkFaultKind.REORDER)
    assert "and its rows came back in other partitions; then bank.db: amounts has" in finding.story
    assert finding.remedy.startswith("Replace rows by a key of their own")
