"""Millrace on Apache Spark: the host on PySpark's Structured Streaming. It comes with the extra, ``millrace[spark]``.

>>> from millrace.spark import session
>>> with session("local[2]") as spark:  # doctest: +SKIP
...     ...
"""

from importlib.util import find_spec

from millrace.spark._errors import (
    JavaNotFoundError,
    JobStoppedError,
    LogError,
    MissingPackageError,
    QueryFailedError,
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

# ruff: noqa: E402  once they can be imported
from millrace.spark._attach import Input, Outputs, attach
from millrace.spark._data_source import injected
from millrace.spark._deploy import Deployment, Layout, deploy
from millrace.spark._export import history_of
from millrace.spark._failures import error_of
from millrace.spark._file_sink import FileSink
from millrace.spark._io_errors import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    DiskFullError,
    DriverReplacedError,
    FencedWriterError,
    InputFileError,
    SinkBusyError,
    SinkError,
    SinkTableError,
    SourceChangedError,
    SourceMissingError,
    SourceUnreadableError,
    StorageError,
)
from millrace.spark._recorded import RecordedRun, run_recorded
from millrace.spark._sample import Sample
from millrace.spark._session import check_session, prepare_session, session
from millrace.spark._sinking import NoSinkWarning, TypedSink
from millrace.spark._sinks import DatabaseSink, committed_files
from millrace.spark._skipping import skip_record
from millrace.spark._source_files import Directory
from millrace.spark._source_rows import NewRecord
from millrace.spark._sources import Files, Generated, JsonLines, ParquetFiles
from millrace.spark._submit import spark_submit

__all__ = [
    "CheckpointDamagedError",
    "CheckpointMismatchError",
    "DatabaseSink",
    "Deployment",
    "Directory",
    "DiskFullError",
    "DriverReplacedError",
    "FencedWriterError",
    "FileSink",
    "Files",
    "Generated",
    "Input",
    "InputFileError",
    "JavaNotFoundError",
    "JobStoppedError",
    "JsonLines",
    "Layout",
    "LogError",
    "MissingPackageError",
    "NewRecord",
    "NoSinkWarning",
    "Outputs",
    "ParquetFiles",
    "QueryFailedError",
    "RecordedRun",
    "Sample",
    "SessionRunningError",
    "SessionSettingsError",
    "SinkBusyError",
    "SinkError",
    "SinkTableError",
    "SourceChangedError",
    "SourceMissingError",
    "SourceUnreadableError",
    "SparkHostError",
    "SparkVersionError",
    "StorageError",
    "TypedSink",
    "WrongSetting",
    "attach",
    "check_session",
    "committed_files",
    "deploy",
    "error_of",
    "history_of",
    "injected",
    "prepare_session",
    "run_recorded",
    "session",
    "skip_record",
    "spark_submit",
]
