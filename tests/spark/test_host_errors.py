"""What can keep a pipeline from starting on Spark: one clear error each, as all of Headrace's."""

import copy
import pickle

import pytest

import headrace.spark
from headrace import HeadraceError, UserCodeError
from headrace.spark import (
    CheckpointDamagedError,
    CheckpointMismatchError,
    DiskFullError,
    DriverReplacedError,
    FencedWriterError,
    InputFileError,
    JavaNotFoundError,
    JobStoppedError,
    LogError,
    MissingPackageError,
    PySparkVersionError,
    QueryFailedError,
    QueryStoppedError,
    SessionRunningError,
    SessionSettingsError,
    SinkBusyError,
    SinkError,
    SinkTableError,
    SourceChangedError,
    SourceMissingError,
    SourceUnreadableError,
    SparkHostError,
    SparkVersionError,
    StorageError,
    WrongSetting,
)

EVERY_ERROR: list[HeadraceError] = [
    MissingPackageError(("pyspark", "pandas")),
    PySparkVersionError("4.0.1", "4.3"),
    JavaNotFoundError(17, ("JAVA_HOME: not set", "PATH: no java on it")),
    SessionRunningError("local[2]", "another"),
    SparkVersionError("3.5.8", "4.3"),
    SparkHostError("what", "Remedy"),
    LogError("stage", "problem", "Remedy"),
    QueryFailedError("query", "reason"),
    JobStoppedError("count", "anna", "mail:1", 3, "Traceback", "1", "/jobs/one of them"),
    QueryStoppedError("query"),
    SourceMissingError("mail", "directory", "Remedy"),
    SourceChangedError("mail", "file", "problem", "Remedy"),
    SourceUnreadableError("mail", "place", "reason", "Remedy"),
    CheckpointMismatchError("mail", "problem", "Remedy"),
    SinkError("sink", "problem", "Remedy"),
    SinkTableError("sink", "problem", "Remedy"),
    SinkBusyError("sink", "problem", "Remedy"),
    FencedWriterError("sink", 1, 2),
    StorageError("place", "problem", "Remedy"),
    CheckpointDamagedError("place", "problem", "Remedy"),
    DiskFullError("place", "problem", "Remedy"),
    DriverReplacedError("place", "problem", "Remedy"),
    InputFileError("place", "problem", "Remedy"),
    SessionSettingsError((WrongSetting("spark.name", "is", "must be", "it matters"),)),
]


def test_the_list_of_errors_is_complete_and_all_can_be_imported() -> None:
    every = [
        *HeadraceError.__subclasses__(),
        *UserCodeError.__subclasses__(),
        *SinkError.__subclasses__(),
        *StorageError.__subclasses__(),
    ]
    there = {error for error in every if error.__module__.startswith("headrace.spark.")}
    assert {type(error) for error in EVERY_ERROR} == there
    assert all(getattr(headrace.spark, error.__name__) is error for error in there)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_an_error_survives_being_rebuilt_pickled_and_copied(error: HeadraceError) -> None:
    rebuilt = type(error)(*error.args)
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    for again in (rebuilt, pickled, copy.deepcopy(error)):
        assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))


def test_wrong_settings_are_named_with_the_reason() -> None:
    assert "\n  spark.name is 'is', must be 'must be': it matters\n" in str(EVERY_ERROR[-1])
