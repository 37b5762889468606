from pyspark.sql import SparkSession
from pyspark.sql.functions import window

spark = SparkSession.builder.appName("clicks-per-page").getOrCreate()

clicks = spark.readStream.schema("page STRING, at TIMESTAMP").json("/landing/clicks")

per_page = clicks.groupBy(window(clicks.at, "10 minutes"), clicks.page).count()

query = (per_page.writeStream
    .outputMode("append")
    .format("parquet")
    .option("path", "/lake/clicks_per_page")
    .option("checkpointLocation", "/lake/_checkpoints/clicks_per_page")
    .start())
query.awaitTermination()
