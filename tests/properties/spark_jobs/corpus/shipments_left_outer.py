from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("unshipped-orders").getOrCreate()
spark.sparkContext.setLogLevel("WARN")

orders = (
    spark.readStream.schema("order_id STRING, ordered_at TIMESTAMP").json("/landing/orders")
    .withWatermark("ordered_at", "1 day").alias("o")
)
shipments = (
    spark.readStream.schema("order_id STRING, shipped_at TIMESTAMP").json("/landing/shipments")
    .withWatermark("shipped_at", "1 day").alias("s")
)

with_shipment = orders.join(
    shipments,
    (F.col("o.order_id") == F.col("s.order_id"))
    & (F.col("s.shipped_at") >= F.col("o.ordered_at"))
    & (F.col("s.shipped_at") <= F.col("o.ordered_at") + F.expr("INTERVAL 2 DAYS")),
    "leftOuter",
).select("o.order_id", "o.ordered_at", "s.shipped_at", F.col("s.order_id").isNull().alias("unshipped"))

query = (
    with_shipment.writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", "/lake/_checkpoints/shipments")
    .toTable("shipments_by_order")
)
query.awaitTermination()
