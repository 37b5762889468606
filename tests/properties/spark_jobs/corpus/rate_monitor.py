import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, when

spark = SparkSession.builder.appName("rate-monitor").getOrCreate()

rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
levels = rate.withColumn("level", when(col("value") % 10 == 0, "high").when(col("value") % 2 == 0, "even").otherwise("odd"))

query = levels.writeStream.format("memory").queryName("levels").start()

rounds = 0
while query.isActive and rounds < 5:
    time.sleep(5)
    rounds += 1
    print(query.status, query.lastProgress)
    spark.table("levels").orderBy(col("timestamp").desc()).show(5)

query.stop()
spark.stop()
