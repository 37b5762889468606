"""The report's pictures as reproducible SVG, drawn with matplotlib from the extra ``flights``."""

import io
from collections import Counter
from itertools import accumulate
from textwrap import fill
from typing import TYPE_CHECKING

from headrace import HeadraceError
from headrace_benchmarks.section8 import figure_16, hot_key, on_spark, section_6_1_3, skew, strong_weak
from headrace_benchmarks.section8.experiment import Row
from headrace_benchmarks.section8.experiments import bin_ms
from headrace_benchmarks.section8.paper import BUSIEST, CHANCE, CLAIMS
from headrace_benchmarks.section8.reporting import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class NoPlotsError(HeadraceError):
    """The package matplotlib is not installed."""

    def __str__(self) -> str:
        """Say what to install."""
        return "drawing the report's figures needs the package 'matplotlib'. Install headrace[flights]"


def draw(measured: Measured) -> bytes:
    """Draw an experiment's picture.

    Raises:
        NoPlotsError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415  as above
    except ImportError as error:
        raise NoPlotsError from error
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "headrace"}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        _PLOTS[measured.name](figure, measured)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _figure_13(figure: "Figure", measured: Measured) -> None:
    """Draw a histogram and a CDF over all seeds, with the paper's percentiles as crosses."""
    histogram, cdf = figure.subplots(1, 2)
    for axes, title in ((histogram, "Fraction of records"), (cdf, "Cumulative fraction of records")):
        axes.set(xscale="log", xlabel="latency, simulated ms", title=title, xlim=(0.3, 1_000))
    for number, point in enumerate(dict.fromkeys(sample.point for sample in measured.samples)):
        counts: Counter[int] = Counter()
        for sample in measured.samples:
            if sample.point == point:
                counts.update(sample.counts)
        bins = range(min(counts), max(counts) + 1)
        edges = [bin_ms(bin_) for bin_ in (*bins, bins[-1] + 1)]
        parts = [counts[bin_] / counts.total() for bin_ in bins]
        histogram.stairs(parts, edges, label=point, color=f"C{number}")
        cdf.plot(edges, [0.0, *accumulate(parts)], label=point, color=f"C{number}")
        for figure_name, part in (("median", 0.5), ("95 %", 0.95)):
            claim = CLAIMS.get((measured.name, point, figure_name))
            if claim is not None and claim.value is not None:
                cdf.plot([claim.value], [part], "x", color=f"C{number}", markersize=9)
    cdf.plot([], [], "kx", label="paper")
    cdf.legend(frameon=False)


def _figure_14(figure: "Figure", measured: Measured) -> None:
    """Draw each figure over the size of the cluster."""
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="CPUs", ylabel="latency, simulated ms")
    for name in dict.fromkeys(row.figure for row in measured.rows):
        rows = [row for row in measured.rows if row.figure == name]
        _with_intervals(axes, [float(row.point.split(maxsplit=1)[0]) for row in rows], rows, name)
    axes.legend(frameon=False)


def _figure_15(figure: "Figure", measured: Measured) -> None:
    """Draw the mean lag of each stage beside the paper's."""
    axes = figure.subplots()
    rows = [row for row in measured.rows if row.figure == "mean"]
    axes.set(ylabel="lag of the low watermark, simulated ms", xlim=(0.5, len(rows) + 0.5))
    _with_intervals(axes, [float(number) for number in range(1, len(rows) + 1)], rows, "model")
    found = [CLAIMS[measured.name, row.point, "mean"].value or 0.0 for row in rows]
    axes.plot(range(1, len(rows) + 1), found, "kx", markersize=9, label="paper")
    axes.set_xticks(range(1, len(rows) + 1), [row.point for row in rows])
    axes.legend(frameon=False)


def _figure_16(figure: "Figure", measured: Measured) -> None:
    """Draw CPU time over the size of the cache, one line per policy and load."""
    axes = figure.subplots()
    axes.set(
        xlabel="cache, fraction of the working set",
        ylabel="CPU of workers and store, % of that without cache",
    )
    axes.set_ylim(0, 105)
    for point in dict.fromkeys(row.figure for row in measured.rows):
        found = [(figure_16.part_of(row.point), row) for row in measured.rows if row.figure == point]
        placed = [(part, row) for part, row in found if part is not None]
        _with_intervals(axes, [part for part, _ in placed], [row for _, row in placed], point)
    axes.legend(frameon=False)


