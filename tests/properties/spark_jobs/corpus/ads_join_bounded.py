from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.builder.appName("ads").getOrCreate()

impressions = (
    spark.readStream.schema("ad_id STRING, campaign STRING, shown_at TIMESTAMP")
    .parquet("/landing/impressions")
    .withWatermark("shown_at", "2 hours")
)
clicks = (
    spark.readStream.schema("click_ad_id STRING, clicked_at TIMESTAMP")
    .parquet("/landing/clicks")
    .withWatermark("clicked_at", "3 hours")
)

joined = impressions.join(
    clicks,
    expr("""
        click_ad_id = ad_id AND
        clicked_at >= shown_at AND
        clicked_at <= shown_at + interval 1 hour
    """),
)

(
    joined.writeStream.format("parquet")
    .option("path", "/lake/ad_clicks")
    .option("checkpointLocation", "/lake/_checkpoints/ad_clicks")
    .start()
    .awaitTermination()
)
