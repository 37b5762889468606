"""The report's pictures as reproducible SVG, drawn with matplotlib from the extra ``flights``."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby
from math import ceil, floor, log10
from textwrap import fill
from typing import TYPE_CHECKING

from headrace import HeadraceError
from headrace_benchmarks.section8 import (
    figure_16,
    hot_key,
    nexmark,
    on_spark,
    recoveries,
    section_6_1_3,
    skew,
    strong_weak,
)
from headrace_benchmarks.section8.experiment import Row
from headrace_benchmarks.section8.experiments import bin_ms
from headrace_benchmarks.section8.paper import BUSIEST, CHANCE, CLAIMS
from headrace_benchmarks.section8.reporting import ExperimentResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_BLUE, _ORANGE, _GREEN, _RED = "#0b62a4", "#c25a00", "#1c7c3c", "#b3261e"
"""Distinguishable with any colour vision, and dark enough for text."""
_PALE = {_BLUE: "#9cc9ee", _ORANGE: "#f6c08f"}
_COLOURS = (_BLUE, _ORANGE, _GREEN, _RED, "#7b3fa0")
_MARKERS = "osD^v"
_DASHES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (6, 2, 1.5, 2)), (0, (1, 2)))
"""A curve is dashed, and its markers are smaller than those of the curves before it: what lies under it shows."""
_MOST_APART = 50
"""Choice: bars that differ by a larger factor are on a logarithmic scale, or the smaller ones could not be seen."""
_STYLE = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "svg.hashsalt": "headrace",
}


class NoPlotsError(HeadraceError):
    """The package matplotlib is not installed."""

    def __str__(self) -> str:
        """Say what to install."""
        return "drawing the report's figures needs the package 'matplotlib'. Install headrace[flights]"


def draw(measured: ExperimentResult) -> bytes:
    """Draw an experiment's picture.

    Raises:
        NoPlotsError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415  as above
    except ImportError as error:
        raise NoPlotsError from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, _HEIGHTS.get(measured.name, 4.4)), layout="constrained")
        _PLOTS[measured.name](figure, measured)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _figure_13(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw a histogram and a CDF over all seeds, with the paper's percentiles as crosses.

    Exactly-once delivery changes little, so the curves with it are thin, and lie on wide, pale curves without it.
    """
    histogram, cdf = figure.subplots(1, 2)
    for axes, title in ((histogram, "Fraction of records"), (cdf, "Cumulative fraction of records")):
        axes.set(xscale="log", xlabel="latency, simulated ms", title=title, xlim=(0.3, 1_000))
        axes.xaxis.set_major_formatter("{x:g}")
    for point in sorted(dict.fromkeys(sample.point for sample in measured.samples), key=_is_on):
        counts: Counter[int] = Counter()
        for sample in measured.samples:
            if sample.point == point:
                counts.update(sample.counts)
        bins = range(min(counts), max(counts) + 1)
        edges = [bin_ms(bin_) for bin_ in (*bins, bins[-1] + 1)]
        parts = [counts[bin_] / counts.total() for bin_ in bins]
        colour = _BLUE if point.startswith("weak") else _ORANGE
        colour, width = (colour, 1.4) if _is_on(point) else (_PALE[colour], 6)
        histogram.stairs(parts, edges, label=point, color=colour, linewidth=width)
        cdf.plot(edges, [0.0, *accumulate(parts)], label=point, color=colour, linewidth=width)
        for figure_name, part in (("median", 0.5), ("95 %", 0.95)):
            claim = CLAIMS.get((measured.name, point, figure_name))
            if claim is not None and claim.value is not None:
                cdf.plot([claim.value], [part], "kx", markersize=10, markeredgewidth=2, zorder=5)
    cdf.plot([], [], "kx", markersize=10, markeredgewidth=2, label="paper")
    figure.legend(*cdf.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _is_on(point: str) -> bool:
    return point.endswith("on")


def _figure_14(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw each figure over the size of the cluster."""
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="CPUs", ylabel="latency, simulated ms")
    for number, (name, rows) in enumerate(_curves(axes, measured.rows, _figure).items()):
        sizes = [*map(_number, rows)]
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
        axes.annotate(
            name,
            (sizes[-1], rows[-1].value.mean),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=_COLOURS[number],
            annotation_clip=False,
        )  # fmt: skip  behind its curve
    axes.minorticks_off()
    axes.set_yticks([3, 10, 30, 100], ["3", "10", "30", "100"])


