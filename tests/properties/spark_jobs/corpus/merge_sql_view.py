from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.appName("accounts")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)

spark.sql("CREATE TABLE IF NOT EXISTS accounts (id BIGINT, balance DECIMAL(12,2), changed BIGINT) USING delta")


def upsert(df, batch_id):
    df.createOrReplaceTempView("updates")
    df.sparkSession.sql("""
        MERGE INTO accounts AS t
        USING (
            SELECT id, balance, changed FROM (
                SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY changed DESC, balance DESC) AS n FROM updates
            ) WHERE n = 1
        ) AS s
        ON t.id = s.id
        WHEN MATCHED AND s.changed > t.changed THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """)


def main():
    updates = (
        spark.readStream.format("csv")
        .option("header", True)
        .schema("id BIGINT, balance DECIMAL(12,2), changed BIGINT")
        .load("data/accounts")
        .na.drop()
    )
    query = (
        updates.writeStream.foreachBatch(upsert)
        .outputMode("update")
        .option("checkpointLocation", "checkpoints/accounts")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
