"""What user code meets: records and timers (MillWheel 3, 4.6)."""

import enum
from typing import Any

import msgspec


class Record(msgspec.Struct):
    """A (key, value, timestamp) triple, MillWheel's unit of data (3).

    Attributes:
        key: the key that the consumer's extractor gave it.
        value: as decoded by the stream's codec; a copy of your own.
        timestamp: event time in microseconds.
        stream: the stream that it came on.
        late: it was behind the low watermark when it was processed (4.5).
        record_id: the system's id of this record, the same in every delivery attempt (6.1.1).
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
    WALL = "wall"


class Timer(msgspec.Struct, frozen=True):
    """A timer that fires (MillWheel 4.6).

    Attributes:
        tag: the name under which it was set; one timer a key and tag.
        timestamp: what it was set to, in microseconds of its clock.
        clock: the clock that it waited for.
    """

    tag: str
    timestamp: int
    clock: Clock = Clock.WATERMARK


def is_text(text: str) -> bool:
    """Tell whether a str can leave this process: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
