import time

import pyspark.sql.functions as F
from pyspark.sql import SparkSession


def main():
    spark = SparkSession.builder.master("local[2]").appName("trending").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    tweets = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "tweets")
        .load()
        .selectExpr("CAST(value AS STRING) AS text")
    )
    tags = (
        tweets.select(F.explode(F.split(F.lower("text"), r"\s+")).alias("word"))
        .filter(F.col("word").startswith("#"))
        .groupBy("word").count()
        .orderBy(F.desc("count"), "word")
        .limit(10)
    )
    query = tags.writeStream.outputMode("complete").format("memory").queryName("trending").start()
    while query.isActive:
        time.sleep(10)
        spark.sql("SELECT * FROM trending").show()


if __name__ == "__main__":
    main()
