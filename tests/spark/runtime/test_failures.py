"""Errors through the text of a traceback and back."""

import traceback
from pathlib import Path

import pytest

from headrace import HeadraceError, KeyExtractorError, OptionsError, UndeclaredOutputError, UserCodeError
from headrace.spark.host_errors import QueryFailedError, SparkHostError
from headrace.spark.io_errors import CheckpointDamagedError, DiskFullError
from headrace.spark.runtime.failures import error_from, noted

NOWHERE = Path("/nowhere/checkpoint")


def text_of(error: HeadraceError) -> str:
    with pytest.raises(HeadraceError) as caught, noted():
        raise error
    return "Job aborted.\n" + "".join(traceback.format_exception(caught.value)) + " SQLSTATE: 39000\n"


@pytest.mark.parametrize(
    "error",
    [
        UserCodeError(
            "count", "anna", 'mail/0:7 "quoted"', 3, "Traceback\n  File 'x', line 1\nValueError: ä"
        ),
        KeyExtractorError("count", "mail", "returned None"),
        UndeclaredOutputError("count", "stray", ("counted", "late")),
        SparkHostError("a problem", "A remedy"),
    ],
)
def test_an_error_comes_back_as_it_was(error: HeadraceError) -> None:
    found = error_from("count", Exception(text_of(error)), NOWHERE)
    assert type(found) is type(error)
    assert found.args == error.args
    assert str(found) == str(error)
    assert (found.__cause__, found.__suppress_context__) == (None, True)


def test_a_field_that_is_no_text_comes_back_as_its_representation() -> None:
    found = error_from("count", Exception(text_of(OptionsError("key", object, "a str"))), NOWHERE)
    assert isinstance(found, OptionsError)
    assert found.value == repr(object)


def test_what_is_not_ours_is_told_as_spark_tells_it() -> None:
    found = error_from("count", raised := Exception("java.io.IOException: a pipe is broken\n"), NOWHERE)
    assert found.__cause__ is raised
    assert isinstance(found, QueryFailedError)
    assert str(found) == "query 'count' ended: java.io.IOException: a pipe is broken"


def test_what_happened_to_files_is_told_as_that() -> None:
    found = error_from("count", Exception("java.io.IOException: No space left on device\n"), NOWHERE)
    assert type(found) is DiskFullError
    assert found.place == str(NOWHERE)


def test_a_file_of_the_state_that_is_gone_is_not_taken_for_a_checkpoint_that_was_moved() -> None:
    says = "java.io.FileNotFoundError: File file:{}/state/0/_stateSchema/a does not exist"
    gone = error_from("count", Exception(says.format(NOWHERE)), NOWHERE)
    assert type(gone) is CheckpointDamagedError
    assert (gone.place, gone.problem) == (f"{NOWHERE}/state/0/_stateSchema/a", "it is missing")
    moved = error_from("count", Exception(says.format("/home/checkpoint")), NOWHERE)
    assert type(moved) is CheckpointDamagedError
    assert moved.place == str(NOWHERE)
    assert "moved from /home/checkpoint" in moved.problem
