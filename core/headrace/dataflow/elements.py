"""Elements and the windows that they are in (Dataflow 2.1, 2.2).

An element is (key, value, event time, window). A window is half open, ``[start, end)``.
"""

from typing import Any

import msgspec

from headrace import HOUR, MAX_TIME, MIN_TIME, OptionsError

END_OF_TIME = MAX_TIME - 24 * HOUR
"""Where the global window ends. Beyond it is room for groupings that follow one another (Beam keeps a day free, too)."""


EVENT_TIME = "an int of microseconds after MIN_TIME and before END_OF_TIME, where the global window ends"
"""What an element can have as its event time, in words."""


class Window(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An interval of event time.

    >>> Window(0, 120).contains(119), Window(0, 120).contains(120)
    (True, False)

    Attributes:
        start: its first microsecond, event time.
        end: the first one that is not in it.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse one that holds no time."""
        if not (type(self.start) is type(self.end) is int and self.start < self.end):
            expected = "two ints of microseconds, its start before its end"
            raise OptionsError("window", (self.start, self.end), expected)

    @property
    def last(self) -> int:
        """Its last microsecond: the event time of what is grouped in it."""
        return self.end - 1

    @property
    def order(self) -> tuple[int, int]:
        """In this order windows are completed."""
        return (self.end, self.start)

    def contains(self, time: int) -> bool:
        """Tell whether an event time lies in it."""
        return self.start <= time < self.end

    def covers(self, other: "Window") -> bool:
        """Tell whether all of another window lies in it."""
        return self.start <= other.start and other.end <= self.end


GLOBAL = Window(MIN_TIME, END_OF_TIME)
"""All of event time: the window of an element that was given no other (2.2)."""


def within_time(window: Window) -> Window:
    """Cut off what of a window lies beyond the global one: the watermark would never get to its end."""
    if GLOBAL.covers(window):
        return window
    return Window(max(window.start, GLOBAL.start), min(window.end, GLOBAL.end))


class Element(msgspec.Struct, frozen=True):
    """What flows into a transform (2.2): the paper's 4-tuple, and whether it is taken back.

    Attributes:
        key: what groupings group by.
        value: JSON-like.
        time: event time, microseconds.
        window: where it is; `GLOBAL` until it is assigned.
        retraction: it takes back an equal element that went before it, or, since nothing orders what travels, comes after it.
    """

    key: str
    value: Any
    time: int
    window: Window = GLOBAL
    retraction: bool = False
