import logging

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, col, count, from_json, window
from pyspark.sql.streaming import StreamingQueryListener

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("traffic")


class Progress(StreamingQueryListener):
    def onQueryStarted(self, event):
        log.info("started %s (%s)", event.name, event.id)

    def onQueryProgress(self, event):
        log.info("batch %s: %s rows", event.progress.batchId, event.progress.numInputRows)

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        log.info("terminated %s", event.id)


def main():
    spark = SparkSession.builder.appName("traffic").getOrCreate()
    spark.streams.addListener(Progress())
    cars = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "traffic")
        .load()
        .select(from_json(col("value").cast("string"), "road STRING, speed DOUBLE, seen_at TIMESTAMP").alias("c"))
        .select("c.*")
    )
    speeds = (
        cars.withWatermark("seen_at", "2 hours")
        .groupBy(window("seen_at", "10 minutes", "5 minutes"), "road")
        .agg(count("*").alias("cars"), avg("speed").alias("speed"))
    )
    query = (
        speeds.select("window.start", "window.end", "road", "cars", "speed")
        .writeStream.queryName("traffic")
        .format("parquet")
        .outputMode("append")
        .option("path", "/lake/traffic")
        .option("checkpointLocation", "/lake/_checkpoints/traffic")
        .start()
    )
    log.info("%s is %s", query.name, query.status)
    query.awaitTermination()


if __name__ == "__main__":
    main()
