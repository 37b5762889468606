"""When the next write goes (MillWheel 6.1.1): what steps wait for is a table.

Rules of this file: after a write the next one lingers, for more steps to share it, unless there are enough already. No more
writes are under way than may be.
"""

import enum


class Pace(enum.IntEnum):
    """What the next write waits for."""

    OPEN = enum.auto()
    """Nothing."""
    LINGERING = enum.auto()
    """More steps to share it."""
    AWAITING_WAKE = enum.auto()
    """More steps to share it; the host was asked to wake the interval when the time for that is over."""
    AWAITING_ANSWER = enum.auto()
    """The answer to one of the writes under way, which are as many as may be."""


class PaceInput(enum.IntEnum):
    """An input that changes what the next write waits for."""

    WROTE = enum.auto()
    """A write was sent, and another may be."""
    WROTE_LAST = enum.auto()
    """A write was sent, and no other may be."""
    ANSWERED = enum.auto()
    """A write was answered."""
    LINGERED = enum.auto()
    """The time has come at which the next write lingers no longer."""
    STEPS_CAME = enum.auto()
    """Steps are there, and too few."""
    CLOCK_SET_BACK = enum.auto()
    """The clock was put back, and with it the time at which the next write lingers no longer."""


PACE: dict[tuple[Pace, PaceInput], Pace] = {
    (Pace.OPEN, PaceInput.WROTE): Pace.LINGERING,
    (Pace.OPEN, PaceInput.WROTE_LAST): Pace.AWAITING_ANSWER,
    (Pace.OPEN, PaceInput.ANSWERED): Pace.OPEN,
    (Pace.OPEN, PaceInput.CLOCK_SET_BACK): Pace.LINGERING,
    (Pace.LINGERING, PaceInput.WROTE): Pace.LINGERING,  # 6.1.1: enough steps for one checkpoint, or deletions alone
    (Pace.LINGERING, PaceInput.WROTE_LAST): Pace.AWAITING_ANSWER,
    (Pace.LINGERING, PaceInput.ANSWERED): Pace.LINGERING,
    (Pace.LINGERING, PaceInput.LINGERED): Pace.OPEN,
    (Pace.LINGERING, PaceInput.STEPS_CAME): Pace.AWAITING_WAKE,
    (Pace.LINGERING, PaceInput.CLOCK_SET_BACK): Pace.LINGERING,
    (Pace.AWAITING_WAKE, PaceInput.WROTE): Pace.LINGERING,
    (Pace.AWAITING_WAKE, PaceInput.WROTE_LAST): Pace.AWAITING_ANSWER,
    (Pace.AWAITING_WAKE, PaceInput.ANSWERED): Pace.AWAITING_WAKE,
    (Pace.AWAITING_WAKE, PaceInput.LINGERED): Pace.OPEN,
    (Pace.AWAITING_WAKE, PaceInput.CLOCK_SET_BACK): Pace.AWAITING_WAKE,  # the host is asked again
    (Pace.AWAITING_ANSWER, PaceInput.ANSWERED): Pace.LINGERING,
    (Pace.AWAITING_ANSWER, PaceInput.CLOCK_SET_BACK): Pace.AWAITING_ANSWER,
}  # fmt: skip
"""A write that there is no room for is our bug, and so is whatever else is not here."""


def moved(pace: Pace, input_: PaceInput) -> Pace:
    """Move on by the table; any other move is our bug."""
    try:
        return PACE[pace, input_]
    except KeyError:
        raise AssertionError(f"commits cannot take {input_.name} in {pace.name}") from None
