from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

PATH = "/lake/gold/daily_totals"

spark = SparkSession.builder.appName("daily-totals").getOrCreate()

if not DeltaTable.isDeltaTable(spark, PATH):
    spark.createDataFrame([], "shop STRING, day DATE, total BIGINT").write.format("delta").save(PATH)


def add_totals(df, batch_id):
    sums = df.groupBy("shop", "day").agg(F.sum("amount").alias("total"))
    table = DeltaTable.forPath(df.sparkSession, PATH)
    (table.alias("t")
        .merge(sums.alias("s"), "t.shop = s.shop AND t.day = s.day")
        .whenMatchedUpdate(set={"total": F.expr("t.total + s.total")})
        .whenNotMatchedInsertAll()
        .execute())


sales = (spark.readStream
    .schema("shop STRING, day DATE, amount BIGINT")
    .parquet("/lake/bronze/sales")
    .where(F.col("amount") > 0))

q = (sales.writeStream
    .foreachBatch(add_totals)
    .option("checkpointLocation", "/lake/_checkpoints/daily_totals")
    .start())
q.awaitTermination()
