"""Times read from text by a pattern, by the parser of Spark 3 and 4. What only that of Spark 2 may read is refused."""

import re
from datetime import datetime
from functools import cache

from pyspark.errors import DateTimeException

from headrace_sim.spark.columns.in_force import TIME_PARSER, in_force
from headrace_sim.spark.refusals import NotSimulatedError

_DIGITS = {
    "yyyy": r"\d{4}", "MM": r"\d\d", "M": r"\d\d?", "dd": r"\d\d", "d": r"\d\d?", "HH": r"\d\d", "H": r"\d\d?", "mm": r"\d\d",
    "ss": r"\d\d", "SSS": r"\d{3}", "SSSSSS": r"\d{6}",
}  # fmt: skip
"""What a letter of a pattern takes when text is read by it."""
_OLD_DIGITS = r"\s*[-+]?\d+"
"""What any letter takes in Spark 2, which leaves alone what follows the last one."""


def time_of_text(text: str, form: str) -> datetime:
    """Return the time that a text has by a pattern of Java's.

    Raise `DateTimeException` if it has none, or `NotSimulatedError` if the policy asks the parser of Spark 2, which may read it.
    """
    match = _reader(form).fullmatch(text)
    parts = match.groupdict() if match is not None else {"M": "0"}  # there is no such month
    try:
        year, month, day = int(parts.get("y", 1970)), int(parts.get("M", 1)), int(parts.get("d", 1))
        hour, minute, second = (int(parts.get(letter, 0)) for letter in "Hms")
        return datetime(year, month, day, hour, minute, second, int(parts.get("S", "0").ljust(6, "0")))
    except ValueError as error:
        if (
            match is None
            and in_force(TIME_PARSER).upper() != "CORRECTED"
            and _reader(form, old=True).match(text)
        ):
            raise NotSimulatedError(
                f"the text {text!r}, which only the date parser of Spark 2 may read by {form!r} ({TIME_PARSER} is "
                f"{in_force(TIME_PARSER).upper()}; with CORRECTED that parser is not asked)"
            ) from error
        problem = f"Text {text!r} could not be parsed by {form!r}: use `try_to_timestamp`"
        raise DateTimeException(message=f"[CANNOT_PARSE_TIMESTAMP] {problem}") from error


@cache
def _reader(form: str, *, old: bool = False) -> re.Pattern[str]:
    """Return what reads text by a pattern of Java's, with a group for each letter; or all that Spark 2 may read, and more."""
    regex = []
    for quoted, letters, _, other in re.findall(r"'([^']*)'|(([A-Za-z])\3*)|([^A-Za-z']+)", form):
        if letters and (letters not in _DIGITS or "[" in form):
            raise NotSimulatedError(f"{letters!r} in the pattern {form!r} (known are {', '.join(_DIGITS)})")
        digits = _OLD_DIGITS if old else _DIGITS.get(letters)
        regex.append(f"(?P<{letters[0]}>{digits})" if letters else re.escape(quoted or other))
    return re.compile("".join(regex), re.ASCII)
