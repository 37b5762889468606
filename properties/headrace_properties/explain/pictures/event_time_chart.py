"""Event time across, processing time up, panes as boxes with their values: a run as the Dataflow paper draws it (2.4).

Drawn with matplotlib, which comes with the extra ``flights``. Rules of this file: no state outside the picture (no pyplot); the
same content makes the same SVG, byte for byte; an HTML page contains the drawing, and each pane describes itself when pointed at.
"""

import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import HeadraceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

ENDINGS = (".svg", ".png", ".html")
"""Supported file endings."""

_INK, _GRID, _WATERMARK, _IDEAL = "#222222", "#dddddd", "#555555", "#999999"
_PANE, _EDGE, _RETRACTION, _POINT = "#8fb8de", "#2b5c8a", "#b3261e", "#ffffff"
_BELOW_EDGES, _EDGES, _POINTS, _VALUES, _ON_TOP = 2.0, 2.5, 5, 6, 7
"""What is drawn over what."""
_SIZES = (5, 12, 12, 17)
"""An element's circle by the length of its label."""


class ChartError(HeadraceError):
    """A picture cannot be drawn. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say why not."""
        return f"cannot draw {self.path}: {self.problem}"


@dataclass(frozen=True, slots=True)
class PlottedElement:
    """An element: its event time, and the processing time of its arrival, microseconds.

    ``label``: its value, if that has at most three characters.
    """

    event_us: int
    at_us: int
    label: str


@dataclass(frozen=True, slots=True)
class DrawnResult:
    """A result: a pane, or an output at one event time.

    Attributes:
        start_us: where its window begins, event time in microseconds.
        end_us: and ends; where it begins, if there is no window.
        begin_us: when its first element arrived, processing time in microseconds.
        at_us: when it was emitted.
        value: to be written at its top.
        words: a description in one line.
        retraction: whether it takes an earlier pane back.
    """

    start_us: int
    end_us: int
    begin_us: int
    at_us: int
    value: str
    words: str
    retraction: bool = False


@dataclass(frozen=True, slots=True)
class EventTimeChart:
    """What is drawn.

    Attributes:
        title: the caption.
        arrivals: all elements.
        results: in order of emission.
        watermarks: lines of (event time, processing time), microseconds.
        across: the drawn range of event time, microseconds.
        up: the drawn range of processing time.
        clock: writes a processing time for people.
        event_tick: writes an event time at a tick.
        tick: writes a processing time at a tick.
        ideal: whether both times are of one clock, so that there is an ideal watermark: the diagonal.
        ticks_us: distance of the ticks of both axes, microseconds; 0: chosen to fit.
    """

    title: str
    arrivals: Sequence[PlottedElement]
    results: Sequence[DrawnResult]
    watermarks: Sequence[Sequence[tuple[int, int]]]
    across: tuple[int, int]
    up: tuple[int, int]
    clock: Callable[[int], str]
    event_tick: Callable[[int], str]
    tick: Callable[[int], str]
    ideal: bool = True
    ticks_us: int = 0

    def save(self, path: Path) -> None:
        """Draw into a file.

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
        ChartError: it is not.
    """
    if path.suffix not in ENDINGS:
        raise ChartError(str(path), f"its name must end with one of {', '.join(ENDINGS)}")


def _rendered(chart: EventTimeChart, kind: str) -> bytes:
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415  as above
    except ImportError as error:
        raise ChartError(chart.title, "there is no package 'matplotlib' to draw it with") from error
    with mpl.rc_context({
        "font.size": 9, "svg.hashsalt": "headrace", "axes.edgecolor": _GRID, "axes.labelcolor": _INK,
        "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK, "text.parse_math": False,
    }):  # fmt: skip
        canvas = Canvas(figsize=(7.2, 5.4), layout="constrained")
        _fill(canvas, chart)
        target = io.BytesIO()
        canvas.savefig(target, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else {})
        return target.getvalue()


def _fill(canvas: "Canvas", chart: EventTimeChart) -> None:
    axes = canvas.add_subplot()
    _axes(axes, chart)
    for number, result in enumerate(chart.results):
        if not result.retraction:
            _box(axes, chart, number)
    for result in chart.results:
        _value(axes, chart, result)
    _watermarks(axes, chart)
    for arrival in chart.arrivals:
        at = arrival.event_us, arrival.at_us
        axes.plot(*at, "o", ms=_SIZES[len(arrival.label)], mfc=_POINT, mec=_INK, mew=0.9, zorder=_POINTS)
        axes.text(*at, arrival.label, ha="center", va="center", fontsize=8, zorder=_ON_TOP)
    axes.set_title(chart.title, loc="left", fontweight="bold")
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def _axes(axes: "Axes", chart: EventTimeChart) -> None:
    axes.set_xlim(*chart.across)
    axes.set_ylim(*chart.up)
    for axis, (first, last), write in (
        (axes.xaxis, chart.across, chart.event_tick), (axes.yaxis, chart.up, chart.tick),
    ):  # fmt: skip
        if chart.ticks_us:
            axis.set_ticks(range(first, last + 1, chart.ticks_us))
        axis.set_major_formatter(_at_ticks(write))
    axes.set_xlabel("Event time")
    axes.set_ylabel("Processing time")
    axes.grid(color=_GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=8)  # so that the two labels at the origin keep apart


