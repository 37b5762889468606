"""JSON from outside: a file that somebody wrote, edited or cut off, or that was converted on its way.

Rule of this file: whatever is wrong with it is one error, in words that say what to do.
"""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_MARKS = {
    b"\xef\xbb\xbf": "it begins with a byte order mark (BOM), which is no JSON. Save it as UTF-8 without one",
    b"\xff\xfe": "it is UTF-16. Save it as UTF-8",
    b"\xfe\xff": "it is UTF-16. Save it as UTF-8",
}


class JsonError(ValueError):
    """Some bytes are not the JSON that they should be; the message says why."""


def read_json(data: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode JSON from outside.

    Raises:
        JsonError: it is malformed, nested too deeply, not UTF-8, or not what is expected.
    """
    try:
        return decode(data)
    except RecursionError as error:
        raise JsonError("it is nested too deeply: arrays and objects within each other") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JsonError(encoding_problem(data) or in_words(error)) from error


def encoding_problem(data: bytes) -> str:
    """Say in which encoding a text is, by its first bytes, if it cannot be read for that; ``""``: in none that they tell."""
    return next((problem for mark, problem in _MARKS.items() if data.startswith(mark)), "")


def in_words(error: Exception) -> str:
    """Return what an error of msgspec or of a decoder says, in the words of this house."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8: the text {error.object!r:.60} has the byte {error.object[error.start]:#04x}"
    text = str(error)
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


_WORDS = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^JSON is malformed: (.*) \(byte (\d+)\)$", r"it is not JSON: \1 at byte \2"),
        (r"^Input data was truncated$", "it ends within a value"),
        (r"^Object missing required field `(\w+)`", r"the field '\1' is missing"),
        (r"^Object contains unknown field `(\w+)`", r"there is no field '\1' here"),
        (r"^Expected `(.+?)`, got `(.+?)`", r"\1 is expected, not \2"),
        (r"^Expected `(.+?)`", r"\1 is expected"),
        (r" - at `\$\.?(.*)`$", r", in \1"),
    )
]
"""What msgspec says, in the words of this house."""


def repeated_name(data: bytes) -> str | None:
    """Return a name that an object has twice, of which every decoder keeps one; ``None``: there is none, or it is no object.

    >>> repeated_name(b'{"key": "a", "key": "b"}'), repeated_name(b'{"key": {"key": 1}, "value": [{"key": 2}]}')
    ('key', None)
    """
    names = _NAME.findall(data)
    if len(names) == len(set(names)):
        return None
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = pairs

    try:
        json.loads(data, object_pairs_hook=keep)
    except (ValueError, RecursionError):  # whoever decodes it says so
        return None
    seen: set[str] = set()
    for name, _ in outermost:
        if name in seen:
            return name
        seen.add(name)
    return None
