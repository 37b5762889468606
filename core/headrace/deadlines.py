"""Deadlines by a process's own clock, which may be put back (MillWheel 6.1.1: a machine's clock is not to be trusted).

Rule of this file: when its clock is put back, a process waits for nothing longer than if the wait began now. Otherwise it would
wait until its clock has come round again.
"""

from typing import Protocol

from headrace.api.time import MAX_TIME


class Waiting(Protocol):
    """What waits by a process's clock."""

    def set_clock_back(self, now: int) -> None:
        """The clock was put back, and says this now."""


def brought_forward(due_us: int, now: int, wait_us: int) -> int:
    """Return when something is due now that the clock was put back, microseconds.

    Args:
        due_us: when it was due.
        now: what the clock says after it was put back.
        wait_us: how long it waits at most.
    """
    return min(due_us, now + wait_us)


class Deadline:
    """When something is due that waits for the same time whenever it begins.

    >>> retry = Deadline(wait_us=100)
    >>> retry.begin(now=5_000)
    >>> retry.is_due(5_099), retry.is_due(5_100)
    (False, True)
    >>> retry.set_clock_back(now=40)
    >>> retry.due_us
    140

    Args:
        wait_us: how long it waits.

    Attributes:
        due_us: when it is due, microseconds; `MAX_TIME`: it has not begun.
    """

    __slots__ = ("due_us", "wait_us")

    def __init__(self, wait_us: int) -> None:
        self.wait_us = wait_us
        self.due_us = MAX_TIME

    def begin(self, now: int) -> None:
        """Wait from now on."""
        self.due_us = now + self.wait_us

    def is_due(self, now: int) -> bool:
        """Tell whether the wait is over."""
        return now >= self.due_us

    def set_clock_back(self, now: int) -> None:
        """The clock was put back."""
        self.due_us = brought_forward(self.due_us, now, self.wait_us)
