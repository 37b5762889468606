import logging

import mysql.connector
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, to_timestamp
from pyspark.sql.types import StringType, StructField, StructType

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("clicks")


class ClickPipeline:
    schema = StructType([
        StructField("click_id", StringType(), True),
        StructField("user_id", StringType(), True),
        StructField("url", StringType(), True),
        StructField("ts", StringType(), True),
    ])

    def __init__(self, broker, topic):
        self.broker = broker
        self.topic = topic
        self.spark = SparkSession.builder.appName("ClickPipeline").getOrCreate()
        self.db = {"host": "mysql", "user": "app", "password": "app", "database": "web"}

    def create_table(self):
        conn = mysql.connector.connect(**self.db)
        cursor = conn.cursor()
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS clicks (click_id VARCHAR(64), user_id VARCHAR(64), url VARCHAR(255), ts VARCHAR(32))"
        )
        conn.commit()
        conn.close()

    def read(self):
        return (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.broker)
            .option("subscribe", self.topic)
            .option("startingOffsets", "latest")
            .load()
        )

    def parse(self, df):
        parsed = df.select(from_json(col("value").cast("string"), self.schema).alias("c")).select("c.*")
        return parsed.withColumn("ts", to_timestamp("ts", "yyyy-MM-dd HH:mm:ss")).filter(col("click_id").isNotNull())

    def save(self, batch_df, batch_id):
        try:
            conn = mysql.connector.connect(**self.db)
            cursor = conn.cursor()
            for row in batch_df.collect():
                cursor.execute(
                    "INSERT INTO clicks (click_id, user_id, url, ts) VALUES (%s, %s, %s, %s)",
                    (row["click_id"], row["user_id"], row["url"], str(row["ts"])),
                )
                conn.commit()
            logger.info("batch %s written", batch_id)
            cursor.close()
            conn.close()
        except Exception as e:
            logger.error(f"could not write batch {batch_id}: {e}")

    def run(self):
        self.create_table()
        query = (
            self.parse(self.read())
            .writeStream.foreachBatch(self.save)
            .outputMode("append")
            .option("checkpointLocation", "/tmp/clicks-checkpoint")
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    ClickPipeline("kafka:29092", "clicks").run()
