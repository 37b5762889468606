from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

spark = SparkSession.builder.appName("events-by-batch").getOrCreate()
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")


def write_partition(df, batch_id):
    df.withColumn("batch_id", lit(batch_id)).write.mode("overwrite").partitionBy("batch_id").parquet("/warehouse/events_by_batch")


events = spark.readStream \
    .schema("event_id STRING, user STRING, at TIMESTAMP") \
    .json("/landing/events")

events.writeStream \
    .foreachBatch(write_partition) \
    .option("checkpointLocation", "/warehouse/_checkpoints/events_by_batch") \
    .start() \
    .awaitTermination()
