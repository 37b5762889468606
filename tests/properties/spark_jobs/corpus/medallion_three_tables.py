import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def bronze(spark, args):
    raw = spark.readStream.schema("sensor STRING, value DOUBLE, at TIMESTAMP").json(args.landing)
    return (
        raw.withColumn("source", F.lit(args.landing))
        .writeStream.queryName("bronze")
        .option("checkpointLocation", f"{args.checkpoints}/bronze")
        .toTable("bronze")
    )


def silver(spark, args):
    return (
        spark.readStream.table("bronze")
        .where("sensor IS NOT NULL AND value IS NOT NULL")
        .drop("source")
        .writeStream.queryName("silver")
        .option("checkpointLocation", f"{args.checkpoints}/silver")
        .toTable("silver")
    )


def gold(spark, args):
    return (
        spark.readStream.table("silver")
        .withWatermark("at", "1 day")
        .groupBy(F.window("at", "1 hour"), "sensor")
        .agg(F.avg("value").alias("mean"), F.max("value").alias("peak"))
        .selectExpr("window.start AS hour", "sensor", "mean", "peak")
        .writeStream.queryName("gold")
        .outputMode("append")
        .option("checkpointLocation", f"{args.checkpoints}/gold")
        .toTable("gold")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing", default="/landing/sensors")
    parser.add_argument("--checkpoints", default="/lake/_checkpoints")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("medallion").config("spark.sql.sources.default", "delta").getOrCreate()
    queries = [step(spark, args) for step in (bronze, silver, gold)]
    for query in queries:
        print(query.name, query.id, query.runId)
    spark.streams.awaitAnyTermination()
