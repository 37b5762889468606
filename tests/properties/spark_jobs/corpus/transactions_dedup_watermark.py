# Databricks notebook source
from pyspark.sql.functions import col, from_json

# COMMAND ----------

raw = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", dbutils.secrets.get("kafka", "brokers"))
    .option("subscribe", "transactions")
    .option("startingOffsets", "earliest")
    .load()
)

# COMMAND ----------

transactions = (
    raw.select(from_json(col("value").cast("string"), "tx_id STRING, account STRING, amount DOUBLE").alias("t"), "timestamp")
    .select("t.*", "timestamp")
    .filter("tx_id IS NOT NULL")
    .withWatermark("timestamp", "7 days")
    .dropDuplicatesWithinWatermark(["tx_id"])
)

# COMMAND ----------

(
    transactions.writeStream.outputMode("append")
    .option("checkpointLocation", "/mnt/checkpoints/transactions")
    .toTable("silver.transactions")
)
