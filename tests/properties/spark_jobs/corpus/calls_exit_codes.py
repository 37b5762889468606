import logging
import os
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, regexp_replace, to_timestamp

logging.basicConfig(level=os.getenv("LOG_LEVEL", "INFO"))
logger = logging.getLogger(__name__)


def create_spark():
    return (
        SparkSession.builder.appName("calls")
        .config("spark.streaming.stopGracefullyOnShutdown", True)
        .config("spark.sql.streaming.checkpointLocation", os.environ["CHECKPOINT_DIR"])
        .getOrCreate()
    )


def main():
    spark = create_spark()
    logger.info("Spark %s, app %s", spark.version, spark.sparkContext.appName)
    try:
        calls = (
            spark.readStream.option("header", True)
            .schema("caller STRING, callee STRING, started STRING, seconds INT")
            .csv("/landing/calls")
        )
        clean = (
            calls.withColumn("caller", regexp_replace("caller", "[^0-9+]", ""))
            .withColumn("started", to_timestamp("started", "dd.MM.yyyy HH:mm"))
            .filter(col("seconds") > 0)
        )
        query = clean.writeStream.queryName("calls").format("orc").option("path", "/lake/calls").start()
        query.awaitTermination()
    except StreamingQueryException as e:
        logger.error("query failed: %s", e)
        sys.exit(1)
    finally:
        spark.stop()
    sys.exit(0)


if __name__ == "__main__":
    main()
