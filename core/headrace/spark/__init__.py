"""Headrace on Apache Spark: the host on PySpark's Structured Streaming. Install it with the extra ``headrace[spark]``.

>>> from headrace.spark import session
>>> with session("local[2]") as spark:  # doctest: +SKIP
...     ...
"""

from importlib.util import find_spec

from headrace.spark.host_errors import (
    JavaNotFoundError,
    JobStoppedError,
    LogError,
    MissingPackageError,
    PySparkVersionError,
    QueryFailedError,
    QueryStoppedError,
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

# ruff: noqa: E402  these imports need the packages checked above
import pyspark

from headrace.spark.runtime.spark_session import OLDEST_SPARK, is_new_enough

if is_new_enough(pyspark.__version__):
    from headrace.spark.hosting.history_export import history_of, user_key
    from headrace.spark.hosting.history_sample import Sample
    from headrace.spark.hosting.outputs import Outputs
    from headrace.spark.io_errors import (
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
    from headrace.spark.jobs.attach import Input, attach
    from headrace.spark.jobs.deploy import Deployment, deploy
    from headrace.spark.jobs.recorded_run import RecordedRun, run_recorded
    from headrace.spark.jobs.skipping import skip_record
    from headrace.spark.jobs.stored_state import (
        ComputationState,
        IntervalState,
        JobState,
        RowState,
        TimerState,
    )
    from headrace.spark.runtime.failures import error_of
    from headrace.spark.runtime.spark_session import check_session, prepare_session, session
    from headrace.spark.runtime.submit import spark_submit
    from headrace.spark.sinks.file_sink import FileSink, committed_files
    from headrace.spark.sinks.job_sinks import NoSinkWarning, TypedSink
    from headrace.spark.sinks.table_sink import TableSink
    from headrace.spark.sources.data_source import injected
    from headrace.spark.sources.directory import Directory
    from headrace.spark.sources.injected_rows import NewRecord
    from headrace.spark.sources.sources import Files, Generated, JsonLines, ParquetFiles
else:

    def __getattr__(name: str) -> object:
        """Raise an error that says what is needed. What finds Java and says what is wrong is for every PySpark.

        Raises:
            PySparkVersionError: the installed PySpark is too old for the host.
        """
        if name in __all__:
            raise PySparkVersionError(pyspark.__version__, ".".join(map(str, OLDEST_SPARK)))
        raise AttributeError(name)


__all__ = [
    "CheckpointDamagedError",
    "CheckpointMismatchError",
    "ComputationState",
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
    "IntervalState",
    "JavaNotFoundError",
    "JobState",
    "JobStoppedError",
    "JsonLines",
    "LogError",
    "MissingPackageError",
    "NewRecord",
    "NoSinkWarning",
    "Outputs",
    "ParquetFiles",
    "PySparkVersionError",
    "QueryFailedError",
    "QueryStoppedError",
    "RecordedRun",
    "RowState",
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
    "TableSink",
    "TimerState",
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
    "user_key",
]
