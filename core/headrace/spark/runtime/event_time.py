"""Event time on Spark (MillWheel 4.5, 7.2): an ``int`` of microseconds here, milliseconds and ``TimestampType`` there.

Rules of this file: Spark's watermark counts from 1970 and begins at 0, so 0 means that it is not known yet; the end of time is
written as the last midnight that Spark's timestamps can represent.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from headrace.api.time import MAX_TIME, MILLISECOND, MIN_TIME

END_OF_TIME = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
"""Written to an injector's watermark column when the source has ended."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
END_MS = (END_OF_TIME - _EPOCH) // dt.timedelta(milliseconds=1)


def from_spark(watermark_ms: int) -> int:
    """Convert Spark's watermark, milliseconds, to event time in microseconds.

    >>> from_spark(1_500), from_spark(0) == MIN_TIME, from_spark(END_MS) == MAX_TIME
    (1500000, True, True)
    """
    if watermark_ms <= 0:
        return MIN_TIME
    return MAX_TIME if watermark_ms >= END_MS else watermark_ms * MILLISECOND


def low_watermark_of(progress: Mapping[str, Any] | None) -> int:
    """Return Spark's watermark in a query's progress report, as event time in microseconds.

    >>> low_watermark_of({"eventTime": {"watermark": "1970-01-01T00:00:01.500Z"}}), low_watermark_of(None) == MIN_TIME
    (1500000, True)
    """
    watermark = None if progress is None else progress["eventTime"].get("watermark")
    if watermark is None:
        return MIN_TIME
    return from_spark((dt.datetime.fromisoformat(watermark) - _EPOCH) // dt.timedelta(milliseconds=1))


def to_spark(low_watermark: int) -> dt.datetime | None:
    """Convert a low watermark, event time in microseconds, to the value of an injector's column; ``None``: not known yet.

    >>> to_spark(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    if low_watermark <= 0:
        return None
    if low_watermark >= END_MS * MILLISECOND:
        return END_OF_TIME
    return _EPOCH + dt.timedelta(microseconds=low_watermark)
