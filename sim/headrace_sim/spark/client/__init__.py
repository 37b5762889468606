"""What user code calls in place of Spark: it starts nothing."""

from headrace_sim.spark.versions import expect_client

expect_client()
