import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

parser = argparse.ArgumentParser(description="access logs to Elasticsearch")
parser.add_argument("--brokers", default="localhost:9092")
parser.add_argument("--topic", required=True)
parser.add_argument("--index", default="access-logs")
args = parser.parse_args()

spark = SparkSession.builder.appName("logs-to-es").getOrCreate()

lines = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", args.brokers)
    .option("subscribe", args.topic)
    .load()
    .selectExpr("CAST(value AS STRING) AS line")
)
logs = lines.select(
    F.get_json_object("line", "$.request_id").alias("request_id"),
    F.get_json_object("line", "$.path").alias("path"),
    F.get_json_object("line", "$.status").cast("int").alias("status"),
).where(F.col("request_id").isNotNull())


def index(df, batch_id):
    (
        df.write.format("org.elasticsearch.spark.sql")
        .option("es.nodes", "elasticsearch")
        .option("es.resource", args.index)
        .mode("append")
        .save()
    )


logs.writeStream.foreachBatch(index).option("checkpointLocation", f"/tmp/ckpt/{args.index}").start().awaitTermination()
