import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

kafka_bootstrap = os.getenv("KAFKA_BOOTSTRAP", "kafka:9092")
pg_url = os.getenv("POSTGRES_URL", "jdbc:postgresql://postgres:5432/metrics")

spark = SparkSession.builder.appName("requests-per-minute").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "4")

schema = StructType([StructField("path", StringType()), StructField("time", StringType())])

requests = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka_bootstrap)
    .option("subscribe", "requests")
    .load()
    .select(F.from_json(F.col("value").cast("string"), schema).alias("r"))
    .select("r.path", F.to_timestamp("r.time", "yyyy-MM-dd'T'HH:mm:ss").alias("time"))
)

per_minute = (
    requests.withWatermark("time", "5 minutes")
    .groupBy(F.window("time", "1 minute"), "path")
    .count()
    .select(F.col("window.start").alias("minute"), "path", "count")
)


def write_to_postgres(df, batch_id):
    df.write.format("jdbc").options(url=pg_url, dbtable="requests_per_minute", user="metrics", password="metrics") \
        .mode("append").save()


(
    per_minute.writeStream.outputMode("update")
    .foreachBatch(write_to_postgres)
    .option("checkpointLocation", "/checkpoints/requests-per-minute")
    .start()
    .awaitTermination()
)
