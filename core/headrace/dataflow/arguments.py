"""Argument checks when a definition is written: errors name the argument, its value, and what is expected."""

from headrace import OptionsError


def check_positive(option: str, value: object) -> None:
    """Refuse anything but a positive duration."""
    if type(value) is not int or value <= 0:
        raise OptionsError(option, value, "a positive int of microseconds")


def check_offset(value: object) -> None:
    """Refuse anything but an offset in time."""
    if type(value) is not int:
        raise OptionsError("offset_us", value, "an int of microseconds")


def check_count(option: str, value: object) -> None:
    """Refuse anything but an int of at least 1."""
    if type(value) is not int or value < 1:
        raise OptionsError(option, value, "an int of at least 1")


def check_bool(option: str, value: object) -> bool:
    """Return the value; refuse anything but ``True`` and ``False``."""
    if type(value) is not bool:
        raise OptionsError(option, value, "True or False")
    return value


def check_function(option: str, value: object) -> None:
    """Refuse anything that is not callable."""
    if not callable(value):
        raise OptionsError(option, value, "a function")


def check_name(option: str, value: object) -> None:
    """Refuse an invalid computation name."""
    if type(value) is not str or not value or any(mark in value for mark in "/@#"):
        raise OptionsError(option, value, "a name without '/', '@' or '#'")


def check_stream(value: object) -> None:
    """Refuse an invalid stream name."""
    if type(value) is not str or not value:
        raise OptionsError("stream", value, "the name of a stream")
