"""What user code calls in place of Spark: it starts nothing."""

from importlib.util import find_spec

_NEEDED = {"grpc": "grpcio", "grpc_status": "grpcio-status", "sqlglot": "sqlglot"}
"""What PySpark's client and the parser of SQL need, and `pip install pyspark` does not bring: package by module."""

_missing = tuple(package for module, package in _NEEDED.items() if find_spec(module) is None)
if _missing:
    from headrace.spark.host_errors import MissingPackageError  # slow

    raise MissingPackageError(_missing)
