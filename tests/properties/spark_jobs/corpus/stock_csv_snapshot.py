import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.types import *

OUT = os.path.join("output", "stock_levels")

spark = SparkSession.builder.master("local[*]").appName("StockLevels").getOrCreate()

schema = StructType([
    StructField("sku", StringType()),
    StructField("warehouse", StringType()),
    StructField("quantity", IntegerType()),
])

stock = spark.readStream.schema(schema).option("header", True).csv("input/stock")


def save_to_csv(df, epoch_id):
    df.coalesce(1).write.mode("overwrite").option("header", True).csv(OUT)


stock.filter(col("quantity").isNotNull()) \
    .writeStream \
    .foreachBatch(save_to_csv) \
    .option("checkpointLocation", "checkpoint/stock") \
    .start() \
    .awaitTermination()
