from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, col, from_json, window
from pyspark.sql.types import FloatType, StringType, StructField, StructType, TimestampType

URL = "jdbc:mysql://mysql:3306/weather"
PROPS = {"user": "root", "password": "secret", "driver": "com.mysql.cj.jdbc.Driver"}


def save_batch(df, batch_id):
    df.write.jdbc(url=URL, table="temperatures", properties=PROPS)


if __name__ == "__main__":
    spark = SparkSession.builder.appName("weather").getOrCreate()
    schema = StructType([
        StructField("station", StringType()),
        StructField("temp", FloatType()),
        StructField("ts", TimestampType()),
    ])
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka:9092")
        .option("subscribe", "weather")
        .load()
    )
    data = stream.select(from_json(col("value").cast("string"), schema).alias("d")).select("d.*")
    query = (
        data.writeStream.foreachBatch(save_batch)
        .option("checkpointLocation", "/tmp/weather/checkpoint")
        .start()
    )
    query.awaitTermination()
