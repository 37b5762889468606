"""Figures 6 to 14 of the Dataflow paper (2.4): ten points, a watermark, and one pipeline written in nine ways.

The points, the watermark and every pane are data, taken from the paper's own drawings. Rules of this file:

* Each pipeline is written as the paper writes it, and answers the four questions in the same order.
* Wall time 0 of a run is 12:05, where the figures begin; event time 0 is 12:00. So minutes begin where the figures' do.
* Choice: a point reaches the source `LEAD_US` before its drawn time, at which the pipeline is to observe it, because 12:09:00 is
  exactly on a boundary. That is far less than a figure shows.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import MAX_TIME, MILLISECOND, MINUTE, SECOND, Pipeline
from headrace.dataflow import (
    GLOBAL,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    Element,
    Engine,
    FixedWindows,
    Flow,
    GroupByKeyAndWindow,
    MicroBatch,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    Streaming,
    Window,
    read,
)
from headrace_scenarios.figures.groupings import EmittedPane, InputStep, Query

ORIGIN_US = 5 * MINUTE
"""Wall time 0 of a run, after 12:00."""

END_US = 9 * MINUTE + 21 * SECOND - ORIGIN_US
"""When all input has been read, 12:09:21: the watermark goes to the end of time."""

LEAD_US = 300 * MILLISECOND

KEY = "team"
"""The key of all points: "all these data are for the same key"."""

SCORES = "scores"
"""The input stream."""


@dataclass(frozen=True, slots=True)
class Datum:
    """A datum of Figure 5. Times in microseconds after 12:00."""

    value: int
    event_us: int
    proc_us: int


@dataclass(frozen=True, slots=True)
class DrawnPane:
    """A pane as the paper draws it. ``emit_us``: the top of its rectangle, microseconds after 12:00."""

    value: int
    window: Window
    retraction: bool
    emit_us: int


@dataclass(frozen=True, slots=True)
class DataflowFigure:
    """A figure.

    Attributes:
        number: in the paper.
        title: its caption.
        panes: what it shows, from below to above.
        flow: its pipeline, as the paper writes it.
        engine: what it is executed on.
        note: where the drawing departs from the text.
    """

    number: int
    title: str
    panes: tuple[DrawnPane, ...]
    flow: Flow
    engine: Engine
    note: str = ""

    @property
    def pipeline(self) -> Pipeline:
        """Build the figure's pipeline."""
        return self.flow.pipeline(f"figure {self.number}", engine=self.engine)

    @property
    def query(self) -> Query:
        """Return the pipeline as the reference model takes it: what, where, when and how."""
        (spec,) = self.pipeline.computations.values()
        assert isinstance(spec.computation, GroupByKeyAndWindow)
        one = spec.computation.grouping
        windows = one.windows or one.merging
        return Query(windows, one.trigger, one.accumulation, one.combine, one.allowed_lateness_us, one.engine)


def figures() -> dict[int, DataflowFigure]:
    """Return the nine figures, by number."""
    drawn = _data()["figures"]
    return {number: _figure(number, drawn[str(number)], *how) for number, how in _pipelines().items()}


@functools.cache
def points() -> tuple[Datum, ...]:
    """Return Figure 5's points in order of arrival."""
    return tuple(
        Datum(point["value"], _ninths(point["event_ninths"]), _ninths(point["proc_ninths"]))
        for point in _data()["points"]
    )


@functools.cache
def watermark() -> tuple[tuple[int, int], ...]:
    """Return the actual watermark of Figures 5 and 12 to 14: (wall time, event time), microseconds after 12:00."""
    return tuple((_seconds(at), _seconds(event)) for at, event in _data()["watermark"])


def steps() -> list[InputStep]:
    """Return the input of each figure, in wall time from 12:05 on."""
    steps = [
        InputStep(point.proc_us - ORIGIN_US, Element(KEY, point.value, point.event_us)) for point in points()
    ]
    steps += [InputStep(at_us - ORIGIN_US, watermark=event_us) for at_us, event_us in watermark()]
    steps.append(InputStep(END_US, watermark=MAX_TIME))
    return sorted(steps, key=lambda step: step.at_us)


