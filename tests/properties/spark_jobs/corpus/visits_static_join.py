from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast, coalesce, lit

spark = SparkSession.builder.appName("visits").getOrCreate()

countries = spark.read.csv("reference/countries.csv", header=True, schema="code STRING, country STRING, region STRING")
visits = spark.readStream.schema("visit_id STRING, code STRING, seconds INT").json("/landing/visits")

enriched = (
    visits.join(broadcast(countries), "code", "left")
    .withColumn("region", coalesce("region", lit("unknown")))
    .drop("code")
)

query = (
    enriched.writeStream.format("parquet")
    .option("path", "/lake/visits")
    .option("checkpointLocation", "/lake/_checkpoints/visits")
    .start()
)
query.awaitTermination()
