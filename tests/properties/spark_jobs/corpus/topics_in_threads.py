import json
import os
import threading

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "reference", "topics.json")) as f:
    TOPICS = json.load(f)

spark = SparkSession.builder.appName("topics").getOrCreate()


def copy(name, schema):
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", name)
        .load()
        .select(from_json(col("value").cast("string"), schema).alias("v"))
        .select("v.*")
        .writeStream.queryName(name)
        .format("parquet")
        .option("path", f"/lake/{name}")
        .option("checkpointLocation", f"/lake/_checkpoints/{name}")
        .start()
    )
    query.awaitTermination()


threads = [threading.Thread(target=copy, args=(name, schema)) for name, schema in TOPICS.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
