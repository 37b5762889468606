from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("meters").getOrCreate()

readings = (
    spark.readStream.schema("meter STRING, kwh DOUBLE, measured_at TIMESTAMP, received_at TIMESTAMP")
    .option("maxFilesPerTrigger", 5)
    .json("/landing/meters")
)

hourly = (
    readings.withWatermark("received_at", "1 hour")
    .groupBy(F.window("measured_at", "1 hour").alias("hour"), "meter")
    .agg(F.sum("kwh").alias("kwh"))
)

query = (
    hourly.writeStream.outputMode("update")
    .format("console")
    .option("truncate", False)
    .option("checkpointLocation", "/checkpoints/meters")
    .start()
)
query.awaitTermination()
