from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

spark = SparkSession.builder.appName("scd2").getOrCreate()
spark.sql("""
    CREATE TABLE IF NOT EXISTS dim_employee
    (emp_id INT, title STRING, valid_from DATE, valid_to DATE, is_current BOOLEAN) USING DELTA
""")


def scd2(batch_df, batch_id):
    dim = DeltaTable.forName(spark, "dim_employee")

    # close the open version of everybody who changed
    (dim.alias("d")
        .merge(batch_df.alias("c"), "d.emp_id = c.emp_id AND d.is_current = true")
        .whenMatchedUpdate(set={"is_current": "false", "valid_to": "c.changed_on"})
        .execute())

    # and add the new ones
    (batch_df
        .select("emp_id", "title", col("changed_on").alias("valid_from"))
        .withColumn("valid_to", lit(None).cast("date"))
        .withColumn("is_current", lit(True))
        .write.format("delta").mode("append").saveAsTable("dim_employee"))


changes = (spark.readStream
    .schema("emp_id INT, title STRING, changed_on DATE")
    .option("header", "true")
    .csv("/data/hr/changes"))

(changes.writeStream
    .foreachBatch(scd2)
    .option("checkpointLocation", "/data/_checkpoints/dim_employee")
    .start()
    .awaitTermination())
