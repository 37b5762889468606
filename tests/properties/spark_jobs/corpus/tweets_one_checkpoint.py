from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, length

CHECKPOINT = "/tmp/checkpoints/tweets"

spark = SparkSession.builder.appName("tweets").getOrCreate()

tweets = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("subscribe", "tweets")
    .load()
    .select(from_json(col("value").cast("string"), "id LONG, user STRING, text STRING, lang STRING").alias("t"))
    .select("t.*")
)

all_tweets = (
    tweets.writeStream.format("parquet").option("path", "/data/tweets").option("checkpointLocation", CHECKPOINT).start()
)
english = (
    tweets.filter(col("lang") == "en")
    .withColumn("chars", length("text"))
    .writeStream.format("parquet")
    .option("path", "/data/tweets_en")
    .option("checkpointLocation", CHECKPOINT)
    .start()
)

spark.streams.awaitAnyTermination()