def _depth(figure: "Figure", measured: Measured) -> None:
    """Draw the chance to hit a failure beside its closed form, latencies, and retained bytes, each over the depth."""
    chance, latency, retained = figure.subplots(1, 3)
    for axes, label, names in (
        (chance, CHANCE, (CHANCE, section_6_1_3.CLOSED_FORM)),
        (latency, section_6_1_3.TAIL, (section_6_1_3.TAIL,)),
        (retained, "retained by senders, mean kB", (section_6_1_3.RETAINED,)),
    ):
        axes.set(xlabel="stages", ylabel=label)
        for name in names:
            rows = [row for row in measured.rows if row.figure == name]
            ways = dict.fromkeys(row.point.partition(", ")[2] for row in rows)
            for way in ways:
                line = [row for row in rows if row.point.partition(", ")[2] == way]
                places = [float(row.point.split(maxsplit=1)[0]) for row in line]
                _with_intervals(axes, places, line, way or {CHANCE: "model"}.get(name, "1 - 0.99^depth"))
        axes.set_ylim(bottom=0)
    for axes in (chance, retained):
        axes.legend(frameon=False, fontsize=7)


def _strong_weak(figure: "Figure", measured: Measured) -> None:
    """Draw latency, re-runs of user code, and differences in the output, for each code and combination."""
    names = (strong_weak.LATENCY, strong_weak.AGAIN, strong_weak.REPEATED, strong_weak.CHANGED)
    _bars(figure, measured, names)


def _spark(figure: "Figure", measured: Measured) -> None:
    """Draw throughput, latency and recovery, one bar per job."""
    _bars(figure, measured, (on_spark.THROUGHPUT, on_spark.LATENCY, on_spark.RECOVERY))


def _bars(figure: "Figure", measured: Measured, names: tuple[str, ...]) -> None:
    """Draw bar charts of several figures side by side, one bar per point."""
    points = list(dict.fromkeys(row.point for row in measured.rows))
    for axes, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        rows = [row for row in measured.rows if row.figure == name]
        halves = [row.value.half or 0.0 for row in rows]
        axes.barh([points.index(row.point) for row in rows], [row.value.mean for row in rows], xerr=halves)
        axes.set_title(fill(name, 24), fontsize=7)
        axes.set_yticks(range(len(points)), points, fontsize=6)
        axes.set_ylim(len(points) - 0.5, -0.5)


def _hot_key(figure: "Figure", measured: Measured) -> None:
    """Draw the delay of the last record, and the busiest machine's share, over the key's share."""
    behind, busiest = figure.subplots(1, 2)
    for axes, name in ((behind, hot_key.BEHIND), (busiest, BUSIEST)):
        axes.set(xlabel="records of one key, %", ylabel=name)
        rows = [row for row in measured.rows if row.figure == name]
        one = [row for row in rows if row.point != hot_key.TWO_PHASES]
        two = [row for row in rows if row.point == hot_key.TWO_PHASES]
        for line, label in ((one, "one phase"), (two, "two phases")):
            _with_intervals(axes, [float(row.point.split(maxsplit=1)[0]) for row in line], line, label)
        axes.legend(frameon=False)


def _skew(figure: "Figure", measured: Measured) -> None:
    """Draw buffered and waiting bytes over the hours by which one source is behind."""
    buffered, waiting = figure.subplots(1, 2, sharey=True)
    for axes, name in ((buffered, skew.BUFFERED), (waiting, skew.WAITING)):
        axes.set(xlabel="hours by which one source is behind", ylabel=name)
        for point in (skew.UNLIMITED, skew.LIMITED):
            rows = [row for row in measured.rows if row.figure == name and row.point.endswith(point)]
            _with_intervals(axes, [float(row.point.split(maxsplit=1)[0]) for row in rows], rows, point)
        axes.legend(frameon=False)


def _authority(figure: "Figure", measured: Measured) -> None:
    """Draw the CPU time per update over the number of intervals."""
    axes = figure.subplots()
    axes.set(xscale="log", xlabel="key intervals", ylabel="real CPU µs per update")
    for name in dict.fromkeys(row.figure for row in measured.rows):
        for shards in dict.fromkeys(row.point.partition(", ")[2] for row in measured.rows):
            rows = [row for row in measured.rows if row.figure == name and row.point.endswith(f", {shards}")]
            places = [float(row.point.split(maxsplit=1)[0].replace(",", "")) for row in rows]
            _with_intervals(axes, places, rows, f"{name.rpartition(', ')[2]}, {shards}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _with_intervals(axes: "Axes", places: list[float], rows: list[Row], label: str) -> None:
    means, halves = [row.value.mean for row in rows], [row.value.half or 0.0 for row in rows]
    axes.errorbar(places, means, yerr=halves, marker=".", capsize=3, label=label)


_PLOTS = {
    "figure-13": _figure_13,
    "figure-14": _figure_14,
    "figure-15": _figure_15,
    "figure-16": _figure_16,
    "strong-weak": _strong_weak,
    "depth": _depth,
    "hot-key": _hot_key,
    "skew": _skew,
    "authority": _authority,
    "spark": _spark,
}
