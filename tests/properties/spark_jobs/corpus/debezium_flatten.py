import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, get_json_object, when

BOOTSTRAP = os.getenv("BOOTSTRAP_SERVERS", "localhost:9092")
CHECKPOINT = os.path.join(os.getenv("CHECKPOINTS", "/tmp/checkpoints"), "cdc")

spark = SparkSession.builder.appName("cdc").getOrCreate()

changes = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("subscribe", "dbserver1.inventory.customers")
    .option("startingOffsets", "earliest")
    .option("failOnDataLoss", "false")
    .load()
    .select(col("value").cast("string").alias("json"), "partition", "offset")
    .where("json IS NOT NULL")
)

flat = changes.select(
    get_json_object("json", "$.payload.op").alias("op"),
    get_json_object("json", "$.payload.after.id").cast("int").alias("id"),
    get_json_object("json", "$.payload.after.email").alias("email"),
    get_json_object("json", "$.payload.before.id").cast("int").alias("old_id"),
    "partition",
    "offset",
).withColumn("change", when(col("op") == "c", "insert").when(col("op") == "u", "update").when(col("op") == "d", "delete"))

query = (
    flat.writeStream.format("iceberg")
    .outputMode("append")
    .option("fanout-enabled", "true")
    .option("checkpointLocation", CHECKPOINT)
    .toTable("lake.cdc.customer_changes")
)
print("query id:", query.id)
query.awaitTermination()
