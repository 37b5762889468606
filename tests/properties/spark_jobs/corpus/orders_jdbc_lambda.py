from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructType

spark = SparkSession.builder \
    .appName("OrdersToPostgres") \
    .config("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,org.postgresql:postgresql:42.7.3") \
    .getOrCreate()
spark.sparkContext.setLogLevel("WARN")

schema = StructType() \
    .add("order_id", IntegerType()) \
    .add("customer", StringType()) \
    .add("amount", DoubleType())

raw = spark.readStream.format("kafka") \
    .option("kafka.bootstrap.servers", "localhost:9092") \
    .option("subscribe", "orders") \
    .option("startingOffsets", "earliest") \
    .load()

orders = raw.selectExpr("CAST(value AS STRING)") \
    .select(from_json(col("value"), schema).alias("data")) \
    .select("data.*")

query = orders.writeStream \
    .foreachBatch(lambda df, _: df.write
        .format("jdbc")
        .option("url", "jdbc:postgresql://localhost:5432/shop")
        .option("dbtable", "orders")
        .option("user", "postgres")
        .option("password", "postgres")
        .option("driver", "org.postgresql.Driver")
        .mode("append")
        .save()) \
    .option("checkpointLocation", "/tmp/checkpoints/orders") \
    .start()

query.awaitTermination()