def _figure_15(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw the mean lag of each stage beside the paper's."""
    axes = figure.subplots()
    rows = [row for row in measured.rows if row.figure == "mean"]
    axes.set(ylabel="lag of the low watermark, simulated ms", xlim=(0.5, len(rows) + 0.5))
    _with_intervals(axes, [float(number) for number in range(1, len(rows) + 1)], rows, "model", 0)
    claimed = [CLAIMS[measured.name, row.point, "mean"].value or 0.0 for row in rows]
    axes.plot(range(1, len(rows) + 1), claimed, "kx", markersize=10, markeredgewidth=2, label="paper")
    axes.set_xticks(range(1, len(rows) + 1), [row.point for row in rows])
    axes.legend()


def _figure_16(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw CPU time over the size of the cache, one line per policy and load."""
    axes = figure.subplots()
    axes.set(
        xlabel="cache, fraction of the working set",
        title="CPU of workers and store, % of that without cache",
    )
    axes.set_ylim(0, 105)
    parts = {row: part for row in measured.rows if (part := figure_16.part_of(row.point)) is not None}
    _curves(axes, [*parts], _figure, parts.__getitem__)
    axes.legend()


def _depth(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw the chance to hit a failure beside its closed form, latencies, and retained bytes, each over the depth."""
    chance, latency, retained = figure.subplots(1, 3)
    for axes, label, names in (
        (chance, CHANCE, (CHANCE, section_6_1_3.CLOSED_FORM)),
        (latency, section_6_1_3.TAIL, (section_6_1_3.TAIL,)),
        (retained, "retained by senders, mean kB", (section_6_1_3.RETAINED,)),
    ):
        axes.set(xlabel="stages", ylabel=label)
        for first, name in enumerate(names):
            _side_by_side(axes, [row for row in measured.rows if row.figure == name], first)
        axes.set_ylim(bottom=0)
        axes.set_title(fill(label, 30))
        axes.set_ylabel("")
    chance.legend(loc="upper left")
    figure.legend(*retained.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _side_by_side(axes: "Axes", rows: Sequence[Row], first: int) -> None:
    """Draw a curve for each way, a little apart."""
    ways = [*dict.fromkeys(map(_way, rows))]
    alone = {CHANCE: "model"}.get(rows[0].figure, "1 - 0.99^depth")

    def place(row: Row) -> float:
        return _number(row) + 0.12 * (first + ways.index(_way(row)) - len(ways) // 2)

    _curves(axes, rows, lambda row: _way(row) or alone, place, first)


def _strong_weak(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw latency, re-runs of user code, and differences in the output, for each code and combination."""
    names = (strong_weak.LATENCY, strong_weak.AGAIN, strong_weak.REPEATED, strong_weak.CHANGED)
    points = list(dict.fromkeys(row.point for row in measured.rows))
    places, ticks, place = dict[str, float](), list[tuple[float, str]](), 0.0
    for code, group in groupby(points, lambda point: point.partition(", ")[0]):
        ticks.append((place, code))
        for point in group:
            place += 1
            places[point] = place
            ticks.append((place, point.partition(", ")[2]))
        place += 1.6
    columns = figure.subplots(1, len(names), sharey=True)
    for axes, name in zip(columns, names, strict=True):
        rows = [row for row in measured.rows if row.figure == name]
        means, halves = [row.value.mean for row in rows], [row.value.half or 0.0 for row in rows]
        positive = [mean for mean in means if mean > 0]
        is_wide = max(means) > _MOST_APART * min(positive, default=1.0)
        error = {"ecolor": "#5f5f5f", "elinewidth": 1.2}
        axes.barh([places[row.point] for row in rows], means, 0.72, xerr=halves, color=_BLUE, error_kw=error)
        right = max(mean + half for mean, half in zip(means, halves, strict=True))
        for row, mean, half in zip(rows, means, halves, strict=True):
            axes.annotate(
                _short(mean),
                (mean + half, places[row.point]),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set(title=fill(name, 18), xlim=(0, right * 1.35), ylim=(place - 0.6, -0.8))
        if is_wide:
            decade = 10.0 ** floor(log10(min(positive)))
            axes.set_xscale("symlog", linthresh=decade)
            axes.set(xlim=(0, right * 30), xlabel="logarithmic")
            axes.set_xticks(
                [0, *(10.0**power for power in range(round(log10(decade)), ceil(log10(right)) + 1, 2))]
            )
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
        axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    for label, (_, text) in zip(columns[0].get_yticklabels(), ticks, strict=True):
        label.set_fontweight("bold" if "(" in text else "normal")


def _on_logarithmic_scales(names: Sequence[str], figure: "Figure", measured: ExperimentResult) -> None:
    """Draw figures side by side, with a line for each job, on logarithmic scales, since they differ by factors."""
    points = list(dict.fromkeys(row.point for row in measured.rows))
    for axes, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        rows = [row for row in measured.rows if row.figure == name]
        means = [row.value.mean for row in rows]
        places = [points.index(row.point) for row in rows]
        axes.plot(means, places, "o", color=_BLUE, markersize=9)
        for mean, place in zip(means, places, strict=True):
            axes.annotate(
                f"{mean:,.0f}", (mean, place), xytext=(0, 9), textcoords="offset points", ha="center"
            )
        axes.set(
            title=name, xscale="log", xlim=(min(means) / 2, max(means) * 2), ylim=(len(points) - 0.5, -0.7)
        )
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
        axes.set_yticks(range(len(points)), points)
        axes.tick_params(axis="y", length=0)


def _short(value: float) -> str:
    """Write a figure with at most two digits behind the point."""
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _panels(
    names: Sequence[str], label: Callable[[Row], str], legends: dict[int, str], figure: "Figure", measured: ExperimentResult,
    *, sharey: bool = True, **settings: str,
) -> None:  # fmt: skip
    """Draw figures side by side, each with a curve for each label. ``legends``: where, by number of the figure."""
    panels = figure.subplots(1, len(names), sharey=sharey)
    for number, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.set(title=fill(name, 40), **settings)
        _curves(axes, [row for row in measured.rows if row.figure == name], label)
        if number in legends and axes.lines:
            axes.legend(loc=legends[number])


def _phases(row: Row) -> str:
    return "two phases" if row.point == hot_key.TWO_PHASES else "one phase"


def _authority(figure: "Figure", measured: ExperimentResult) -> None:
    """Draw the CPU time per update over the number of intervals."""
    axes = figure.subplots()
    axes.set(xscale="log", xlabel="key intervals", ylabel="real CPU µs per update")
    figures = [*dict.fromkeys(map(_figure, measured.rows))]
    rows = sorted(measured.rows, key=lambda row: figures.index(row.figure))
    _curves(axes, rows, lambda row: f"{row.figure.rpartition(', ')[2]}, {_way(row)}")
    axes.set_ylim(bottom=0)
    axes.legend()


def _figure(row: Row) -> str:
    return row.figure


def _way(row: Row) -> str:
    return row.point.partition(", ")[2]


def _number(row: Row) -> float:
    """Return the number with which a point begins."""
    return float(row.point.split(maxsplit=1)[0].replace(",", ""))


def _curves(
    axes: "Axes",
    rows: Sequence[Row],
    label: Callable[[Row], str],
    place: Callable[[Row], float] = _number,
    first: int = 0,
) -> dict[str, list[Row]]:
    """Draw a curve for each label, in the order of the rows, and return their rows. ``first``: the first curve's number."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(label(row), []).append(row)
    for number, (name, line) in enumerate(lines.items(), first):
        _with_intervals(axes, [*map(place, line)], line, name, number)
    return lines


def _with_intervals(axes: "Axes", places: list[float], rows: list[Row], label: str, number: int) -> None:
    """Draw a curve with confidence intervals; its number gives it a colour and a marker."""
    means, halves = [row.value.mean for row in rows], [row.value.half or 0.0 for row in rows]
    colour, marker = _COLOURS[number], _MARKERS[number]
    axes.errorbar(
        places,
        means,
        yerr=halves,
        label=label,
        color=colour,
        linestyle=_DASHES[number],
        marker=marker,
        markersize=8 - 1.2 * number,
        capsize=3,
        elinewidth=1.1,
    )


_HEIGHTS = {"figure-13": 5.0, "strong-weak": 8.0, "depth": 5.0, "spark": 3.6, "nexmark": 6.0}
"""Heights of figures, inches; all are 10 inches wide."""

_PLOTS: dict[str, Callable[["Figure", ExperimentResult], None]] = {
    "figure-13": _figure_13,
    "figure-14": _figure_14,
    "figure-15": _figure_15,
    "figure-16": _figure_16,
    "strong-weak": _strong_weak,
    "depth": _depth,
    "recovery": partial(
        _panels, (recoveries.MEDIAN, recoveries.MOST), _way, {0: "best"},
        xscale="log", yscale="log", xlabel="keys of the interval"
    ),
    "hot-key": partial(
        _panels, (hot_key.BEHIND, BUSIEST), _phases, {0: "best", 1: "best"}, sharey=False, xlabel="records of one key, %"
    ),
    "skew": partial(
        _panels, (skew.BUFFERED, skew.WAITING), _way, {1: "upper left"}, xlabel="hours by which one source is behind"
    ),
    "authority": _authority,
    "spark": partial(_on_logarithmic_scales, (on_spark.THROUGHPUT, on_spark.LATENCY, on_spark.RECOVERY)),
    "nexmark": partial(_on_logarithmic_scales, (nexmark.LAYER, nexmark.OWN)),
}  # fmt: skip
