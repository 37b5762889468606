"""Drives one key of a grouping as a host would: its row is written and read after each event, its alarms are kept."""

from dataclasses import dataclass, field
from typing import Any

from headrace import MIN_TIME, Clock
from headrace.dataflow import Element, Grouping, KeyState, Pane
from headrace.dataflow.value_codecs import ValueCodec

VALUES = ValueCodec()
MOST = 2
"""So few windows make a chunk, that a test has several."""

Short = tuple[Any, ...]


@dataclass
class Key:
    """One key. Each method returns what was emitted."""

    grouping: Grouping
    state: KeyState = field(default_factory=KeyState)
    now: int = 0
    low_watermark: int = MIN_TIME

    def element(
        self, value: Any, time: int, at: int | None = None, *, retraction: bool = False
    ) -> list[Pane]:
        before = self.clock(self.now if at is None else at, inclusive=False)
        element = Element("key", value, time, retraction=retraction)
        return before + self._kept(self.grouping.element(self.state, element, self.now, self.low_watermark))

    def clock(self, now: int, *, inclusive: bool = True) -> list[Pane]:
        panes: list[Pane] = []
        while due := [at for at in self._alarms(Clock.WALL) if at < now + inclusive]:
            panes += self._kept(self.grouping.advance(self.state, min(due), self.low_watermark))
        self.now = now
        return panes

    def watermark(self, low_watermark: int) -> list[Pane]:
        self.low_watermark = low_watermark
        if not any(at <= low_watermark for at in self._alarms(Clock.WATERMARK)):
            return []
        return self._kept(self.grouping.advance(self.state, self.now - 1, low_watermark))

    def _alarms(self, clock: Clock) -> list[int]:
        return [alarm.time for alarm in self.grouping.alarms(self.state) if alarm.clock is clock]

    def _kept(self, panes: list[Pane]) -> list[Pane]:
        codec = self.grouping.row_codec(VALUES, most=MOST)
        self.grouping.check_invariants(self.state)
        self.state = codec.decode(codec.encode(self.state))
        self.grouping.check_invariants(self.state)
        return panes


def short(panes: list[Pane]) -> list[Short]:
    """Write panes as (value, start, end), with a minus before those that are taken back."""
    return [
        (*(("-",) if pane.retraction else ()), pane.value, pane.window.start, pane.window.end)
        for pane in panes
    ]
