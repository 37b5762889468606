import json
import urllib.request

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat_ws, from_json

HOOK = "http://alerts.internal/api/alerts"


def send(df, batch_id):
    for row in df.collect():
        body = json.dumps({"device": row.device, "level": row.level, "message": row.message}).encode()
        request = urllib.request.Request(f"{HOOK}/{row.event_id}", data=body, method="PUT")
        with urllib.request.urlopen(request, timeout=5) as response:
            response.read()


def main():
    spark = SparkSession.builder.appName("alerts").getOrCreate()
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "device-events")
        .load()
        .select(
            concat_ws("-", "topic", "partition", "offset").alias("event_id"),
            from_json(col("value").cast("string"), "device STRING, level INT, message STRING").alias("e"),
        )
        .select("event_id", "e.*")
    )
    alerts = events.where(col("level") >= 3)
    query = alerts.writeStream.foreachBatch(send).option("checkpointLocation", "/checkpoints/alerts").start()
    query.awaitTermination()


main()
