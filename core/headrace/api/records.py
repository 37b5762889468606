"""Records and timers, as user code sees them (MillWheel 3, 4.6)."""

import enum
from typing import Any

import msgspec


class Record(msgspec.Struct):
    """A (key, value, timestamp) triple, MillWheel's unit of data (3).

    Attributes:
        key: the key given by the consumer's extractor.
        value: the value decoded by the stream's codec; a private copy.
        timestamp: event time in microseconds.
        stream: the stream it came on.
        late: whether it was behind the low watermark when it was processed (4.5).
        record_id: the system's id for this record, the same in every delivery attempt (6.1.1).
    """

    key: str
    value: Any
    timestamp: int
    stream: str = ""
    late: bool = False
    record_id: str = ""


class Clock(enum.Enum):
    """What a timer waits for (MillWheel 4.6)."""

    WATERMARK = "watermark"
    """The low watermark of its computation."""
    WALL = "wall"
    """The clock of the machine."""


class Timer(msgspec.Struct, frozen=True):
    """A timer that has fired (MillWheel 4.6).

    Attributes:
        tag: the name it was set under; one timer per key and tag.
        timestamp: the time it was set to, microseconds of its clock.
        clock: the clock it waited for.
    """

    tag: str
    timestamp: int
    clock: Clock = Clock.WATERMARK


def is_text(text: str) -> bool:
    """Return whether a str can be encoded as UTF-8; lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
