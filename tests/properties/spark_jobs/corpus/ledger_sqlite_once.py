import sqlite3
import sys

from pyspark.sql import SparkSession

DB = sys.argv[1] if len(sys.argv) > 1 else "ledger.db"


def prepare():
    with sqlite3.connect(DB) as db:
        db.execute("CREATE TABLE IF NOT EXISTS ledger (account TEXT, amount INTEGER)")
        db.execute("CREATE TABLE IF NOT EXISTS batches (batch_id INTEGER PRIMARY KEY)")


def book(df, batch_id):
    rows = [(r["account"], r["amount"]) for r in df.collect()]
    db = sqlite3.connect(DB, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT 1 FROM batches WHERE batch_id = ?", (batch_id,)).fetchone() is None:
            db.executemany("INSERT INTO ledger VALUES (?, ?)", rows)
            db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
        db.execute("COMMIT")
    finally:
        db.close()


if __name__ == "__main__":
    prepare()
    spark = SparkSession.builder.appName("ledger").getOrCreate()
    moves = spark.readStream.schema("account STRING, amount INT").csv("moves")
    query = moves.writeStream.foreachBatch(book).option("checkpointLocation", "ledger-checkpoint").start()
    query.awaitTermination()
