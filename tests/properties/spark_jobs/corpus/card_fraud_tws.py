from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

OUTPUT = StructType([
    StructField("card", StringType()),
    StructField("payments", LongType()),
    StructField("suspicious", BooleanType()),
])


class FraudDetector(StatefulProcessor):
    """Flags a card once it was used more than three times."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.payments = handle.getValueState("payments", "n LONG", ttlDurationMs=86_400_000)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        seen = self.payments.get()[0] if self.payments.exists() else 0
        seen += sum(len(frame) for frame in rows)
        self.payments.update((seen,))
        yield pd.DataFrame({"card": [key[0]], "payments": [seen], "suspicious": [seen > 3]})

    def close(self) -> None:
        pass


def main():
    spark = (
        SparkSession.builder.appName("fraud")
        .config("spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        .getOrCreate()
    )
    payments = spark.readStream.schema("card STRING, amount DOUBLE").json("/landing/payments").where("card IS NOT NULL")
    flagged = payments.groupBy("card").transformWithStateInPandas(
        statefulProcessor=FraudDetector(), outputStructType=OUTPUT, outputMode="Update", timeMode="ProcessingTime"
    )
    query = (
        flagged.writeStream.format("console").outputMode("update").option("checkpointLocation", "/checkpoints/fraud").start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
