"""Checks of arguments, where a definition is written: each names the argument, what it got, and what it expects."""

from headrace import OptionsError


def check_positive(option: str, value: object) -> None:
    """Refuse a length of time that is none."""
    if type(value) is not int or value <= 0:
        raise OptionsError(option, value, "a positive int of microseconds")


def check_time(option: str, value: object) -> None:
    """Refuse what is no time, or offset in time."""
    if type(value) is not int:
        raise OptionsError(option, value, "an int of microseconds")


def check_count(option: str, value: object) -> None:
    """Refuse to count to nothing."""
    if type(value) is not int or value < 1:
        raise OptionsError(option, value, "an int of at least 1")


def check_bool(option: str, value: object) -> None:
    """Refuse what is only as good as true or false."""
    if type(value) is not bool:
        raise OptionsError(option, value, "True or False")


def check_function(option: str, value: object) -> None:
    """Refuse what can not be called."""
    if not callable(value):
        raise OptionsError(option, value, "a function")


def check_name(option: str, value: object) -> None:
    """Refuse what can not be a computation's name."""
    if type(value) is not str or not value or any(mark in value for mark in "/@#"):
        raise OptionsError(option, value, "a name without '/', '@' and '#'")


def check_stream(value: object) -> None:
    """Refuse what can not be a stream's name."""
    if type(value) is not str or not value:
        raise OptionsError("stream", value, "the name of a stream")
