"""Functions for `foreachBatch` as people write them: right ones, and wrong ones, whose line to blame is marked ``WRONG``."""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

SCHEMA = "account STRING, amount INT"
LAKE = "lake"
BATCHES = [[("ann", 10), ("bob", 20)], [("ann", 1)]]


def make_tables() -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("CREATE TABLE payments (batch INT, account TEXT, amount INT)")
        db.execute("CREATE TABLE balances (account TEXT PRIMARY KEY, amount INT)")
        db.execute("CREATE TABLE batches (id INTEGER PRIMARY KEY)")


def _connect(**options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.connect("bank.db", **options)
    return connection


# Right ones.


def rolled_back_if_known(df: Any, batch_id: int) -> None:
    db = _connect()
    db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in df.collect()])
    try:
        db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
    except sqlite3.IntegrityError:
        db.rollback()
    else:
        db.commit()
    attempt = _connect()
    attempt.execute("DELETE FROM payments")
    attempt.execute("ROLLBACK")
    attempt.close()


def balances_and_batch_id_in_one_transaction(df: Any, batch_id: int) -> None:
    with _connect() as db:
        try:
            db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
        except sqlite3.IntegrityError:
            return
        for row in df.collect():
            change = "INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount"
            db.execute(change, tuple(row))


def failure_noted_and_raised(df: Any, batch_id: int) -> None:
    try:
        rows = [(batch_id, *row) for row in df.collect()]
    except Exception as error:
        Path("failures.log").write_text(str(error))
        raise
    with _connect() as db:
        db.execute("DELETE FROM payments WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)


def rows_of_a_batch_replaced_in_one_transaction(df: Any, batch_id: int) -> None:
    with _connect() as db:
        db.execute("DELETE FROM payments WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in df.collect()])


def summed_in_a_temporary_table(df: Any, batch_id: int) -> None:
    scratch = _connect()
    scratch.execute("BEGIN")
    scratch.execute("CREATE TEMP TABLE sums (account TEXT, amount INT)")
    scratch.executemany("INSERT INTO sums VALUES (?, ?)", [tuple(row) for row in df.collect()])
    rows = scratch.execute("SELECT account, SUM(amount) FROM sums GROUP BY account").fetchall()
    scratch.close()
    with _connect() as db:
        db.execute("DELETE FROM payments WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in rows])


def tried_out_and_rolled_back_first(df: Any, batch_id: int) -> None:
    rows, tried = [(batch_id, *row) for row in df.collect()], _connect()
    tried.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)
    tried.rollback()
    tried.close()
    with _connect() as db:
        db.execute("DELETE FROM payments WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)


def directory_by_batch_id_renamed(df: Any, batch_id: int) -> None:
    done = Path(f"out/batch={batch_id}")
    if done.exists():
        return
    done.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir="."))
    with (made / "rows.json").open("w") as file:
        for row in df.collect():
            file.write(json.dumps(row.asDict()) + "\n")
    try:
        made.rename(done)
    except OSError:  # another process was faster
        shutil.rmtree(made)


def file_by_batch_id_replaced(df: Any, batch_id: int) -> None:
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
        df.toPandas().to_csv(file, index=False)
    os.replace(file.name, f"batch-{batch_id}.csv")


def put_by_batch_id(df: Any, batch_id: int) -> None:
    rows = [row.asDict() for row in df.orderBy("account").collect()]
    request = urllib.request.Request(
        f"http://bank.test/batches/{batch_id}", json.dumps(rows).encode(), method="PUT"
    )
    urllib.request.urlopen(request).read()


def post_with_idempotency_key(df: Any, batch_id: int) -> None:
    for place, row in enumerate(df.orderBy("account", "amount").collect()):
        headers = {"Idempotency-Key": f"{batch_id}-{place}"}
        urllib.request.urlopen(
            urllib.request.Request("http://bank.test/payments", json.dumps(row).encode(), headers)
        ).read()


def partition_of_a_table_overwritten(df: Any, batch_id: int) -> None:
    tagged = df.withColumn("batch", F.lit(batch_id))
    tagged.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("batch").parquet(
        f"{LAKE}/payments"
    )


def delta_transaction(df: Any, batch_id: int) -> None:
    df.write.format("delta").option("txnAppId", "payments").option("txnVersion", batch_id).mode(
        "append"
    ).save(f"{LAKE}/payments")


def file_with_the_day_of_writing_in_it(df: Any, batch_id: int) -> None:
    rows = [{**row.asDict(), "day": str(datetime.now(UTC).date())} for row in df.collect()]
    Path("rows.tmp").write_text(json.dumps(rows))
    os.replace("rows.tmp", f"batch-{batch_id}.json")


# Wrong ones.


def two_tables_in_two_transactions(df: Any, batch_id: int) -> None:
    db = _connect()
    if db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
        return
    db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
    db.commit()  # WRONG
    db.executemany("INSERT INTO payments VALUES (?, ?, ?)", [(batch_id, *row) for row in df.collect()])
    db.commit()


def never_committed(df: Any, batch_id: int) -> None:
    db = _connect()
    db.executemany("REPLACE INTO balances VALUES (?, ?)", [tuple(row) for row in df.collect()])  # WRONG
    db.close()


def committed_on_another_connection(df: Any, batch_id: int) -> None:
    db, rows = _connect(), [(batch_id, *row) for row in df.collect()]
    db.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)  # WRONG
    db.close()
    with _connect() as done:
        done.execute("REPLACE INTO batches VALUES (?)", (batch_id,))


