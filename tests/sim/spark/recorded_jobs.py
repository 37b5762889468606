"""Functions that build queries, as people write them."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.stateful import StatefulProcessor, StatefulProcessorHandle

WORDS = "word STRING, at TIMESTAMP"


class Count(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n INT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count = (self._count.get()[0] if self._count.exists() else 0) + len(list(rows))
        self._count.update((count,))
        yield Row(word=key[0], n=count)

    def close(self) -> None: ...


def write(df: DataFrame, batch_id: int) -> None:
    df.write.mode("append").saveAsTable("counts")


def words(events: DataFrame) -> Any:
    counted = (
        events.withWatermark("at", "1 minute 30 seconds")
        .filter(F.col("word").isNotNull())
        .withColumn("word", F.lower("word"))
        .groupBy("word")
        .transformWithState(Count(), "word STRING, n INT", "Update", "None")
    )
    return (
        counted.writeStream.foreachBatch(write)
        .outputMode("update")
        .trigger(processingTime="10 seconds")
        .start()
    )


def from_kafka(spark: SparkSession) -> None:
    spark.sparkContext.setLogLevel("WARN")
    raw = spark.readStream.format("kafka").option("subscribe", "words").load()
    parsed = raw.select(
        F.from_json(F.col("value").cast("string"), "word STRING, n INT").alias("data")
    ).select("data.*")
    initial = spark.createDataFrame([("a", 1)], "word STRING, n INT").groupBy("word")
    counted = parsed.groupBy(parsed.word).transformWithStateInPandas(
        statefulProcessor=Count(), outputStructType="word STRING, n INT", outputMode="Append", timeMode="ProcessingTime",
        initialState=initial,
    )  # fmt: skip
    query = counted.writeStream.format("delta").option("checkpointLocation", "/x").start("/lake/words")
    query.awaitTermination()


def sessions(df: DataFrame) -> DataFrame:
    def update(key: Any, frames: Any, state: Any) -> Any: ...
    def clean(frames: Any) -> Any: ...

    kept = df.mapInPandas(clean, "word STRING, at TIMESTAMP")
    return kept.groupBy("word").applyInPandasWithState(update, "word STRING", "n INT", "append", "NoTimeout")