def _at_ticks(write: Callable[[int], str]) -> Callable[[float, object], str]:
    return lambda at_us, _position: write(round(at_us))


def _box(axes: "Axes", chart: EventTimeChart, number: int) -> None:
    """Draw the ranges of event and processing time that a pane covers; its top is when it was emitted."""
    result = chart.results[number]
    left, right = _drawn_across(chart, result)
    axes.fill_between(
        [left, right], result.begin_us, result.at_us,
        facecolor=_PANE, edgecolor=_EDGE, alpha=0.28, lw=0.8, gid=f"pane-{number}",
    )  # fmt: skip
    axes.plot(
        [left, right], [result.at_us, result.at_us], color=_EDGE, lw=1.8, solid_capstyle="butt", zorder=_EDGES
    )


def _value(axes: "Axes", chart: EventTimeChart, result: DrawnResult) -> None:
    """Write a value at its pane's top, and a retraction of that instant in red below, in its own window."""
    unit = (chart.up[1] - chart.up[0]) / 4.75
    text = f"\N{MINUS SIGN}{result.value}" if result.retraction else result.value
    below = 0.16 * unit if result.retraction else 0.0
    axes.text(
        _middle(chart, result), result.at_us + 0.02 * unit - below, text, ha="center", va="bottom",
        color=_RETRACTION if result.retraction else _INK, fontsize=8 if result.retraction else 11, fontweight="bold",
        zorder=_VALUES, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
    )  # fmt: skip


def _middle(chart: EventTimeChart, result: DrawnResult) -> float:
    """Return where to write a pane's value: in the middle, or beside an element that is there."""
    left, right = _drawn_across(chart, result)
    places = [left + part * (right - left) for part in (0.5, 0.3, 0.7, 0.15, 0.85)]
    return next((place for place in places if not _is_taken(chart, place, result.at_us)), places[0])


def _is_taken(chart: EventTimeChart, across: float, up: float) -> bool:
    wide, high = (chart.across[1] - chart.across[0]) / 32, (chart.up[1] - chart.up[0]) / 4.75
    return any(
        abs(arrival.event_us - across) < wide and -0.1 * high < arrival.at_us - up < 0.3 * high
        for arrival in chart.arrivals
    )


def _drawn_across(chart: EventTimeChart, result: DrawnResult) -> tuple[int, int]:
    """Return from where to where a result is drawn: its window, as far as it is in the picture, or a short line."""
    first, last = chart.across
    if result.start_us == result.end_us:
        half = (last - first) // 80
        return result.start_us - half, result.start_us + half
    return max(result.start_us, first), min(result.end_us, last)


def _watermarks(axes: "Axes", chart: EventTimeChart) -> None:
    """Draw the ideal watermark and the one that triggers saw, under the panes' edges: they fire where it passes."""
    for number, line in enumerate(chart.watermarks):
        label = "watermark" if number == 0 else None
        axes.plot(
            *zip(*line, strict=True),
            color=_WATERMARK,
            lw=1.6,
            ls=(0, (4, 2)),
            label=label,
            zorder=_BELOW_EDGES,
        )
    if chart.ideal:
        first, last = chart.up[0], min(chart.up[1], chart.across[1])
        axes.plot(
            [first, last],
            [first, last],
            color=_IDEAL,
            lw=1.2,
            ls=":",
            label="ideal watermark",
            zorder=_BELOW_EDGES,
        )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; padding: 0 12px; max-width: 60em;
  color: #222; background: #fff; }}
svg {{ width: 100%; height: auto; }}
g[id^="pane-"]:hover path {{ fill-opacity: .6; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .15em .8em .15em 0; text-align: left; }}
.back {{ color: #b3261e; }}
</style></head><body><main>
<h1>{title}</h1>
{svg}
<table><tr><th>emitted at</th><th>pane</th></tr>
{rows}
</table>
</main></body></html>
"""


def _page(chart: EventTimeChart) -> str:
    svg = _rendered(chart, "svg").decode()
    svg = svg[svg.index("<svg") :]
    for number, result in enumerate(chart.results):
        title = html.escape(f"{result.words}, emitted at {chart.clock(result.at_us)}")
        svg = svg.replace(f'<g id="pane-{number}">', f'<g id="pane-{number}"><title>{title}</title>')
    rows = "\n".join(_row(chart, result) for result in chart.results)
    return _PAGE.format(title=html.escape(chart.title), svg=svg, rows=rows)


def _row(chart: EventTimeChart, result: DrawnResult) -> str:
    back = ' class="back"' if result.retraction else ""
    return f"<tr{back}><td>{chart.clock(result.at_us)}</td><td>{html.escape(result.words)}</td></tr>"
