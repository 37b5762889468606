from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, lower, trim

MONGO = "mongodb://mongo:27017"

spark = SparkSession.builder.appName("profiles").config("spark.mongodb.write.connection.uri", MONGO).getOrCreate()

profiles = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "kafka:9092")
    .option("subscribe", "profiles")
    .load()
    .select(from_json(col("value").cast("string"), "customer_id LONG, email STRING, country STRING").alias("p"))
    .select("p.customer_id", lower(trim("p.email")).alias("email"), "p.country")
    .where("customer_id IS NOT NULL")
)


def write_mongo(df, batch_id):
    df.write.format("mongodb").mode("append").option("database", "crm").option("collection", "profiles") \
        .option("idFieldList", "customer_id").option("operationType", "replace").save()


profiles.writeStream.foreachBatch(write_mongo).option("checkpointLocation", "/chk/profiles").start().awaitTermination()
