"""Dead letters: what is told of a record or timer that user code kept failing on, and of a record that could not enter.

Rules of this file:

* A dead letter is a dict of JSON-like values, and its stream's codec writes it: JSON, if the stream declares none.
* Choice: a codec that can not carry it is refused with the pipeline, and not when the first record fails months later.
"""

import base64
from typing import Any

from headrace.api.codecs import Codec, decode_at, encode_at

Letter = dict[str, Any]


def step_letter(
    computation: str,
    key: str,
    cause: str,
    stream: str | None,
    value: bytes | None,
    timestamp: int,
    error: str,
) -> Letter:
    """Of a computation. ``stream`` and ``value``: of the record; ``None`` for a timer."""
    return {
        "computation": computation,
        "key": key,
        "cause": cause,
        "stream": stream,
        "value_base64": None if value is None else base64.b64encode(value).decode(),
        "timestamp": timestamp,
        "error": error,
    }


def injector_letter(
    injector: str, stream: str, offset: int, key: str, value: object, timestamp: int | str, error: str
) -> Letter:
    """Of an injector. What is no bytes, or no timestamp, is there as Python writes it."""
    return {
        "injector": injector,
        "stream": stream,
        "offset": offset,
        "key": key,
        "value": base64.b64encode(value).decode() if type(value) is bytes else repr(value),
        "timestamp": timestamp,
        "error": error,
    }


SAMPLES: dict[str, tuple[Letter, ...]] = {
    "computation": (
        step_letter("computation", "key", "record", "stream", b"value", 0, "error"),
        step_letter("computation", "key", "timer", None, None, 0, "error"),
    ),
    "injector": (
        injector_letter("injector/0", "stream", 0, "key", b"value", 0, "error"),
        injector_letter("injector/0", "stream", 0, "key", None, "None", "error"),
    ),
}
"""One of each form, by who writes it."""


def check_carries(where: str, codec: Codec, samples: tuple[Letter, ...]) -> None:
    """Try a codec on dead letters.

    Raises:
        CodecError: it can not write them, or not read what it wrote.
    """
    for letter in samples:
        decode_at(where, codec, encode_at(where, codec, letter))
