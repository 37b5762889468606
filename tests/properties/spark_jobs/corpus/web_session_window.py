from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def sessions(events):
    return (
        events.withWatermark("event_time", "1 hour")
        .groupBy(F.session_window("event_time", "20 minutes"), "visitor_id")
        .agg(F.count("*").alias("events"), F.min("event_time").alias("first_event"), F.max("event_time").alias("last_event"))
        .select("visitor_id", F.col("session_window.start").alias("started"), "events", "first_event", "last_event")
    )


def main():
    spark = SparkSession.builder.appName("web-sessions").getOrCreate()
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribePattern", "web-.*")
        .load()
        .select(F.from_json(F.col("value").cast("string"), "visitor_id STRING, event_time TIMESTAMP, kind STRING").alias("e"))
        .select("e.*")
        .where("visitor_id IS NOT NULL")
    )
    (
        sessions(events)
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", "/lake/_checkpoints/sessions")
        .start("/lake/sessions")
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
