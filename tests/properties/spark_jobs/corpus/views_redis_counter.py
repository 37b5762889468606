import redis
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, get_json_object

spark = SparkSession.builder.appName("page-views").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

views = spark.readStream \
    .format("kafka") \
    .option("kafka.bootstrap.servers", "localhost:9092") \
    .option("subscribe", "views") \
    .load() \
    .select(from_json(col("value").cast("string"), "page STRING, views INT").alias("v")) \
    .select("v.page", "v.views") \
    .filter("page is not null and views > 0")


def count_views(df, batch_id):
    r = redis.StrictRedis(host="localhost", port=6379, db=0)
    for row in df.collect():
        r.hincrby("page_views", row["page"], row["views"])


query = views.writeStream \
    .foreachBatch(count_views) \
    .option("checkpointLocation", "checkpoints/views") \
    .start()
query.awaitTermination()
