from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import *

KEYSPACE = "iot"
TABLE = "readings"

spark = (SparkSession.builder
         .appName("sensors")
         .config("spark.cassandra.connection.host", "cassandra")
         .getOrCreate())

schema = StructType([
    StructField("sensor_id", StringType(), False),
    StructField("reading_time", TimestampType(), False),
    StructField("temperature", DoubleType(), True),
    StructField("humidity", DoubleType(), True),
])

readings = (spark.readStream
            .format("kafka")
            .option("kafka.bootstrap.servers", "kafka:9092")
            .option("subscribe", "sensors")
            .option("failOnDataLoss", "false")
            .load()
            .select(F.from_json(F.col("value").cast("string"), schema).alias("r"))
            .select("r.*")
            .where(F.col("temperature").between(-60, 120)))


def write_to_cassandra(df, epoch_id):
    (df.write
       .format("org.apache.spark.sql.cassandra")
       .mode("append")
       .options(table=TABLE, keyspace=KEYSPACE)
       .save())


(readings.writeStream
         .foreachBatch(write_to_cassandra)
         .option("checkpointLocation", "/checkpoints/sensors")
         .start()
         .awaitTermination())
