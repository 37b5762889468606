"""Millrace on Apache Spark: the host on PySpark's Structured Streaming. It comes with the extra, ``millrace[spark]``.

>>> from millrace.spark import session
>>> with session("local[2]") as spark:  # doctest: +SKIP
...     ...
"""

from importlib.util import find_spec

from millrace.spark._errors import (
    JavaNotFoundError,
    MissingPackageError,
    SessionRunningError,
    SessionSettingsError,
    SparkHostError,
    SparkVersionError,
    WrongSetting,
)

_NEEDED = {"pyspark": "pyspark", "pandas": "pandas", "pyarrow": "pyarrow", "google.protobuf": "protobuf"}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


_missing = tuple(package for module, package in _NEEDED.items() if not _is_there(module))
if _missing:
    raise MissingPackageError(_missing)

from millrace.spark._session import check_session, prepare_session, session  # noqa: E402  once it can be imported

__all__ = [
    "JavaNotFoundError",
    "MissingPackageError",
    "SessionRunningError",
    "SessionSettingsError",
    "SparkHostError",
    "SparkVersionError",
    "WrongSetting",
    "check_session",
    "prepare_session",
    "session",
]
