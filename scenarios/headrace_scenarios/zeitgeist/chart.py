"""A chart of expected and actual departures, with dips marked (MillWheel 2: traffic well below the prediction).

Drawn with matplotlib, which writes SVG and PNG by itself; it comes with the extra ``flights``. Rules of this file: no state
outside of the figure (no pyplot); the same findings make the same SVG, byte for byte.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import HOUR
from headrace_scenarios.zeitgeist.flight_findings import BLIZZARD, Dip, Findings
from headrace_scenarios.zeitgeist.flight_log import NoFlightsError, local, midnight_us

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AROUND = (BLIZZARD[0] - timedelta(days=2), BLIZZARD[1] + timedelta(days=2))
"""The days drawn: the blizzard, and usual days before and after."""

AIRLINES = 8
"""Number of airlines with a panel of their own, the largest; the others have too few departures."""

_INK, _GRID = "#222222", "#dddddd"
_EXPECTED, _ACTUAL, _DIP = "#1f2937", "#8fb8de", "#d1495b"


def draw(findings: Findings, path: Path, names: dict[str, str], days: tuple[date, date] = AROUND) -> None:
    """Draw departures by hour, for all airlines and for each of the largest, with dips marked.

    Args:
        findings: a run's findings.
        path: output file; its ending is the format: ``.svg`` or ``.png``.
        names: airline names by code.
        days: start date and end date (exclusive).

    Raises:
        NoFlightsError: matplotlib is not installed.
        OSError: the file cannot be written.
        ValueError: matplotlib does not support this format.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415  as above
    except ImportError as error:
        raise NoFlightsError("there is no package 'matplotlib' to draw them with") from error
    with mpl.rc_context({
        "font.size": 9, "svg.hashsalt": "headrace", "axes.edgecolor": _GRID, "axes.labelcolor": _INK,
        "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK,
    }):  # fmt: skip
        figure = Figure(figsize=(11, 8.5), layout="constrained")
        _fill(figure, findings, names, days)
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=130, metadata=metadata)


def _fill(figure: "Figure", findings: Findings, names: dict[str, str], days: tuple[date, date]) -> None:
    airlines = findings.airlines[:AIRLINES]
    rows = (len(airlines) + 1) // 2
    grid = figure.add_gridspec(rows + 2, 2)
    whole = figure.add_subplot(grid[:2, :])
    starts = range(midnight_us(days[0]), midnight_us(days[1]), HOUR)
    totals = [findings.total(start) for start in starts]
    dips = findings.dips_in(days)
    spans = [(dip.start_us, dip.end_us) for dip in dips]
    _panel(whole, starts, [total[0] for total in totals], [total[1] for total in totals], spans)
    _days(whole, days, weekdays=True)
    title = f"Departures from New York, by hour of the schedule: {_counted(dips)}"
    whole.set_title(title, loc="left", fontweight="bold")
    whole.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, borderaxespad=0.1)
    for number, key in enumerate(airlines):
        axes = figure.add_subplot(grid[2 + number // 2, number % 2])
        compared = findings.comparisons[key]
        buckets = [compared.get(start) for start in starts]
        expected = [(bucket.expected or 0.0) if bucket is not None else 0.0 for bucket in buckets]
        actual = [bucket.count if bucket is not None else 0 for bucket in buckets]
        _panel(axes, starts, expected, actual, _spans(dips, key))
        _days(axes, days, weekdays=False)
        axes.set_title(f"{key}  {names.get(key, '')}", loc="left", fontsize=9)


def _spans(dips: Sequence[Dip], key: str) -> list[tuple[int, int]]:
    return [(dip.start_us, dip.end_us) for dip in dips if dip.key == key]


def _panel(
    axes: "Axes",
    starts: Sequence[int],
    expected: Sequence[float],
    actual: Sequence[int],
    dips: Sequence[tuple[int, int]],
) -> None:
    """Draw actual departures as bars, expected ones as a line, and reported dips behind them."""
    edges = [start / HOUR for start in (*starts, starts[-1] + HOUR)]
    for index, (start_us, end_us) in enumerate(_joined(dips)):
        label = "dip" if index == 0 else None
        axes.axvspan(start_us / HOUR, end_us / HOUR, color=_DIP, alpha=0.2, lw=0, label=label)
    axes.stairs(actual, edges, fill=True, color=_ACTUAL, lw=0, label="departed in time")
    axes.stairs(expected, edges, color=_EXPECTED, lw=1.1, label="expected")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True, nbins=4)
    axes.grid(axis="y", color=_GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping stretches, which would otherwise be shaded twice."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _counted(dips: Sequence[Dip]) -> str:
    airlines = len({dip.key for dip in dips})
    return f"{len(dips)} {'dip' if len(dips) == 1 else 'dips'} of {airlines} {'airline' if airlines == 1 else 'airlines'}"


def _days(axes: "Axes", days: tuple[date, date], *, weekdays: bool) -> None:
    """Draw a line at each midnight in New York, and the day's name at noon."""
    midnights = [
        midnight_us(days[0] + timedelta(days=number)) for number in range((days[1] - days[0]).days + 1)
    ]
    for midnight in midnights[1:-1]:
        axes.axvline(midnight / HOUR, color=_GRID, lw=0.8, zorder=0)
    noons = [midnight / HOUR + 12 for midnight in midnights[:-1]]
    names = [f"{local(midnight):%a} " if weekdays else "" for midnight in midnights[:-1]]
    dates = [f"{local(midnight).day} {local(midnight):%b}" for midnight in midnights[:-1]]
    axes.set_xticks(noons, [name + day for name, day in zip(names, dates, strict=True)])
