from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

KAFKA = {"kafka.bootstrap.servers": "kafka:9092", "startingOffsets": "earliest"}


def topic(spark, name, schema):
    return (
        spark.readStream.format("kafka").options(**KAFKA).option("subscribe", name).load()
        .select(from_json(col("value").cast("string"), schema).alias("v")).select("v.*")
    )


def main():
    spark = SparkSession.builder.appName("rides-and-fares").getOrCreate()
    rides = topic(spark, "rides", "ride_id STRING, driver STRING")
    fares = topic(spark, "fares", "ride_id STRING, fare DOUBLE, tip DOUBLE")
    joined = rides.join(fares, on="ride_id", how="inner").withColumn("total", col("fare") + col("tip"))
    query = (
        joined.writeStream.format("csv")
        .option("path", "out/rides")
        .option("checkpointLocation", "out/_checkpoint")
        .outputMode("append")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
