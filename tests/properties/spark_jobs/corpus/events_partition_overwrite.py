from pyspark.sql import SparkSession
from pyspark.sql.functions import col, to_date

spark = SparkSession.builder.appName("events").getOrCreate()
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")


def write_partitions(df, batch_id):
    # dynamic overwrite makes the job idempotent
    df.write.mode("overwrite").partitionBy("day").parquet("/warehouse/events")


events = spark.readStream \
    .schema("event_id STRING, user STRING, at TIMESTAMP") \
    .json("/landing/events") \
    .withColumn("day", to_date(col("at")))

events.writeStream \
    .foreachBatch(write_partitions) \
    .option("checkpointLocation", "/warehouse/_checkpoints/events") \
    .start() \
    .awaitTermination()
