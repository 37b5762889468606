from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("tickets").getOrCreate()
spark.sql("CREATE TABLE IF NOT EXISTS tickets (id STRING, subject STRING, loaded_at TIMESTAMP) USING DELTA")


def upsert(df, batch_id):
    with_id = df.withColumn("id", F.expr("uuid()")).withColumn("loaded_at", F.current_timestamp())
    (DeltaTable.forName(df.sparkSession, "tickets").alias("t")
        .merge(with_id.alias("s"), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute())


(spark.readStream.schema("subject STRING")
    .option("multiLine", True)
    .json("/landing/tickets")
    .writeStream
    .foreachBatch(upsert)
    .option("checkpointLocation", "/checkpoints/tickets")
    .start()
    .awaitTermination())
