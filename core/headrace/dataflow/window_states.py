"""The state of a key's window (Dataflow 2.2, 2.3), and when something is next due for it."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from headrace import MAX_TIME, MIN_TIME
from headrace.dataflow.contents import Contents
from headrace.dataflow.elements import Window
from headrace.dataflow.panes import Pane
from headrace.dataflow.value_codecs import Carrier, is_plain


class WindowState(Carrier, msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A key's state for one window.

    Attributes:
        window: the window.
        trigger: state of its trigger.
        contents: contents of its next pane.
        latest: greatest event time of its elements, microseconds. If a pane's time comes from its elements, what that of those
            since the last pane comes to; `MIN_TIME`: none of them was on time.
        fresh: number of elements since the last pane.
        panes: number of panes emitted so far; a merge adds up those of its parts.
        passed: whether the watermark has reached its end.
        was_on_time: whether a pane was emitted after that, here or in a merged part.
        finished: whether its trigger is finished; then nothing else is kept.
        emitted: panes to retract with the next firing.
        holds: whether an on-time element waits in it, so that the output watermark must not pass its end.
    """

    _carried: ClassVar[tuple[str, ...]] = ("trigger", "contents", "emitted")

    window: Window
    trigger: Any = None
    contents: Contents = msgspec.field(default_factory=Contents)
    latest: int = MIN_TIME
    fresh: int = 0
    panes: int = 0
    passed: bool = False
    was_on_time: bool = False
    finished: bool = False
    emitted: list[Pane] = msgspec.field(default_factory=list)
    holds: bool = False

    def is_plain(self) -> bool:
        """Look at its values without a copy."""
        return not self.emitted and is_plain(self.contents.accumulator) and is_plain(self.trigger)


def in_order(windows: Iterable[WindowState]) -> list[WindowState]:
    """Sort windows in the order in which they complete."""
    return sorted(windows, key=attrgetter("window.order"))


class Due(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """When something is next due for a window, or for the first of several; `MAX_TIME`: never.

    Attributes:
        event: watermark at which something is due, event time, microseconds.
        wall: clock reading at which something is due, wall time, microseconds; without the boundaries of a micro-batch engine.
        hold: event time, microseconds, that the output watermark must not pass until ``wall``.
        end: first window end that the watermark has not passed, event time, microseconds; sets no alarm.
        idle: when a trigger with nothing to emit restarts, wall time, microseconds; sets no alarm.
    """

    event: int = MAX_TIME
    wall: int = MAX_TIME
    hold: int = MAX_TIME
    end: int = MAX_TIME
    idle: int = MAX_TIME

    def __or__(self, other: "Due") -> "Due":
        return Due(
            min(self.event, other.event),
            min(self.wall, other.wall),
            min(self.hold, other.hold),
            min(self.end, other.end),
            min(self.idle, other.idle),
        )

    def loses(self, before: "Due", after: "Due") -> bool:
        """Return whether this minimum may be outdated because one of its windows changed from ``before`` to ``after``."""
        return (
            self.event == before.event < after.event
            or self.wall == before.wall < after.wall
            or self.hold == before.hold < after.hold
            or self.end == before.end < after.end
            or self.idle == before.idle < after.idle
        )


NOTHING_DUE = Due()
