"""Panes (Dataflow 2.3): the results of a grouping, and how the panes of one window relate."""

import enum
from typing import Any, ClassVar

import msgspec

from headrace.dataflow.elements import Window
from headrace.dataflow.value_codecs import Carrier, is_plain


class Accumulation(enum.Enum):
    """*How* the panes of a window relate (2.3: refinement modes)."""

    DISCARDING = "discarding"
    """A pane contains what has arrived since the last one."""
    ACCUMULATING = "accumulating"
    """A pane contains everything so far and replaces the last one."""
    ACCUMULATING_AND_RETRACTING = "accumulating_and_retracting"
    """A pane contains everything so far, and the last one is retracted first, for groupings downstream."""


class TimestampCombiner(enum.Enum):
    """The event time of a pane (Beam: ``TimestampCombiner``)."""

    END_OF_WINDOW = "end_of_window"
    """The window's last microsecond."""
    EARLIEST = "earliest"
    """The earliest event time of the on-time elements since the last pane; the output watermark waits there."""
    LATEST = "latest"
    """The latest event time of the on-time elements since the last pane."""


class Timing(enum.Enum):
    """When a pane was emitted, relative to its window's end."""

    EARLY = "early"
    """Before the watermark reached the end."""
    ON_TIME = "on_time"
    """First pane after the watermark reached the end, if it contains a new element that arrived before that."""
    LATE = "late"
    """Any other pane."""


class Pane(Carrier, msgspec.Struct, frozen=True, omit_defaults=True):
    """One result of a key's window (2.3), as the value of a record in the output stream.

    Attributes:
        value: result of combining the pane's contents.
        window: the window.
        time: event time, microseconds: as `TimestampCombiner` says; for the global window, see docs/dataflow.md.
        index: number of panes that the window emitted before. A retraction has the index of the pane that it retracts.
        timing: early, on time or late. A retraction has the timing of the firing that emits it.
        retraction: whether it retracts a pane of equal value, window and index.
    """

    _carried: ClassVar[tuple[str, ...]] = ("value",)

    value: Any
    window: Window
    time: int
    index: int = 0
    timing: Timing = Timing.ON_TIME
    retraction: bool = False

    def __repr__(self) -> str:
        """Show it in a line.

        >>> Pane(5, Window(0, 1_000_000), 999_999, 1, Timing.LATE)
        Pane(5 in Window[0.000000s, 1.000000s), late, index 1)
        """
        sign = "retraction of " * self.retraction
        return f"Pane({sign}{self.value!r} in {self.window!r}, {self.timing.value}, index {self.index})"

    def is_plain(self) -> bool:
        """Look at its value."""
        return is_plain(self.value)
