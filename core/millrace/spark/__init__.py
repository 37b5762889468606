"""The host on Apache Spark: the pipeline that was verified in the simulated cluster, run on PySpark."""
