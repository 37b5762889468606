"""A pipeline on Spark while its processes are killed and stopped."""
