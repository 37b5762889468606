"""What Headrace does not compute itself, asked of the real Spark: a server on this machine, started when it is first needed."""
