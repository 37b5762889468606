"""Errors through the text of a traceback and back."""

import traceback

import pytest

from millrace import KeyExtractorError, MillraceError, OptionsError, UndeclaredOutputError, UserCodeError
from millrace.spark._errors import QueryFailedError, SparkHostError
from millrace.spark._failures import error_from, noted


def text_of(error: MillraceError) -> str:
    with pytest.raises(MillraceError) as caught, noted():
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
def test_an_error_comes_back_as_it_was(error: MillraceError) -> None:
    found = error_from("count", text_of(error))
    assert type(found) is type(error)
    assert found.args == error.args
    assert str(found) == str(error)


def test_a_field_that_is_no_text_comes_back_as_its_representation() -> None:
    found = error_from("count", text_of(OptionsError("key", object, "a str")))
    assert isinstance(found, OptionsError)
    assert found.value == repr(object)


def test_what_is_not_ours_is_told_as_spark_tells_it() -> None:
    found = error_from("count", "java.io.IOException: no space left on device\n")
    assert isinstance(found, QueryFailedError)
    assert str(found) == "query 'count' has ended: java.io.IOException: no space left on device"
