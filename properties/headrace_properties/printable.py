"""Format users' text and values for people: decoded, complete, and harmless on a terminal."""

import re
from pathlib import PurePath
from typing import Any

import msgspec

from headrace import Pipeline, format_time
from headrace.wire.effects import SourceRecord
from headrace_sim import Feed

_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that can control a terminal, reorder a line or fail to encode; newline and tab are excluded."""


def visible(text: str) -> str:
    r"""Write out the characters that a terminal would obey instead of showing.

    >>> visible("paid\x1b[2J")
    'paid\\x1b[2J'
    """
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_json(content: Any) -> bytes:
    r"""Encode a document as JSON, indented; what is no Unicode in a text, such as an error's, is written out.

    Structs and dataclasses are their fields, and a path is its text.

    >>> printable_json({"error": "\ud800"})
    b'{\n  "error": "\\\\ud800"\n}'
    """
    try:
        data = msgspec.json.encode(content, enc_hook=path_text)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_written_out(msgspec.to_builtins(content, enc_hook=path_text)))
    return msgspec.json.format(data, indent=2)


def path_text(value: Any) -> str:
    """Return a path as text, and refuse anything else that JSON cannot hold."""
    if not isinstance(value, PurePath):
        raise NotImplementedError(f"a document cannot have a {type(value).__name__}")
    return str(value)


def _written_out(content: Any) -> Any:
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, dict):
        return {_written_out(name): _written_out(value) for name, value in content.items()}
    return [_written_out(value) for value in content] if isinstance(content, list | tuple) else content


def describe_value(pipeline: Pipeline, stream: str, data: bytes) -> str:
    """Decode a value with its stream's codec, and show it in full; show the bytes of a value that cannot be decoded.

    >>> describe_value(Pipeline("bank"), "transfers", b'{"amount":3}')
    "{'amount': 3}"
    """
    try:
        return visible(repr(pipeline.codec(stream).decode(data)))
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return f"{data!r} (not decodable)"


def describe_record(pipeline: Pipeline, record: SourceRecord) -> str:
    """Write a record of the input in a line, its value decoded.

    >>> describe_record(Pipeline("bank"), SourceRecord(0, "transfers", "ann", b'{"amount":3}', 1_500_000))
    "stream=transfers key='ann' timestamp=1.500000s value={'amount': 3}"
    """
    value = describe_value(pipeline, record.stream, record.value)
    time = format_time(record.timestamp)
    return f"stream={visible(record.stream)} key={record.key!r} timestamp={time} value={value}"


def describe_input(pipeline: Pipeline, feed: Feed) -> list[str]:
    """Write the records of an input, a line each, with the time at which each arrives."""
    return [
        f"{format_time(entry.at_us)} record {describe_record(pipeline, entry.event)}"
        for entry in feed.entries
        if isinstance(entry.event, SourceRecord)
    ]
