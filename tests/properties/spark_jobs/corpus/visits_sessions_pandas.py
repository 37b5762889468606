import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

OUTPUT = "user STRING, clicks LONG, closed BOOLEAN"
STATE = "clicks LONG"
GAP_MS = 30 * 60 * 1000


def update_session(key, frames, state: GroupState):
    (user,) = key
    if state.hasTimedOut:
        (clicks,) = state.get
        state.remove()
        yield pd.DataFrame({"user": [user], "clicks": [clicks], "closed": [True]})
    else:
        clicks = 0
        latest = 0
        for frame in frames:
            clicks += len(frame)
            latest = max(latest, int(frame["at"].max().timestamp() * 1000))
        state.update((clicks,))
        state.setTimeoutTimestamp(max(latest, state.getCurrentWatermarkMs()) + GAP_MS)
        yield pd.DataFrame({"user": [user], "clicks": [clicks], "closed": [False]})


if __name__ == "__main__":
    spark = SparkSession.builder.appName("sessions").getOrCreate()
    visits = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "visits")
        .load()
        .select(from_json(col("value").cast("string"), "user STRING, at TIMESTAMP").alias("v"))
        .select("v.*")
        .where("user IS NOT NULL AND at IS NOT NULL")
        .withWatermark("at", "10 minutes")
    )
    sessions = visits.groupBy("user").applyInPandasWithState(
        update_session, OUTPUT, STATE, "append", GroupStateTimeout.EventTimeTimeout
    )
    query = (
        sessions.writeStream.format("console")
        .outputMode("append")
        .option("checkpointLocation", "/checkpoints/sessions")
        .start()
    )
    query.awaitTermination()
