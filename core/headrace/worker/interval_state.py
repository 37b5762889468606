"""The states of an assignment (MillWheel 6.2, 7.1): scanned, then owned, then dropped.

Rules of this file: work begins when the recovery scan has ended, or, if scans are asynchronous, with its first page; and never
again after the interval was dropped. Any other move is our bug.
"""

import enum


class IntervalState(enum.IntEnum):
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


INTERVAL: dict[tuple[IntervalState, IntervalInput], IntervalState] = {
    (IntervalState.SCANNING, IntervalInput.SCAN_ENDED): IntervalState.OWNED,  # 7.1: timer heap and queue are consistent
    (IntervalState.SCANNING, IntervalInput.PAGE_CAME): IntervalState.RECOVERING,  # 6.2: scans can often be asynchronous
    (IntervalState.RECOVERING, IntervalInput.SCAN_ENDED): IntervalState.OWNED,
    (IntervalState.RECOVERING, IntervalInput.REFUSED): IntervalState.DROPPED,
    (IntervalState.RECOVERING, IntervalInput.REASSIGNED): IntervalState.DROPPED,
    (IntervalState.SCANNING, IntervalInput.REFUSED): IntervalState.DROPPED,
    (IntervalState.SCANNING, IntervalInput.REASSIGNED): IntervalState.DROPPED,
    (IntervalState.OWNED, IntervalInput.REFUSED): IntervalState.DROPPED,  # 6.2: the sequencer is not valid any more
    (IntervalState.OWNED, IntervalInput.REASSIGNED): IntervalState.DROPPED,
}  # fmt: skip
