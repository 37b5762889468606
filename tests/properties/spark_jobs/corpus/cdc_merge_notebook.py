# Databricks notebook source
# MAGIC %md
# MAGIC # Customers: change feed into silver

# COMMAND ----------

dbutils.widgets.text("source", "bronze.customer_changes")
dbutils.widgets.text("target", "silver.customers")
source = dbutils.widgets.get("source")
target = dbutils.widgets.get("target")

# COMMAND ----------

from delta.tables import DeltaTable
from pyspark.sql import functions as F

spark.sql(f"""
CREATE TABLE IF NOT EXISTS {target} (
  customer_id BIGINT, name STRING, city STRING, version BIGINT
) USING DELTA
""")

# COMMAND ----------

changes = (
    spark.readStream.schema("customer_id BIGINT, name STRING, city STRING, version BIGINT, op STRING")
    .format("json")
    .load("/mnt/landing/customers")
)
display(changes)

# COMMAND ----------


def merge_changes(batch, batch_id):
    customers = DeltaTable.forName(batch.sparkSession, target)
    (
        customers.alias("t")
        .merge(batch.alias("s"), "t.customer_id = s.customer_id")
        .whenMatchedDelete("s.op = 'D'")
        .whenMatchedUpdate(set={"name": "s.name", "city": "s.city", "version": "s.version"})
        .whenNotMatchedInsert(
            condition="s.op != 'D'",
            values={"customer_id": "s.customer_id", "name": "s.name", "city": "s.city", "version": "s.version"},
        )
        .execute()
    )


# COMMAND ----------

(
    changes.writeStream.foreachBatch(merge_changes)
    .option("checkpointLocation", "/mnt/checkpoints/customers")
    .trigger(availableNow=True)
    .start()
)

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT count(*) FROM silver.customers
