import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

APP_ID = "bookings-v2"
LAKE = os.environ.get("LAKE", "/lake")


class BookingLoader:
    def __init__(self, spark):
        self.spark = spark

    def source(self) -> DataFrame:
        return (
            self.spark.readStream.schema("booking_id STRING, guest STRING, nights INT, price DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .json(f"{LAKE}/landing/bookings")
        )

    def _write(self, df, batch_id, table):
        (
            df.write.format("delta")
            .mode("append")
            .option("txnAppId", f"{APP_ID}-{table}")
            .option("txnVersion", batch_id)
            .save(f"{LAKE}/silver/{table}")
        )

    def process(self, batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        self._write(batch.filter(F.col("nights") > 0), batch_id, "bookings")
        self._write(batch.filter(~(F.col("nights") > 0) | F.col("nights").isNull()), batch_id, "rejected")
        batch.unpersist()

    def run(self):
        return (
            self.source()
            .writeStream.foreachBatch(self.process)
            .option("checkpointLocation", f"{LAKE}/_checkpoints/bookings")
            .trigger(availableNow=True)
            .start()
        )


if __name__ == "__main__":
    session = SparkSession.builder.appName(APP_ID).getOrCreate()
    BookingLoader(session).run().awaitTermination()
