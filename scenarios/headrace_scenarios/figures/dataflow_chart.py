"""A run drawn as the Dataflow paper draws it (2.4): event time across, processing time up, panes as boxes with their values.

Drawn with matplotlib, which comes with the extra ``flights``. Rules of this file: no state outside the figure (no pyplot); the
same panes make the same SVG, byte for byte; an HTML page contains the drawing, and each pane describes itself when pointed at.
"""

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import MINUTE, HeadraceError
from headrace.dataflow import GLOBAL, Accumulation, Batch, Engine, MicroBatch, Streaming
from headrace_properties.dataflow.model import EmittedPane
from headrace_scenarios.figures.dataflow import END_US, ORIGIN_US, DataflowFigure, clock, points, watermark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

ENDINGS = (".svg", ".png", ".html")
"""Supported file endings."""

EVENT_MINUTES, PROC_MINUTES = (0.0, 8.0), (5.0, 9.75)
"""The drawn range, minutes after 12:00."""

_INK, _GRID, _WATERMARK, _IDEAL = "#222222", "#dddddd", "#555555", "#999999"
_PANE, _EDGE, _RETRACTION, _POINT = "#8fb8de", "#2b5c8a", "#b3261e", "#ffffff"


class ChartError(HeadraceError):
    """A picture cannot be drawn. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say why not."""
        return f"cannot draw {self.path}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure of the paper, and the panes of a run of its pipeline.

    Attributes:
        figure: which.
        panes: as they came, in wall time from 12:05 on.
    """

    figure: DataflowFigure
    panes: tuple[EmittedPane, ...]

    @property
    def title(self) -> str:
        """The figure's caption."""
        return f"Figure {self.figure.number}: {self.figure.title}"

    def save(self, path: Path) -> None:
        """Draw the figure into a file.

        Args:
            path: its ending tells the kind of picture: ``.svg``, ``.png`` or ``.html``.

        Raises:
            ChartError: there is no such kind, or no matplotlib.
            OSError: the file cannot be written.
        """
        check_chart(path)
        if path.suffix == ".html":
            path.write_text(_page(self), encoding="utf-8")
        else:
            path.write_bytes(_rendered(self, path.suffix[1:]))


def check_chart(path: Path) -> None:
    """Check before a run that a file's format is supported.

    Raises:
        ChartError: there is not.
    """
    if path.suffix not in ENDINGS:
        raise ChartError(str(path), f"its name must end with one of {', '.join(ENDINGS)}")


def words(pane: EmittedPane) -> str:
    """Describe a pane in one line."""
    sign = "-" if pane.retraction else ""
    start_us, end_us = pane.window.start, pane.window.end
    where = "all of event time" if pane.window == GLOBAL else f"[{clock(start_us)}, {clock(end_us)})"
    timing = pane.timing.value.replace("_", " ")
    return f"{sign}{pane.value} of {where}, {timing}, index {pane.index}"


def _rendered(drawing: Drawing, kind: str) -> bytes:
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415  as above
    except ImportError as error:
        raise ChartError(drawing.title, "there is no package 'matplotlib' to draw it with") from error
    with mpl.rc_context({
        "font.size": 9, "svg.hashsalt": "headrace", "axes.edgecolor": _GRID, "axes.labelcolor": _INK,
        "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK,
    }):  # fmt: skip
        canvas = Canvas(figsize=(7.2, 5.4), layout="constrained")
        _fill(canvas, drawing)
        target = io.BytesIO()
        canvas.savefig(target, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else {})
        return target.getvalue()


