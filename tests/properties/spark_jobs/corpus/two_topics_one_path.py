from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

spark = SparkSession.builder.appName("archive").getOrCreate()

TARGET = "/archive/events"

queries = []
for topic in ["web", "mobile"]:
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", topic)
        .load()
        .select(col("value").cast("string").alias("event"), "timestamp", lit(topic).alias("channel"))
    )
    queries.append(
        stream.writeStream.format("json")
        .option("path", TARGET)
        .option("checkpointLocation", f"/archive/_checkpoints/{topic}")
        .start()
    )

for q in queries:
    q.awaitTermination()
