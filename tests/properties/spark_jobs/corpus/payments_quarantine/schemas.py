from pyspark.sql.types import DecimalType, StringType, StructField, StructType

PAYMENT = StructType([
    StructField("payment_id", StringType(), nullable=False),
    StructField("currency", StringType()),
    StructField("amount", DecimalType(12, 2)),
])
