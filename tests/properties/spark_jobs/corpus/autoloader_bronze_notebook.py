# Databricks notebook source
# MAGIC %md
# MAGIC ## Load new files into bronze

# COMMAND ----------

dbutils.widgets.text("entity", "flights")
dbutils.widgets.dropdown("reset", "no", ["yes", "no"])
entity = dbutils.widgets.get("entity")

# COMMAND ----------

base = "abfss://bronze@lake.dfs.core.windows.net"
if dbutils.widgets.get("reset") == "yes":
    dbutils.fs.rm(f"{base}/_checkpoints/{entity}", True)

# COMMAND ----------

from pyspark.sql.functions import col

df = (
    spark.readStream.format("cloudFiles")
    .option("cloudFiles.format", "json")
    .option("cloudFiles.schemaLocation", f"{base}/_checkpoints/{entity}")
    .schema("flight STRING, origin STRING, destination STRING, delay INT")
    .load(f"abfss://source@lake.dfs.core.windows.net/{entity}")
)

# COMMAND ----------

display(df)

# COMMAND ----------

(
    df.withColumn("delayed", col("delay") > 15)
    .writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", f"{base}/_checkpoints/{entity}")
    .option("mergeSchema", "true")
    .trigger(once=True)
    .toTable(f"bronze.{entity}")
)
