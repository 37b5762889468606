"""Time (MillWheel 4.5, 4.6): an ``int`` of microseconds, on two clocks that never mix.

Event time is a record's timestamp; wall time is a process's own clock. Choice: both are plain ``int`` in every signature,
since user code computes with them in every line; docstrings say which one is meant.
"""

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

MIN_TIME = -(2**63)
"""Before all event times: the value of a watermark that is not known yet."""

MAX_TIME = 2**63 - 1
"""After all event times: the watermark of a source that has ended (``kint64max`` in Figure 10)."""

EVENT_TIME = "an int of microseconds between MIN_TIME and MAX_TIME, both exclusive"
"""What `is_timestamp` accepts, as text for error messages."""


def is_timestamp(time: object) -> bool:
    """Return whether a record, a watermark timer or a hold can have this time.

    Choice: the two ends of time are for watermarks only. Work at `MAX_TIME` could not hold back a watermark that reaches it,
    and work at `MIN_TIME` would hold back every watermark forever.

    >>> is_timestamp(0), is_timestamp(MAX_TIME - 1), is_timestamp(MAX_TIME), is_timestamp(1.5)
    (True, True, False, False)
    """
    return type(time) is int and MIN_TIME < time < MAX_TIME


def format_time(time_us: int) -> str:
    """Format a time in seconds for people; name the two ends.

    >>> format_time(1_500_000), format_time(MAX_TIME)
    ('1.500000s', 'end')
    """
    if time_us >= MAX_TIME:
        return "end"
    if time_us <= MIN_TIME:
        return "unknown"
    return f"{time_us / SECOND:.6f}s"