def appended_without_batch_id(df: Any, batch_id: int) -> None:
    with _connect() as db:
        db.executemany("INSERT INTO payments VALUES (0, ?, ?)", [tuple(row) for row in df.collect()])  # WRONG


def each_row_committed_by_itself(df: Any, batch_id: int) -> None:
    db = _connect(isolation_level=None)
    if db.execute("SELECT 1 FROM payments WHERE batch = ?", (batch_id,)).fetchone():
        return
    for row in df.collect():
        db.execute("INSERT INTO payments VALUES (?, ?, ?)", (batch_id, *row))  # WRONG


def balance_added_to(df: Any, batch_id: int) -> None:
    change = "INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount"
    with _connect() as db:
        for row in df.collect():
            db.execute(change, tuple(row))  # WRONG


def checked_before_the_transaction(df: Any, batch_id: int) -> None:
    with _connect() as db:
        if db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
            return
        rows = [(batch_id, *row) for row in df.collect()]
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)  # WRONG
        db.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,))


def checked_before_it_begins(df: Any, batch_id: int) -> None:
    db = _connect(isolation_level=None)
    if not db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
        db.execute("BEGIN IMMEDIATE")
        for row in df.collect():
            db.execute("INSERT INTO payments VALUES (?, ?, ?)", (batch_id, *row))  # WRONG
        db.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,))
        db.execute("COMMIT")


def numbered_by_place_in_the_batch(df: Any, batch_id: int) -> None:
    """Run again after its first row, with rows in another order, it takes another row for that one."""
    db = _connect(isolation_level=None)
    add = "INSERT OR IGNORE INTO balances VALUES (?, ?)"
    for place, row in enumerate(df.collect()):
        db.execute(add, (f"{batch_id}/{place}", row.amount))  # WRONG


def error_swallowed(df: Any, batch_id: int) -> None:
    body = json.dumps([row.asDict() for row in df.collect()]).encode()
    with contextlib.suppress(OSError):
        urllib.request.urlopen(  # WRONG
            urllib.request.Request(f"http://bank.test/{batch_id}", body, method="PUT")
        )


def failed_job_swallowed(df: Any, batch_id: int) -> None:
    with contextlib.suppress(Exception):
        text = json.dumps([row.asDict() for row in df.collect()])
        Path(f"batch-{batch_id}.json").write_text(text)  # WRONG


