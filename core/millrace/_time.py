"""Time (MillWheel 4.5, 4.6): an ``int`` of microseconds, on two clocks that never mix.

Event time is what a record's timestamp says; wall time is what a process's own clock says. Choice: both are plain ``int``
in every signature, since user code computes with them in every line; which one is meant, the docstrings say.
"""

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

MIN_TIME = -(2**63)
"""Before everything: a watermark of which nothing is known yet."""

MAX_TIME = 2**63 - 1
"""After everything: the watermark of a source that has ended (``kint64max`` in Figure 10)."""


def format_time(time_us: int) -> str:
    """Write a time in seconds for people; the two ends by name.

    >>> format_time(1_500_000), format_time(MAX_TIME)
    ('1.500000s', 'end')
    """
    if time_us >= MAX_TIME:
        return "end"
    if time_us <= MIN_TIME:
        return "unknown"
    return f"{time_us / SECOND:.6f}s"
