import logging
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from payments_quarantine.schemas import PAYMENT
from payments_quarantine.settings import settings

log = logging.getLogger(__name__)


class Quarantine:
    def __init__(self, good_path, bad_path):
        self.good_path = good_path
        self.bad_path = bad_path

    def __call__(self, df, batch_id):
        df.cache()
        is_good = F.col("payment_id").isNotNull() & F.col("amount").isNotNull() & F.col("currency").isin(*settings.currencies)
        marked = df.withColumn("is_good", F.coalesce(is_good, F.lit(False)))
        marked.filter("is_good").drop("is_good").write.mode("append").parquet(self.good_path)
        marked.filter("NOT is_good").drop("is_good").write.mode("append").parquet(self.bad_path)
        log.info("batch %d: %d rows", batch_id, df.count())
        df.unpersist()


def main():
    spark = SparkSession.builder.appName("payments").getOrCreate()
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.brokers)
        .option("subscribe", settings.topic)
        .load()
    )
    payments = raw.select(F.from_json(F.col("value").cast("string"), PAYMENT).alias("p")).select("p.*")
    query = (
        payments.writeStream.foreachBatch(Quarantine(settings.good, settings.bad))
        .option("checkpointLocation", settings.checkpoint)
        .start()
    )
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
