"""Soft timer state (MillWheel 4.6, 7.1): which keys have a timer that may be due, on either clock.

The rows are the truth; these heaps only say which key to look at. An entry whose timer has moved or fired is skipped by
the key's own timers.
"""

from heapq import heappop, heappush

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME
from headrace.rules import Rules
from headrace.wire.rows import StoredTimer
from headrace.worker.slot import KeySlot


class TimerQueue:
    """Keys by the time when a timer of theirs is due.

    Attributes:
        wall: a heap of the wall timers: when which key is to be looked at.
    """

    __slots__ = ("_may_fire", "_watermark", "wall")

    def __init__(self, rules: Rules) -> None:
        self._may_fire = rules.may_fire
        self._watermark: list[tuple[int, str]] = []
        self.wall: list[tuple[int, str]] = []

    def add(self, key: str, timer: StoredTimer) -> None:
        """Queue a timer that was set."""
        heappush(self._watermark if timer.clock is Clock.WATERMARK else self.wall, (timer.due, key))

    def entries(self) -> dict[Clock, frozenset[tuple[int, str]]]:
        """Return when which key will be looked at, by clock."""
        return {Clock.WATERMARK: frozenset(self._watermark), Clock.WALL: frozenset(self.wall)}

    def due_keys(self, watermark: int, now: int) -> list[str]:
        """Take out the keys with a timer due by the watermark (event time) or now (wall), in order of time."""
        keys = []
        for heap, limit in ((self._watermark, watermark), (self.wall, now)):
            while heap and self._may_fire(heap[0][0], limit):
                keys.append(heappop(heap)[1])
        return keys

    def next_due(self) -> int:
        """Return when the next wall timer may be due, microseconds; `MAX_TIME`: there is none."""
        return self.wall[0][0] if self.wall else MAX_TIME


def due_timers(rules: Rules, slot: KeySlot, watermark: int, now: int) -> list[StoredTimer]:
    """List the timers of a key that are to fire, in the order in which they must (4.6)."""
    watermark_due, wall_due = [], []
    for live in (slot.timers or {}).values():
        timer = live.timer
        if timer.clock is Clock.WATERMARK:
            if rules.may_fire(timer.due, watermark):
                watermark_due.append(timer)
        elif rules.may_fire(timer.due, now):
            wall_due.append(timer)
    return [*rules.in_order(watermark_due), *rules.in_order(wall_due)]
