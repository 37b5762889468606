from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StringType, StructField, StructType

spark = SparkSession.builder.appName("heartbeats").getOrCreate()

TIMEOUT_MS = 5 * 60 * 1000


class Offline(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.last = handle.getValueState("last", "at LONG")

    def handleInputRows(self, key, rows, timerValues):
        latest = max(int(row.at.timestamp() * 1000) for row in rows)
        if self.last.exists():
            latest = max(latest, self.last.get()[0])
        self.last.update((latest,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(latest + TIMEOUT_MS)
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        # still offline: look again in five minutes
        self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + TIMEOUT_MS)
        yield Row(device=key[0], status="offline")

    def close(self):
        pass


heartbeats = (
    spark.readStream.schema("device STRING, at TIMESTAMP")
    .json("/landing/heartbeats")
    .where("device IS NOT NULL AND at IS NOT NULL")
    .withWatermark("at", "1 minute")
)
offline = heartbeats.groupBy("device").transformWithState(
    Offline(), StructType([StructField("device", StringType()), StructField("status", StringType())]), "Append", "EventTime"
)
offline.writeStream.format("console").option("checkpointLocation", "/checkpoints/heartbeats").start().awaitTermination()
