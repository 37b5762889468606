"""What user code calls in place of Spark: it starts nothing."""
