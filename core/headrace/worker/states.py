"""The states of an assignment, of a step and of the next write are tables (MillWheel 6.1, 6.2, 7.1).

Rules of this file: whatever is not in a table is our bug.

* Work begins when the recovery scan has ended, or, if scans are asynchronous, with its first page; and never again after the
  interval was dropped.
* A strong step: run, commit. A weak one (6.1.3): run, wait for the ACKs of what it sent, commit; a straggler is checkpointed by
  that commit instead of being waited for.
* No more writes are under way than may be.
"""

import enum
from collections.abc import Mapping
from typing import TypeVar

StateT = TypeVar("StateT", bound=enum.Enum)
InputT = TypeVar("InputT", bound=enum.Enum)


def moved(table: Mapping[tuple[StateT, InputT], StateT], state: StateT, input_: InputT, who: str) -> StateT:
    """Return the next state by a table; any other move is our bug. ``who``: in the message."""
    try:
        return table[state, input_]
    except KeyError:
        raise AssertionError(f"{who} cannot take {input_.name} in {state.name}") from None


# An assignment


class AssignmentState(enum.IntEnum):
    """The state of an assignment."""

    SCANNING = enum.auto()
    OWNED = enum.auto()
    DROPPED = enum.auto()
    RECOVERING = enum.auto()
    """It processes records while the scan goes on, and reports nothing."""


class IntervalInput(enum.IntEnum):
    """An input that changes the state of an assignment."""

    SCAN_ENDED = enum.auto()
    REFUSED = enum.auto()
    REASSIGNED = enum.auto()
    PAGE_CAME = enum.auto()


INTERVAL: dict[tuple[AssignmentState, IntervalInput], AssignmentState] = {
    (AssignmentState.SCANNING, IntervalInput.SCAN_ENDED): AssignmentState.OWNED,  # 7.1: timer heap and queue are consistent
    (AssignmentState.SCANNING, IntervalInput.PAGE_CAME): AssignmentState.RECOVERING,  # 6.2: scans can often be asynchronous
    (AssignmentState.RECOVERING, IntervalInput.SCAN_ENDED): AssignmentState.OWNED,
    (AssignmentState.RECOVERING, IntervalInput.REFUSED): AssignmentState.DROPPED,
    (AssignmentState.RECOVERING, IntervalInput.REASSIGNED): AssignmentState.DROPPED,
    (AssignmentState.SCANNING, IntervalInput.REFUSED): AssignmentState.DROPPED,
    (AssignmentState.SCANNING, IntervalInput.REASSIGNED): AssignmentState.DROPPED,
    (AssignmentState.OWNED, IntervalInput.REFUSED): AssignmentState.DROPPED,  # 6.2: the sequencer is not valid any more
    (AssignmentState.OWNED, IntervalInput.REASSIGNED): AssignmentState.DROPPED,
}  # fmt: skip


# A step


class StepState(enum.IntEnum):
    """Where a step is."""

    RUNNING = enum.auto()
    """User code runs."""
    AWAITING_ACKS = enum.auto()
    """Weak: its productions were sent and are not all ACKed."""
    COMMITTABLE = enum.auto()
    """It waits for a write to share."""
    COMMITTING = enum.auto()
    """Its write is under way."""
    DONE = enum.auto()
    """It is durable, or needed no write."""


class StepInput(enum.IntEnum):
    """What moves a step on."""

    SENT = 0
    """Weak productions are on their way."""
    COMPLETE = 1
    """Nothing is left to wait for before the commit."""
    STRAGGLING = 2
    """Some production was not ACKed in time; it will be checkpointed (Figure 11)."""
    WRITE = 3
    """Its write was sent."""
    WRITTEN = 4
    """Its write is durable."""
    SKIP_WRITE = 5
    """It changed nothing that would have to be durable."""


STEP: dict[tuple[StepState, StepInput], StepState] = {
    (StepState.RUNNING, StepInput.SENT): StepState.AWAITING_ACKS,  # 6.1.3: optimistically, prior to persisting
    (StepState.RUNNING, StepInput.COMPLETE): StepState.COMMITTABLE,  # 6.1.1: pending changes are committed
    (StepState.AWAITING_ACKS, StepInput.COMPLETE): StepState.COMMITTABLE,
    (StepState.AWAITING_ACKS, StepInput.STRAGGLING): StepState.COMMITTABLE,  # 6.1.3: checkpoint a small percentage
    (StepState.COMMITTABLE, StepInput.WRITE): StepState.COMMITTING,
    (StepState.COMMITTABLE, StepInput.SKIP_WRITE): StepState.DONE,  # 6.1.3: a stateless filter
    (StepState.COMMITTING, StepInput.WRITTEN): StepState.DONE,
}  # fmt: skip


# The next write


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
"""After a write the next one lingers, for more steps to share it, unless there are enough already."""
