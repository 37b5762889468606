import redis
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import DoubleType, StringType, StructType


class BotWriter:
    """Adds users that look like bots to a set."""

    def __init__(self, host, port=6379):
        self.host = host
        self.port = port
        self.client = None

    def open(self, partition_id, epoch_id):
        self.client = redis.Redis(host=self.host, port=self.port, decode_responses=True)
        return True

    def process(self, row):
        self.client.sadd("bots", row["user_id"])

    def close(self, error):
        if self.client:
            self.client.close()


def run():
    spark = SparkSession.builder.appName("bots").getOrCreate()
    schema = StructType().add("user_id", StringType()).add("score", DoubleType())
    scores = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("subscribe", "bot-scores")
        .load()
        .select(from_json(col("value").cast("string"), schema).alias("s"))
        .select("s.*")
        .dropna()
    )
    query = (
        scores.where("score > 0.9").select("user_id")
        .writeStream.foreach(BotWriter("redis"))
        .option("checkpointLocation", "/checkpoints/bots")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run()
