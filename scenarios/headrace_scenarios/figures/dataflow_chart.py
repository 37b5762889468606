"""A figure of the Dataflow paper, drawn as the paper draws it (2.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace import MINUTE
from headrace.dataflow import GLOBAL, Accumulation, Batch, Engine, MicroBatch, Streaming
from headrace_properties.explain.pictures.event_time_chart import DrawnResult, EventTimeChart, PlottedElement
from headrace_scenarios.figures.dataflow import END_US, ORIGIN_US, DataflowFigure, clock, points, watermark
from headrace_scenarios.figures.groupings import EmittedPane

EVENT_US, PROC_US = (0, 8 * MINUTE), (5 * MINUTE, 9 * MINUTE + 45_000_000)
"""The drawn range, microseconds after 12:00."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of the paper, and the panes of a run of its pipeline.

    Attributes:
        figure: which.
        panes: as they came, in wall time from 12:05 on.
    """

    figure: DataflowFigure
    panes: tuple[EmittedPane, ...]

    def save(self, path: Path) -> None:
        """Draw the figure into a file; see `EventTimeChart.save`."""
        chart = EventTimeChart(
            title=f"Figure {self.figure.number}: {self.figure.title}",
            arrivals=[PlottedElement(point.event_us, point.proc_us, str(point.value)) for point in points()],
            results=[self._result(number) for number in range(len(self.panes))],
            watermarks=_seen_by(self.figure.engine),
            across=EVENT_US,
            up=PROC_US,
            clock=clock,
            event_tick=_minute,
            tick=_minute,
            ticks_us=MINUTE,
        )
        chart.save(path)

    def _result(self, number: int) -> DrawnResult:
        pane = self.panes[number]
        start_us, end_us = EVENT_US if pane.window == GLOBAL else (pane.window.start, pane.window.end)
        at_us = pane.at_us + ORIGIN_US
        return DrawnResult(
            start_us, end_us, self._begin_us(number), at_us, str(pane.value), words(pane), pane.retraction
        )

    def _begin_us(self, number: int) -> int:
        """Return when a pane's first element could arrive: after the window's last pane if that was discarded."""
        pane = self.panes[number]
        earlier = [other.at_us for other in self.panes[:number] if other.window == pane.window]
        discarding = self.figure.query.accumulation is Accumulation.DISCARDING
        return ORIGIN_US + (max(earlier) if discarding and earlier else 0)


def words(pane: EmittedPane) -> str:
    """Describe a pane in one line."""
    sign = "-" if pane.retraction else ""
    start_us, end_us = pane.window.start, pane.window.end
    where = "all of event time" if pane.window == GLOBAL else f"[{clock(start_us)}, {clock(end_us)})"
    timing = pane.timing.value.replace("_", " ")
    return f"{sign}{pane.value} of {where}, {timing}, index {pane.index}"


def _minute(at_us: int) -> str:
    return clock(at_us)[:5]


def _seen_by(engine: Engine) -> list[list[tuple[int, int]]]:
    """Return lines of (event time, wall time); a batch's watermark jumps from the start to the end of time once all is read."""
    match engine:
        case Streaming():
            return [[(event_us, at_us) for at_us, event_us in watermark()]]
        case Batch():
            return [_level(END_US + ORIGIN_US)]
        case MicroBatch(period_us):
            ends = range(ORIGIN_US + period_us, END_US + ORIGIN_US, period_us)
            return [_level(end_us) for end_us in ends]


def _level(at_us: int) -> list[tuple[int, int]]:
    return [(edge, at_us) for edge in EVENT_US]


def text_of(panes: Sequence[EmittedPane]) -> str:
    """List the panes: when each was emitted, and its value."""
    return "\n".join(f"{clock(pane.at_us + ORIGIN_US):>10}  {words(pane)}" for pane in panes)
