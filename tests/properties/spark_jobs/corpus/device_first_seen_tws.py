from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming import StatefulProcessor


class FirstSeen(StatefulProcessor):
    """Lets the first event of a device pass."""

    def init(self, handle):
        self.seen = handle.getValueState("seen", "known BOOLEAN")

    def handleInputRows(self, key, rows, timerValues):
        if not self.seen.exists():
            self.seen.update((True,))
            yield Row(device=key[0])

    def close(self):
        pass


if __name__ == "__main__":
    spark = SparkSession.builder.appName("first-seen").getOrCreate()
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "device-events")
        .load()
        .select(from_json(col("value").cast("string"), "device STRING, reading DOUBLE").alias("e"))
        .select("e.device")
        .where("device IS NOT NULL")
    )
    query = (
        events.groupBy("device")
        .transformWithState(FirstSeen(), "device STRING", "Append", "None")
        .writeStream.format("parquet")
        .option("path", "/lake/devices")
        .option("checkpointLocation", "/lake/_checkpoints/devices")
        .start()
    )
    query.awaitTermination()
