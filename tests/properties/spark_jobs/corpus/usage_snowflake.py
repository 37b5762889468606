import argparse
import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SNOWFLAKE = "net.snowflake.spark.snowflake"


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing", required=True, help="folder of JSON files")
    parser.add_argument("--table", default="USAGE")
    return parser.parse_args(argv)


def snowflake_options():
    return {
        "sfURL": os.environ["SNOWFLAKE_URL"],
        "sfUser": os.environ["SNOWFLAKE_USER"],
        "sfPassword": os.environ["SNOWFLAKE_PASSWORD"],
        "sfDatabase": "ANALYTICS",
        "sfSchema": "PUBLIC",
    }


def main():
    args = parse_args()
    options = snowflake_options()
    spark = SparkSession.builder.appName("usage").getOrCreate()

    def write(df: DataFrame, batch_id: int):
        print(f"batch {batch_id}: {df.count()} rows")
        df.write.format(SNOWFLAKE).options(**options).option("dbtable", args.table).mode("append").save()

    usage = (
        spark.readStream.schema("account STRING, meter STRING, units DECIMAL(18,4), day DATE")
        .option("maxFilesPerTrigger", 10)
        .json(args.landing)
        .withColumn("loaded_from", F.lit(args.landing))
    )
    query = (
        usage.writeStream.queryName("usage")
        .foreachBatch(write)
        .option("checkpointLocation", "/checkpoints/usage")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(query.lastProgress)
    spark.stop()


if __name__ == "__main__":
    main()
