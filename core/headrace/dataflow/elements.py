"""Elements and their windows (Dataflow 2.1, 2.2).

An element is (key, value, event time, window). A window is half open, ``[start, end)``.
"""

from typing import Any

import msgspec

from headrace import HOUR, MAX_TIME, MIN_TIME, OptionsError, format_time

END_OF_TIME = MAX_TIME - 24 * HOUR
"""The end of the global window. The time after it leaves room for successive groupings (Beam reserves a day, too)."""


EVENT_TIME = "an int of microseconds after MIN_TIME and before END_OF_TIME, where the global window ends"
"""The valid event times of an element, as text for error messages."""


class Window(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An interval of event time.

    >>> Window(0, 120).contains(119), Window(0, 120).contains(120)
    (True, False)

    Attributes:
        start: first microsecond, event time (inclusive).
        end: first microsecond after the window, event time (exclusive).
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not (type(self.start) is type(self.end) is int and self.start < self.end):
            expected = "two ints of microseconds, its start before its end"
            raise OptionsError("window", (self.start, self.end), expected)

    def __repr__(self) -> str:
        """Show it as in the papers, in seconds of event time."""
        if (self.start, self.end) == (MIN_TIME, END_OF_TIME):
            return "Window[global)"
        return f"Window[{format_time(self.start)}, {format_time(self.end)})"

    @property
    def last(self) -> int:
        """Its last microsecond, which is the event time of its panes."""
        return self.end - 1

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: windows complete in this order."""
        return (self.end, self.start)

    def contains(self, time: int) -> bool:
        """Return whether the window contains an event time."""
        return self.start <= time < self.end

    def covers(self, other: "Window") -> bool:
        """Return whether the window contains all of another window."""
        return self.start <= other.start and other.end <= self.end


GLOBAL = Window(MIN_TIME, END_OF_TIME)
"""All of event time: the default window of an element (2.2)."""


def within_time(window: Window) -> Window:
    """Clip a window to the global window: the watermark would never reach an end beyond it."""
    if GLOBAL.covers(window):
        return window
    return Window(max(window.start, GLOBAL.start), min(window.end, GLOBAL.end))


class Element(msgspec.Struct, frozen=True):
    """The input of a transform (2.2): the paper's 4-tuple, and whether it is a retraction.

    Attributes:
        key: key that groupings group by; for user code any key that `key_by` may return, for the layer its text.
        value: JSON-like value.
        time: event time, microseconds.
        window: its window; `GLOBAL` until one is assigned.
        retraction: whether it retracts an equal element. Since delivery is not ordered, it may arrive before that element.
    """

    key: Any
    value: Any
    time: int
    window: Window = GLOBAL
    retraction: bool = False
