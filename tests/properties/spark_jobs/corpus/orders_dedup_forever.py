from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import *

spark = SparkSession.builder.appName("dedup-orders").getOrCreate()

order_schema = StructType([
    StructField("order_id", LongType()),
    StructField("product", StringType()),
    StructField("quantity", IntegerType()),
])

orders = (spark.readStream
          .format("kafka")
          .option("kafka.bootstrap.servers", "kafka:9092")
          .option("subscribe", "orders")
          .load()
          .select(from_json(col("value").cast("string"), order_schema).alias("o"))
          .select("o.*")
          .dropDuplicates(["order_id"]))

(orders.writeStream
       .format("parquet")
       .option("path", "/data/orders")
       .option("checkpointLocation", "/data/checkpoints/orders")
       .start()
       .awaitTermination())
