import json

from kafka import KafkaProducer
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("scores").getOrCreate()


def send_partition(rows):
    producer = KafkaProducer(bootstrap_servers="kafka:9092", value_serializer=lambda v: json.dumps(v).encode("utf-8"))
    for row in rows:
        producer.send("scores", {"player": row.player, "score": row.score})


def process(df, batch_id):
    df.foreachPartition(send_partition)


scores = spark.readStream.schema("player STRING, score INT").json("scores_in")
query = scores.writeStream.foreachBatch(process).option("checkpointLocation", "ckpt/scores").start()
query.awaitTermination()
