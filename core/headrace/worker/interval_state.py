"""The states of an assignment (MillWheel 6.2, 7.1): scanned, then owned, then dropped.

Rules of this file: work begins when the recovery scan has ended, or, if scans are asynchronous, with its first page; and never
again after the interval was dropped. Any other move is our bug.
"""

import enum


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
