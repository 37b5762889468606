from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf
from pyspark.sql.types import BooleanType, StringType

spark = SparkSession.builder.appName("offers").getOrCreate()


@udf(returnType=BooleanType())
def is_open(valid_until):
    return valid_until is not None and valid_until > datetime.now()


def shorten(text):
    return text[:80] if text else None


spark.udf.register("shorten", shorten, StringType())

offers = spark.readStream.schema("offer_id STRING, title STRING, valid_until TIMESTAMP").json("/landing/offers")

(offers.filter(is_open(col("valid_until")))
    .selectExpr("offer_id", "shorten(title) AS title", "valid_until")
    .writeStream
    .format("parquet")
    .option("path", "/lake/open_offers")
    .option("checkpointLocation", "/lake/_checkpoints/open_offers")
    .start()
    .awaitTermination())
