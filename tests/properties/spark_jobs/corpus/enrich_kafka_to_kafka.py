import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, struct, to_json, upper
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

BROKERS = os.environ["KAFKA_BROKERS"]
IN = os.environ.get("INPUT_TOPIC", "transactions")
OUT = os.environ.get("OUTPUT_TOPIC", "transactions.enriched")

spark = SparkSession.builder.appName("enrich").getOrCreate()

schema = StructType([
    StructField("id", StringType()),
    StructField("currency", StringType()),
    StructField("amount", DoubleType()),
])

transactions = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("subscribe", IN)
    .load()
    .select(from_json(col("value").cast("string"), schema).alias("t"))
    .select("t.*")
    .withColumn("currency", upper("currency"))
    .withColumn("is_large", col("amount") > 10000)
)

out = transactions.select(col("id").alias("key"), to_json(struct("*")).alias("value"))
query = (
    out.writeStream.format("kafka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("topic", OUT)
    .option("checkpointLocation", f"/checkpoints/{OUT}")
    .start()
)
query.awaitTermination()
