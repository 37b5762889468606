"""The error that stopped a run keeps what it is, and is written into files as a line that is read back."""

import pytest

from headrace_properties.search.run_error import RunError, StopCause


class ProcessEndedEarlyError(Exception):
    """Of user code, with a name like that of a run that ended its process."""


class AssertionErrorOfMine(Exception):  # noqa: N818
    """Of user code, with a name like that of a bug in Headrace."""


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (RunError.of(AssertionError("the row and the cache differ")), StopCause.DEFECT),
        (RunError.of(AssertionErrorOfMine("no")), StopCause.RAISED),
        (RunError.of(ProcessEndedEarlyError("no")), StopCause.RAISED),
        (RunError.of(ValueError("a: b\n  c: d")), StopCause.RAISED),
        (RunError.ended("user code ended its process (killed by signal SIGSEGV)"), StopCause.ENDED),
    ],
)
def test_how_a_run_was_stopped_is_told_by_its_kind_and_not_by_the_first_letters(
    error: RunError, stop: StopCause
) -> None:
    assert error.stop is stop
    assert RunError.read(str(error)) == error


def test_a_run_that_was_not_stopped_has_no_error_in_its_file() -> None:
    assert RunError.read("") is None
