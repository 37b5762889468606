"""Functions for ``foreachBatch`` as people write them, each with one realistic mistake beside it."""

import logging
import sqlite3
from pathlib import Path
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

SCHEMA = "device STRING, version INT, amount INT"
FEED = [[("a", 1, 10), ("b", 1, 20)], [("a", 2, 11)]]
ONCE = [[("a", 1, 10)], [("b", 1, 20)]]
"""Each device once: without a version, a writer that was replaced may put an older row over a newer one."""
CREATE = "CREATE TABLE IF NOT EXISTS readings (device TEXT PRIMARY KEY, version INT, amount INT)"
CREATE_LOG = "CREATE TABLE IF NOT EXISTS log (batch INT, device TEXT, version INT, amount INT)"
CREATE_DONE = "CREATE TABLE IF NOT EXISTS done (batch INT PRIMARY KEY)"


def prepare() -> None:
    """Make the tables."""
    with sqlite3.connect("readings.db") as db:
        for statement in (CREATE, CREATE_LOG, CREATE_DONE):
            db.execute(statement)


def rows_of(df: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


UPSERT = """INSERT INTO readings VALUES (?, ?, ?) ON CONFLICT (device)
DO UPDATE SET version = excluded.version, amount = excluded.amount"""


def upsert(df: Any, batch_id: int) -> None:
    with sqlite3.connect("readings.db") as db:
        db.executemany(UPSERT, rows_of(df))


def insert(df: Any, batch_id: int) -> None:
    with sqlite3.connect("readings.db") as db:
        db.executemany("INSERT INTO log VALUES (0, ?, ?, ?)", rows_of(df))


def replace_batch(df: Any, batch_id: int) -> None:
    rows = rows_of(df)
    with sqlite3.connect("readings.db") as db:
        db.execute("DELETE FROM log WHERE batch = ?", (batch_id,))
        db.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", [(batch_id, *row) for row in rows])


def mark_first(df: Any, batch_id: int) -> None:
    db = sqlite3.connect("readings.db")
    if db.execute("SELECT 1 FROM done WHERE batch = ?", (batch_id,)).fetchone():
        return
    with db:
        db.execute("INSERT INTO done VALUES (?)", (batch_id,))
    with db:
        db.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", [(batch_id, *row) for row in rows_of(df)])


def merge(df: Any, batch_id: int) -> None:
    with sqlite3.connect("readings.db") as db:
        db.executemany(f"{UPSERT} WHERE excluded.version > readings.version", rows_of(df))


def merge_sum(df: Any, batch_id: int) -> None:
    added = UPSERT.replace("amount = excluded.amount", "amount = amount + excluded.amount")
    with sqlite3.connect("readings.db") as db:
        db.executemany(added, rows_of(df))


def file_of_batch(df: Any, batch_id: int) -> None:
    path = Path(f"batch-{batch_id}.csv")
    path.with_suffix(".tmp").write_text("".join(f"{row.device},{row.amount}\n" for row in df.collect()))
    path.with_suffix(".tmp").rename(path)


def appended_file(df: Any, batch_id: int) -> None:
    with Path("all.csv").open("a") as file:
        file.writelines(f"{row.device},{row.amount}\n" for row in df.collect())


def latest_wins(df: Any, batch_id: int) -> None:
    newest = F.row_number().over(Window.partitionBy("device").orderBy(F.desc("version")))
    latest = df.withColumn("n", newest).filter("n = 1").drop("n")
    with sqlite3.connect("readings.db") as db:
        db.executemany(f"{UPSERT} WHERE excluded.version >= readings.version", rows_of(latest))


def latest_wins_logged(df: Any, batch_id: int) -> None:
    try:
        latest_wins(df, batch_id)
    except Exception:
        logging.getLogger(__name__).exception("batch %d", batch_id)


def partition_of_batch(df: Any, batch_id: int) -> None:
    marked = df.withColumn("batch", F.lit(batch_id))
    marked.write.format("delta").mode("overwrite").option("replaceWhere", f"batch = {batch_id}").saveAsTable(
        "t"
    )


def appended_table(df: Any, batch_id: int) -> None:
    df.withColumn("batch", F.lit(batch_id)).write.format("delta").mode("append").saveAsTable("t")


feed, once = FEED, ONCE
