"""Deadlines by a process's own clock, which may be put back (MillWheel 6.1.1: a machine's clock is not to be trusted).

Rule of this file: when its clock is put back, a process waits for nothing longer than if the wait began now. Otherwise it would
wait until its clock has come round again.
"""

from heapq import heappop, heappush
from typing import Protocol

from headrace.api.time import MAX_TIME
from headrace.wire.effects import Effect, WakeAt

QUIET_PERIODS = 8
"""What has not changed is said again after this many periods, because a message may have been lost."""


class ClockWaiter(Protocol):
    """What waits by a process's clock."""

    def set_clock_back(self, now: int) -> None:
        """Wait for nothing longer than from ``now`` on, which a clock that was put back says."""


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

    def begin_on_time(self, now: int) -> None:
        """Wait until the next of the times that are whole waits after it was due, and that is not yet over.

        >>> report = Deadline(wait_us=100)
        >>> report.begin(now=0)
        >>> report.begin_on_time(now=250)
        >>> report.due_us
        300
        """
        if now >= self.due_us:
            self.due_us += ((now - self.due_us) // self.wait_us + 1) * self.wait_us

    def is_due(self, now: int) -> bool:
        """Return whether the wait is over."""
        return now >= self.due_us

    def set_clock_back(self, now: int) -> None:
        """See `ClockWaiter`."""
        self.due_us = brought_forward(self.due_us, now, self.wait_us)

    def check_invariants(self, now: int) -> None:
        """Assert that it waits, and for no longer than it would from now on."""
        assert self.due_us <= now + self.wait_us, (
            f"it waits until {self.due_us}, for {self.wait_us} from {now} on"
        )


class Wakes:
    """The wakes that a process has asked its host for and that are still to come, by its own clock.

    >>> effects: list[Effect] = []
    >>> wakes = Wakes(effects)
    >>> wakes.ask(500), wakes.ask(900), wakes.ask(200)
    (None, None, None)
    >>> effects
    [WakeAt(at_us=500), WakeAt(at_us=200)]
    >>> wakes.came(now=210)
    >>> wakes.next_us
    500

    One that waited in a paused process whose clock was put back meanwhile comes early. When that is noticed, which of them
    comes when is known no more, only how many there are:

    >>> wakes.set_clock_back()
    >>> wakes.ask(500)
    >>> wakes.came(now=400)
    >>> wakes.next_us
    500

    Args:
        effects: where it asks.

    Attributes:
        next_us: when the next one comes, microseconds; `MAX_TIME`: none was asked for.
    """

    __slots__ = ("_asked", "_effects", "_late", "next_us")

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._asked: list[int] = []
        self._late = 0  # these come, too, and what they were asked for has been done
        self.next_us = MAX_TIME

    def ask(self, due_us: int) -> None:
        """Ask the host for a wake when something is due, unless one comes as early."""
        if due_us < self.next_us:
            heappush(self._asked, due_us)
            self.next_us = due_us
            self._effects.append(WakeAt(due_us))

    def set_clock_back(self) -> None:
        """Expect what was asked for at any time, since the clock was put back; its asker asks anew for what is due."""
        self._late += len(self._asked)
        self._asked.clear()
        self.next_us = MAX_TIME

    def came(self, now: int) -> None:
        """Note that the host has woken the process, which does all that is due by now."""
        asked, before = self._asked, len(self._asked)
        while asked and asked[0] <= now:
            heappop(asked)
        if over := before - len(asked):
            self._late += over - 1
        elif self._late:
            self._late -= 1
        elif asked:
            heappop(asked)
        self.next_us = asked[0] if asked else MAX_TIME
