"""The experiments: what each measures at which points, as samples of single runs and as figures over all of them.

Rules of this file: an experiment's run is a function of its point and seed and of nothing else, so that any number in a report
can be run again; all times are simulated, in milliseconds.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

import msgspec

from millrace import MILLISECOND, Productions
from millrace_benchmarks.section8.calibration import CALIBRATION
from millrace_benchmarks.section8.lagging import CPUS, STAGES, lags_us
from millrace_benchmarks.section8.paper import STRONG, WEAK
from millrace_benchmarks.section8.sorting import Sorting, latencies_us
from millrace_benchmarks.section8.statistics import Interval, interval, quantile

BINS_PER_DOUBLING = 4


class Sample(msgspec.Struct, frozen=True):
    """What one run found.

    Attributes:
        point: where: a setting or a size.
        seed: of the run.
        values: by (point, figure), as some runs measure several points; milliseconds.
        counts: latencies by bin, for histograms; see `bin_of`.
    """

    point: str
    seed: int
    values: tuple[tuple[str, str, float], ...]
    counts: dict[int, int] = {}


class Row(msgspec.Struct, frozen=True):
    """One figure over all seeds, milliseconds."""

    point: str
    figure: str
    ms: Interval


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run.

    Attributes:
        seeds: runs at each point.
        quick: only the cheaper points.
    """

    seeds: int
    quick: bool


QUICK = Size(seeds=3, quick=True)
FULL = Size(seeds=20, quick=False)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure of the paper.

    Attributes:
        name: what commands call it.
        title: what it shows.
        points: where it is measured.
        quick: those of them that are measured in a hurry.
        sample: runs it once.
    """

    name: str
    title: str
    points: tuple[str, ...]
    quick: tuple[str, ...]
    sample: Callable[[str, int], Sample]

    def tasks(self, size: Size) -> list[tuple[str, int]]:
        """All (point, seed) to run."""
        points = self.quick if size.quick else self.points
        return [(point, seed) for seed in range(size.seeds) for point in points]


def rows_of(samples: Sequence[Sample]) -> list[Row]:
    """Figures over seeds, in the order in which runs tell them."""
    found: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        for point, figure, ms in sample.values:
            found.setdefault((point, figure), []).append(ms)
    return [Row(point, figure, interval(values)) for (point, figure), values in found.items()]


def bin_of(latency_us: int) -> int:
    """The bin of a latency; its lower bound is `bin_ms`.

    >>> bin_of(1_000), round(bin_ms(bin_of(1_000)), 2), round(bin_ms(bin_of(1_000) + 1), 2)
    (39, 0.86, 1.02)
    """
    return int(math.log2(max(latency_us, 1)) * BINS_PER_DOUBLING)


def bin_ms(number: int) -> float:
    """Where a bin begins, milliseconds."""
    return float(2 ** (number / BINS_PER_DOUBLING)) / MILLISECOND


# Figures 13 and 14

_SETTINGS = {
    WEAK: Sorting(productions=Productions.WEAK, exactly_once=False),
    "weak, exactly-once on": Sorting(productions=Productions.WEAK, exactly_once=True),
    "strong, exactly-once off": Sorting(productions=Productions.STRONG, exactly_once=False),
    STRONG: Sorting(productions=Productions.STRONG, exactly_once=True),
}
_SIZES = {f"{cpus} CPUs": Sorting(cpus=cpus) for cpus in (20, 50, 100, 200, 400, 1_000, 2_000)}


def _sample_latencies(point: str, sorting: Sorting, seed: int) -> Sample:
    found = latencies_us(sorting, CALIBRATION, seed)
    values = {
        "median": float(quantile(found, 0.5)),
        "mean": fmean(found),
        "95 %": float(quantile(found, 0.95)),
        "99 %": float(quantile(found, 0.99)),
    }
    in_ms = tuple((point, figure, us / MILLISECOND) for figure, us in values.items())
    return Sample(point, seed, in_ms, dict(sorted(Counter(map(bin_of, found)).items())))


def sample_figure_13(point: str, seed: int) -> Sample:
    """Run one setting of Figure 13."""
    return _sample_latencies(point, _SETTINGS[point], seed)


def sample_figure_14(point: str, seed: int) -> Sample:
    """Run one size of Figure 14."""
    return _sample_latencies(point, _SIZES[point], seed)


# Figure 15

_POLLS = 10
"""Choice: few for a run, as processes keep their periods to the microsecond and the polls of a run are much alike."""


def sample_figure_15(point: str, seed: int) -> Sample:
    """Run Figure 15's pipeline."""
    return Sample(point, seed, tuple(_lags(lags_us(CALIBRATION, seed, polls=_POLLS))))


def _lags(found: dict[str, list[int]]) -> Iterator[tuple[str, str, float]]:
    for stage, lags in found.items():
        yield stage, "mean", fmean(lags) / MILLISECOND
        yield stage, "stdev", stdev(lags) / MILLISECOND
    for before, stage in pairwise(STAGES):
        more_us = fmean(found[stage]) - fmean(found[before])
        yield stage, "more than stage before", more_us / MILLISECOND


EXPERIMENTS = {
    one.name: one
    for one in (
        Experiment(
            "figure-13",
            "Latency of one stage on 200 CPUs",
            tuple(_SETTINGS),
            tuple(_SETTINGS),
            sample_figure_13,
        ),
        Experiment(
            "figure-14",
            "Latency of one stage, weak without exactly-once, input in proportion to the CPUs",
            tuple(_SIZES),
            tuple(_SIZES)[:5],
            sample_figure_14,
        ),
        Experiment(
            "figure-15",
            f"Lag of low watermarks in three stages on {CPUS} CPUs, polled each second",
            ("three stages",),
            ("three stages",),
            sample_figure_15,
        ),
    )
}
"""By name, in the paper's order."""
