"""Dead letters: reports of records and timers on which user code kept failing, and of records that an injector refused.

Rules of this file:

* A dead letter is a dict of JSON-like values, encoded by its stream's codec: JSON, if the stream declares none.
* Choice: a codec that cannot carry it is refused when the pipeline is validated, not when the first record fails months later.
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
    """Make a computation's dead letter. ``stream`` and ``value`` are the record's; ``None`` for a timer."""
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
    """Make an injector's dead letter. A value that is not bytes appears as its ``repr``."""
    return {
        "injector": injector,
        "stream": stream,
        "offset": offset,
        "key": key,
        "value": base64.b64encode(value).decode() if type(value) is bytes else repr(value),
        "timestamp": timestamp,
        "error": error,
    }


def written_out(text: str) -> str:
    """Write out what is no Unicode, as no letter may be lost for its own text."""
    return text.encode(errors="backslashreplace").decode()


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
"""One dead letter of each form, by the kind of node that sends it."""


def check_carries(where: str, codec: Codec, samples: tuple[Letter, ...]) -> None:
    """Check that a codec can carry dead letters.

    Raises:
        CodecError: it cannot encode them, or cannot decode what it encoded.
    """
    for letter in samples:
        decode_at(where, codec, encode_at(where, codec, letter))
