"""PySpark's daemon, which forks Python workers, with imports done: each worker would do them again, for a second.

`conf/spark-defaults.conf` names it.
"""

import pandas as pd
import pyarrow as pa
from pyspark.daemon import manager

import headrace.spark

__all__ = ["headrace", "pa", "pd"]

if __name__ == "__main__":
    manager()
