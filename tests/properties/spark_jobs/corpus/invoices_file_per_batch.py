from pathlib import Path

from pyspark.sql import SparkSession

OUTBOX = Path("outbox")


def export(df, batch_id):
    """Hand each batch to accounting as one CSV file."""
    OUTBOX.mkdir(exist_ok=True)
    frame = df.toPandas()
    partial = OUTBOX / f"invoices-{batch_id:08d}.csv.part"
    frame.to_csv(partial, index=False)
    partial.replace(OUTBOX / f"invoices-{batch_id:08d}.csv")


def build(spark):
    return (
        spark.readStream.schema("invoice STRING, customer STRING, amount DOUBLE")
        .json("inbox")
        .where("amount IS NOT NULL")
    )


if __name__ == "__main__":
    spark = SparkSession.builder.appName("invoices").getOrCreate()
    query = (
        build(spark).writeStream.foreachBatch(export).option("checkpointLocation", "checkpoints/invoices").start()
    )
    while query.isActive:
        query.awaitTermination(30)