def committed_whatever_happens(df: Any, batch_id: int) -> None:
    db = _connect()
    try:
        if not db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
            db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
            db.executemany("INSERT INTO payments VALUES (0, ?, ?)", [tuple(row) for row in df.collect()])
    finally:
        db.commit()  # WRONG
        db.close()


def file_appended(df: Any, batch_id: int) -> None:
    with open("payments.jsonl", "a") as file:
        for row in df.collect():
            file.write(json.dumps(row.asDict()) + "\n")
        file.flush()  # WRONG


def marked_before_the_rename(df: Any, batch_id: int) -> None:
    marker = Path(f"done-{batch_id}")
    if marker.exists():
        return
    Path("rows.tmp").write_text("".join(f"{row.account},{row.amount}\n" for row in df.collect()))
    marker.touch()  # WRONG
    os.replace("rows.tmp", f"batch-{batch_id}.csv")


def directory_made_once(df: Any, batch_id: int) -> None:
    os.mkdir(f"batch-{batch_id}")  # WRONG
    Path(f"batch-{batch_id}/rows.txt").write_text(repr(df.collect()))


def posted(df: Any, batch_id: int) -> None:
    for row in df.collect():
        urllib.request.urlopen("http://bank.test/payments", json.dumps(row.asDict()).encode()).read()  # WRONG


_total = 0


def file_named_by_the_day_of_writing(df: Any, batch_id: int) -> None:
    Path("rows.tmp").write_text(json.dumps([row.asDict() for row in df.collect()]))
    os.replace("rows.tmp", f"{datetime.now(UTC).date()}-{batch_id}.json")  # WRONG


def counted_in_a_global(df: Any, batch_id: int) -> None:
    global _total
    _total += int(df.toPandas().amount.sum())
    Path(f"total-{batch_id}").write_text(str(_total))  # WRONG


def appended_with_spark(df: Any, batch_id: int) -> None:
    df.write.mode("append").parquet(f"{LAKE}/payments")  # WRONG


def two_frames_written(df: Any, batch_id: int) -> None:
    df.write.format("delta").option("txnAppId", "all").option("txnVersion", batch_id).mode("append").save(
        f"{LAKE}/all"
    )
    df.filter(df.amount > 9).write.format("delta").mode("append").save(f"{LAKE}/large")  # WRONG


def written_in_each_partition(df: Any, batch_id: int) -> None:
    def write(rows: Iterator[Any]) -> None:
        with _connect() as db:
            for row in rows:
                db.execute("INSERT INTO payments VALUES (?, ?, ?)", (batch_id, *row))  # WRONG

    df.foreachPartition(write)


RIGHT = (
    balances_and_batch_id_in_one_transaction,
    rows_of_a_batch_replaced_in_one_transaction,
    failure_noted_and_raised,
    rolled_back_if_known,
    summed_in_a_temporary_table,
    tried_out_and_rolled_back_first,
    directory_by_batch_id_renamed,
    file_by_batch_id_replaced,
    file_with_the_day_of_writing_in_it,
    put_by_batch_id,
    post_with_idempotency_key,
    partition_of_a_table_overwritten,
    delta_transaction,
)
WRONG = {
    two_tables_in_two_transactions: "missing",
    never_committed: "never committed",
    committed_on_another_connection: "never committed",
    appended_without_batch_id: "twice",
    each_row_committed_by_itself: "missing",
    balance_added_to: "differs",
    checked_before_the_transaction: "twice",
    checked_before_it_begins: "twice",
    numbered_by_place_in_the_batch: "differs",
    error_swallowed: "missing",
    failed_job_swallowed: "missing",
    committed_whatever_happens: "missing",
    file_appended: "twice",
    marked_before_the_rename: "missing",
    file_named_by_the_day_of_writing: "twice",
    directory_made_once: "stuck",
    posted: "twice",
    counted_in_a_global: "memory",
    appended_with_spark: "twice",
    two_frames_written: "twice",
    written_in_each_partition: "twice",
}