def differences(figure: DataflowFigure, panes: Sequence[EmittedPane]) -> list[str]:
    """Return how panes differ from a figure's in order, value, window, retraction and time; nothing if they agree.

    Args:
        figure: as it is drawn.
        panes: with times from 12:05 on.
    """
    problems = []
    for number, (one, pane) in enumerate(zip(figure.panes, panes, strict=False)):
        if (one.value, one.window, one.retraction) != (pane.value, pane.window, pane.retraction):
            problems.append(f"pane {number} is drawn as {one}, and came as {pane}")
        elif not _is_in_time(figure, one, pane):
            drawn, came = (clock(at_us) for at_us in (one.emit_us, pane.at_us + ORIGIN_US))
            problems.append(f"pane {number}, {one.value}, is drawn at {drawn}, and came at {came}")
    if len(panes) != len(figure.panes):
        problems.append(f"{len(figure.panes)} panes are drawn, and {len(panes)} came")
    return problems


def clock(at_us: int) -> str:
    """Format a time after 12:00.

    >>> clock(361_500_000)
    '12:06:01.5'
    """
    tenths = round(at_us / 100_000)
    return f"12:{tenths // 600:02}:{tenths // 10 % 60:02}.{tenths % 10}"


RESOLUTION_US = 1_600 * MILLISECOND
"""The drawn times and those computed from the drawn watermark differ by up to 1.52 s (the on-time 22 of Figure 12)."""

_STACKED_US = 8 * SECOND
"""Panes of one batch are emitted at one instant. The figures draw them below one another, 2 s apart."""


def _is_in_time(figure: DataflowFigure, drawn: DrawnPane, pane: EmittedPane) -> bool:
    off_us = pane.at_us + ORIGIN_US - drawn.emit_us
    match figure.engine:
        case Streaming():
            return abs(off_us) <= RESOLUTION_US or (bool(figure.note) and _was_due_before(drawn, pane))
        case Batch():
            return abs(off_us) <= _STACKED_US
        case MicroBatch():
            return -_STACKED_US <= off_us <= RESOLUTION_US


def _was_due_before(drawn: DrawnPane, pane: EmittedPane) -> bool:
    """Return the literal trigger: it fires when the watermark passes, not at the boundary where the figure draws it."""
    passed_us = next((at_us for at_us, event_us in watermark() if event_us >= drawn.window.end), MAX_TIME)
    return passed_us < drawn.emit_us and abs(pane.at_us + ORIGIN_US - passed_us) <= RESOLUTION_US


def _pipelines() -> dict[int, tuple[Flow, Engine]]:
    scores = read(SCORES, bounded=True).allowed_lateness(None)
    by_the_minute = scores.trigger(Repeat(AtPeriod(MINUTE)))
    fixed = scores.window_into(FixedWindows(2 * MINUTE)).trigger(Repeat(AtWatermark())).accumulating()
    partial = SequenceOf(RepeatUntil(AtPeriod(MINUTE), AtWatermark()), Repeat(AtWatermark()))
    return {
        6: (scores.sum().to("sums"), Batch()),
        7: (by_the_minute.accumulating().sum().to("sums"), Streaming()),
        8: (by_the_minute.discarding().sum().to("sums"), Streaming()),
        9: (scores.trigger(Repeat(AtCount(2))).discarding().sum().to("sums"), Streaming()),
        10: (fixed.sum().to("sums"), Batch()),
        11: (fixed.sum().to("sums"), MicroBatch(MINUTE)),
        12: (fixed.sum().to("sums"), Streaming()),
        13: (fixed.trigger(partial).sum().to("sums"), Streaming()),
        14: (
            scores.window_into(Sessions(MINUTE))
            .trigger(partial)
            .accumulating_and_retracting()
            .sum()
            .to("sums"),
            Streaming(),
        ),
    }


def _figure(number: int, drawn: dict[str, Any], flow: Flow, engine: Engine) -> DataflowFigure:
    panes = tuple(
        DrawnPane(pane["value"], _window(pane["window_ninths"]), pane["retraction"], _seconds(pane["emit_s"]))
        for pane in drawn["panes"]
    )
    return DataflowFigure(number, drawn["title"], panes, flow, engine, drawn.get("note", ""))


def _window(ninths: Sequence[int] | None) -> Window:
    return GLOBAL if ninths is None else Window(_ninths(ninths[0]), _ninths(ninths[1]))


def _ninths(count: int) -> int:
    return round(count * MINUTE / 9)


def _seconds(seconds: float) -> int:
    return round(seconds * SECOND)


@functools.cache
def _data() -> Any:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
