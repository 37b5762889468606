"""Panes (Dataflow 2.3): what a grouping emits, and how the results of one window relate."""

import enum
from typing import Any

import msgspec

from headrace.dataflow.elements import Window


class Accumulation(enum.Enum):
    """*How* the panes of a window relate (2.3: refinement modes)."""

    DISCARDING = "discarding"
    """A pane holds what came since the last one."""
    ACCUMULATING = "accumulating"
    """A pane holds all, and replaces the last one."""
    ACCUMULATING_AND_RETRACTING = "accumulating_and_retracting"
    """Likewise, and the last one is taken back first: for a grouping that follows."""


class Timing(enum.Enum):
    """When a pane was emitted, seen from its window's end."""

    EARLY = "early"
    """Before the watermark had reached it."""
    ON_TIME = "on_time"
    """The first one after that, if an element in it came before that."""
    LATE = "late"
    """Any other."""


class Pane(msgspec.Struct, frozen=True, omit_defaults=True):
    """One result of one key's window (2.3): the value of an output stream's records.

    Attributes:
        value: what the grouping made of the pane's contents.
        window: whose result it is.
        time: its event time, microseconds: the window's last; of the global window, see docs/dataflow.md.
        index: how many panes the window emitted before it. A retraction has the index of the pane that it takes back.
        timing: early, on time or late. A retraction has that of the pane that is emitted with it.
        retraction: it takes back a pane of equal value, window and index.
    """

    value: Any
    window: Window
    time: int
    index: int = 0
    timing: Timing = Timing.ON_TIME
    retraction: bool = False
