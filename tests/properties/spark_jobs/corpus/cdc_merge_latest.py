# Databricks notebook source
from delta.tables import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as F

# COMMAND ----------

TARGET = "silver.products"
spark.sql(f"CREATE TABLE IF NOT EXISTS {TARGET} (product_id BIGINT, price DOUBLE, version BIGINT) USING DELTA")

# COMMAND ----------


def upsert_latest(batch, batch_id):
    w = Window.partitionBy("product_id").orderBy(F.desc("version"), F.desc("price"))
    latest = batch.withColumn("rank", F.row_number().over(w)).filter("rank = 1").drop("rank")
    (
        DeltaTable.forName(spark, TARGET)
        .alias("t")
        .merge(latest.alias("s"), "t.product_id = s.product_id")
        .whenMatchedUpdateAll(condition="s.version > t.version")
        .whenNotMatchedInsertAll()
        .execute()
    )


# COMMAND ----------

products = (
    spark.readStream.schema("product_id BIGINT, price DOUBLE, version BIGINT")
    .json("/mnt/landing/products")
    .where("product_id IS NOT NULL AND version IS NOT NULL")
)
products.writeStream.foreachBatch(upsert_latest).option("checkpointLocation", "/mnt/checkpoints/products").start()
