from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.types import *

BOOTSTRAP_SERVERS = "broker:29092"
TOPIC = "rides_yellow"

RIDE_SCHEMA = StructType([
    StructField("vendor_id", IntegerType()),
    StructField("tpep_pickup_datetime", StringType()),
    StructField("tpep_dropoff_datetime", StringType()),
    StructField("passenger_count", IntegerType()),
    StructField("trip_distance", DoubleType()),
    StructField("payment_type", IntegerType()),
    StructField("total_amount", DoubleType()),
])


def read_from_kafka(spark):
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", BOOTSTRAP_SERVERS)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )


def parse(df):
    rides = df.select(from_json(col("value").cast("string"), RIDE_SCHEMA).alias("ride")).select("ride.*")
    return (
        rides.withColumn("pickup_at", to_timestamp("tpep_pickup_datetime", "yyyy-MM-dd HH:mm:ss"))
        .withColumn("dropoff_at", to_timestamp("tpep_dropoff_datetime", "yyyy-MM-dd HH:mm:ss"))
        .drop("tpep_pickup_datetime", "tpep_dropoff_datetime")
        .withColumn("paid_by", when(col("payment_type") == 1, "card").when(col("payment_type") == 2, "cash").otherwise("other"))
        .withColumn("pickup_date", to_date("pickup_at"))
        .filter((col("trip_distance") > 0) & col("pickup_at").isNotNull())
    )


if __name__ == "__main__":
    spark = SparkSession.builder.appName("rides").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    rides = parse(read_from_kafka(spark))
    rides.printSchema()
    query = (
        rides.writeStream.format("parquet")
        .partitionBy("pickup_date")
        .option("path", "s3a://lake/rides")
        .option("checkpointLocation", "s3a://lake/_checkpoints/rides")
        .trigger(processingTime="1 minute")
        .start()
    )
    query.awaitTermination()
