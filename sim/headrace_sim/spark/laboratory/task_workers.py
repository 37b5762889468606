"""The process of which Spark's Python workers are forks: it runs in place of PySpark's own, and has imported what they need."""

import sys
from contextlib import suppress
from importlib import import_module

import pyspark.worker  # noqa: F401  so that no fork does
from pyspark.daemon import manager

import headrace_sim.spark.laboratory.workers  # noqa: F401  so that no fork does

with suppress(ImportError):  # not every PySpark hosts pipelines
    import_module("headrace.spark.hosting.processor")

if __name__ == "__main__":
    for module in sys.argv[1:]:  # Spark 3.5 names none
        import_module(module)
    manager()
