import os

import psycopg2
from psycopg2.extras import execute_values
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

ORDER = StructType([
    StructField("order_id", StringType(), False),
    StructField("status", StringType()),
    StructField("amount", DoubleType()),
    StructField("version", LongType()),
])

UPSERT = """
    INSERT INTO orders (order_id, status, amount, version) VALUES %s
    ON CONFLICT (order_id) DO UPDATE
    SET status = EXCLUDED.status, amount = EXCLUDED.amount, version = EXCLUDED.version
    WHERE EXCLUDED.version > orders.version
"""


def connect():
    return psycopg2.connect(
        host=os.getenv("PGHOST", "localhost"),
        dbname=os.getenv("PGDATABASE", "shop"),
        user=os.getenv("PGUSER", "shop"),
        password=os.getenv("PGPASSWORD", ""),
    )


def create_table():
    conn = connect()
    with conn, conn.cursor() as cur:
        cur.execute(
            "CREATE TABLE IF NOT EXISTS orders "
            "(order_id TEXT PRIMARY KEY, status TEXT, amount DOUBLE PRECISION, version BIGINT)"
        )
    conn.close()


def main():
    spark = SparkSession.builder.appName("orders-upsert").getOrCreate()
    create_table()

    def upsert(batch, batch_id):
        newest = Window.partitionBy("order_id").orderBy(F.col("version").desc())
        latest = batch.withColumn("rn", F.row_number().over(newest)).where("rn = 1").drop("rn")
        rows = [(r.order_id, r.status, r.amount, r.version) for r in latest.collect()]
        if not rows:
            return
        conn = connect()
        try:
            with conn, conn.cursor() as cur:
                execute_values(cur, UPSERT, rows)
        finally:
            conn.close()

    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.getenv("KAFKA_BOOTSTRAP", "localhost:9092"))
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), ORDER).alias("o"))
        .select("o.*")
        .where("order_id IS NOT NULL AND version IS NOT NULL")
    )
    query = (
        orders.writeStream.foreachBatch(upsert)
        .option("checkpointLocation", "/var/checkpoints/orders-upsert")
        .trigger(processingTime="30 seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
