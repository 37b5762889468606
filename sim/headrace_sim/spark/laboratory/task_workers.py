"""The process of which Spark's Python workers are forks: Spark starts it by name, and it has imported what they need."""

import pyspark.worker  # noqa: F401  so that no fork does
from pyspark.daemon import manager

import headrace_sim.spark.laboratory.workers  # noqa: F401  so that no fork does

if __name__ == "__main__":
    manager()
