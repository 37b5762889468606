from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("payments-sql").getOrCreate()

(
    spark.readStream.schema("merchant STRING, amount DECIMAL(10,2), paid_at TIMESTAMP")
    .json("/landing/payments")
    .withWatermark("paid_at", "1 day")
    .createOrReplaceTempView("payments")
)

per_hour = spark.sql("""
    SELECT window.start AS hour, merchant, SUM(amount) AS amount, COUNT(*) AS payments
    FROM (SELECT window(paid_at, '1 hour') AS window, merchant, amount FROM payments WHERE amount > 0)
    GROUP BY window, merchant
""")

query = (
    per_hour.writeStream.outputMode("append")
    .format("parquet")
    .option("path", "/lake/payments_per_hour")
    .option("checkpointLocation", "/lake/_checkpoints/payments_per_hour")
    .start()
)
query.awaitTermination()
