from pyspark.sql import SparkSession
from pyspark.sql.functions import sum as sum_

spark = SparkSession.builder.appName("sales").getOrCreate()

sales = spark.readStream.schema("region STRING, amount DOUBLE").option("sep", ";").csv("/landing/sales")
totals = sales.groupBy("region").agg(sum_("amount").alias("total"))

query = totals.writeStream \
    .outputMode("complete") \
    .format("parquet") \
    .option("path", "/lake/sales_totals") \
    .option("checkpointLocation", "/lake/_checkpoints/sales_totals") \
    .start()

query.awaitTermination()
