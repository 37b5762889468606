import json
import logging
import urllib.request

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

logger = logging.getLogger("alerts")
HOOK = "http://alerts.internal/api/alerts"

spark = SparkSession.builder.appName("alerts").getOrCreate()

schema = "device STRING, level INT, message STRING"
alerts = (spark.readStream.format("kafka")
          .option("kafka.bootstrap.servers", "kafka:9092")
          .option("subscribe", "device-events")
          .load()
          .select(from_json(col("value").cast("string"), schema).alias("e")).select("e.*")
          .where(col("level") >= 3))


def send(df, batch_id):
    for row in df.toLocalIterator():
        body = json.dumps(row.asDict()).encode()
        request = urllib.request.Request(HOOK, data=body, headers={"Content-Type": "application/json"}, method="POST")
        try:
            urllib.request.urlopen(request, timeout=5)
        except Exception:
            logger.exception("alert was not sent: %s", row)


alerts.writeStream.foreachBatch(send).option("checkpointLocation", "/checkpoints/alerts").start().awaitTermination()