def _fill(canvas: "Canvas", drawing: Drawing) -> None:
    axes = canvas.add_subplot()
    _axes(axes)
    for number, pane in enumerate(drawing.panes):
        if not pane.retraction:
            _box(axes, drawing, number)
    _values(axes, drawing.panes)
    _watermarks(axes, drawing)
    _points(axes)
    axes.set_title(drawing.title, loc="left", fontweight="bold")
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def _axes(axes: "Axes") -> None:
    axes.set_xlim(*EVENT_MINUTES)
    axes.set_ylim(*PROC_MINUTES)
    axes.set_xticks(range(9), [f"12:0{minute}" for minute in range(9)])
    axes.set_yticks(range(5, 10), [f"12:0{minute}" for minute in range(5, 10)])
    axes.set_xlabel("Event time")
    axes.set_ylabel("Processing time")
    axes.grid(color=_GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


def _box(axes: "Axes", drawing: Drawing, number: int) -> None:
    """Return the ranges of event and processing time that a pane covers; its top is when it was emitted."""
    pane = drawing.panes[number]
    left, right = _across(pane)
    bottom, top = _begin_us(drawing, number) / MINUTE, _up(pane)
    axes.fill_between(
        [left, right], bottom, top, facecolor=_PANE, edgecolor=_EDGE, alpha=0.28, lw=0.8, gid=f"pane-{number}"
    )
    axes.plot([left, right], [top, top], color=_EDGE, lw=1.8, solid_capstyle="butt")


def _begin_us(drawing: Drawing, number: int) -> int:
    """Return when a pane's first element could arrive: after the window's last pane if that was discarded."""
    pane = drawing.panes[number]
    earlier = [other.at_us for other in drawing.panes[:number] if other.window == pane.window]
    discarding = drawing.figure.query.accumulation is Accumulation.DISCARDING
    return ORIGIN_US + (max(earlier) if discarding and earlier else 0)


def _values(axes: "Axes", panes: Sequence[EmittedPane]) -> None:
    """Write each value at its pane's top, and retractions of that instant in red below, in their own window."""
    for pane in panes:
        middle = _middle(pane)
        text = f"\N{MINUS SIGN}{pane.value}" if pane.retraction else f"{pane.value}"
        below = 0.16 if pane.retraction else 0.0
        axes.text(
            middle, _up(pane) + 0.02 - below, text, ha="center", va="bottom",
            color=_RETRACTION if pane.retraction else _INK, fontsize=8 if pane.retraction else 11, fontweight="bold",
            zorder=6, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
        )  # fmt: skip


def _middle(pane: EmittedPane) -> float:
    """Return where to write a pane's value: in the middle, or beside a point that is there."""
    left, right = _across(pane)
    places = [left + part * (right - left) for part in (0.5, 0.3, 0.7, 0.15, 0.85)]
    return next((place for place in places if not _is_taken(place, _up(pane))), places[0])


def _is_taken(across: float, up: float) -> bool:
    return any(
        abs(point.event_us / MINUTE - across) < 0.25 and -0.1 < point.proc_us / MINUTE - up < 0.3
        for point in points()
    )


def _watermarks(axes: "Axes", drawing: Drawing) -> None:
    """Draw the ideal watermark and the one that triggers saw."""
    for number, line in enumerate(_seen_by(drawing.figure.engine)):
        label = "watermark" if number == 0 else None
        axes.plot(*zip(*line, strict=True), color=_WATERMARK, lw=1.6, ls=(0, (4, 2)), label=label, zorder=4)
    axes.plot([5, 8], [5, 8], color=_IDEAL, lw=1.2, ls=":", label="ideal watermark", zorder=3)


def _seen_by(engine: Engine) -> list[list[tuple[float, float]]]:
    """Return lines of (event time, wall time); a batch's watermark jumps from the start to the end of time once all is read."""
    match engine:
        case Streaming():
            return [[(event_us / MINUTE, at_us / MINUTE) for at_us, event_us in watermark()]]
        case Batch():
            return [_level((END_US + ORIGIN_US) / MINUTE)]
        case MicroBatch(period_us):
            ends = range(ORIGIN_US + period_us, END_US + ORIGIN_US, period_us)
            return [_level(end_us / MINUTE) for end_us in ends]


def _level(at: float) -> list[tuple[float, float]]:
    return [(edge, at) for edge in EVENT_MINUTES]


def _points(axes: "Axes") -> None:
    for point in points():
        at = point.event_us / MINUTE, point.proc_us / MINUTE
        axes.plot(*at, "o", ms=12, mfc=_POINT, mec=_INK, mew=0.9, zorder=5)
        axes.text(*at, str(point.value), ha="center", va="center", fontsize=8, zorder=7)


def _across(pane: EmittedPane) -> tuple[float, float]:
    if pane.window == GLOBAL:
        return EVENT_MINUTES
    first, last = EVENT_MINUTES
    return max(pane.window.start / MINUTE, first), min(pane.window.end / MINUTE, last)


def _up(pane: EmittedPane) -> float:
    return (pane.at_us + ORIGIN_US) / MINUTE


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 60em; color: #222; background: #fff; }}
svg {{ width: 100%; height: auto; }}
g[id^="pane-"]:hover path {{ fill-opacity: .6; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .15em .8em .15em 0; text-align: left; }}
.back {{ color: #b3261e; }}
</style></head><body>
<h1>{title}</h1>
{svg}
<table><tr><th>emitted at</th><th>pane</th></tr>
{rows}
</table>
</body></html>
"""


def _page(drawing: Drawing) -> str:
    svg = _rendered(drawing, "svg").decode()
    svg = svg[svg.index("<svg") :]
    for number, pane in enumerate(drawing.panes):
        title = html.escape(f"{words(pane)}, emitted at {clock(pane.at_us + ORIGIN_US)}")
        svg = svg.replace(f'<g id="pane-{number}">', f'<g id="pane-{number}"><title>{title}</title>')
    return _PAGE.format(title=html.escape(drawing.title), svg=svg, rows="\n".join(map(_row, drawing.panes)))


def _row(pane: EmittedPane) -> str:
    back = ' class="back"' if pane.retraction else ""
    return f"<tr{back}><td>{clock(pane.at_us + ORIGIN_US)}</td><td>{html.escape(words(pane))}</td></tr>"


def text_of(panes: Sequence[EmittedPane]) -> str:
    """List the panes: when each was emitted, and its value."""
    return "\n".join(f"{clock(pane.at_us + ORIGIN_US):>10}  {words(pane)}" for pane in panes)
