import json

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, lower

USER = json.dumps({
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "email", "type": ["null", "string"], "default": None},
    ],
})


def main():
    spark = SparkSession.builder.appName("users-avro").getOrCreate()
    users = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "users")
        .load()
        .select(from_avro("value", USER, {"mode": "PERMISSIVE"}).alias("u"))
        .select("u.name", "u.age", lower("u.email").alias("email"))
    )
    query = (
        users.where(col("age") >= 18)
        .writeStream.format("delta")
        .option("checkpointLocation", "/lake/_checkpoints/users")
        .start("/lake/users")
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
