"""Experiments: a run for each point and seed, and figures over all runs.

Rules of this file: a run depends only on its point and seed, so that every number in a report can be reproduced. Experiments in
real time are marked, and reported separately.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from headrace_benchmarks.figures import is_there
from headrace_benchmarks.section8.statistics import Interval, interval


class RunSample(msgspec.Struct, frozen=True):
    """The result of one run.

    Attributes:
        point: setting or size of the run.
        seed: seed of the run.
        values: (point, figure, value), since some runs measure several points; in the experiment's unit, or the unit in the
            figure's name.
        counts: number of latencies by bin, for histograms; see `bin_of`.
    """

    point: str
    seed: int
    values: tuple[tuple[str, str, float], ...]
    counts: dict[int, int] = {}

    def rounded(self) -> "RunSample":
        """Round the figures to the seven significant digits that a report stores, far more than any table shows.

        >>> RunSample("20 CPUs", 0, (("20 CPUs", "mean", 8.527927795337812),)).rounded().values
        (('20 CPUs', 'mean', 8.527928),)
        """
        values = tuple([(point, figure, float(f"{value:.7g}")) for point, figure, value in self.values])
        return msgspec.structs.replace(self, values=values)


class Row(msgspec.Struct, frozen=True):
    """One figure over all seeds, in the unit of the samples."""

    point: str
    figure: str
    value: Interval


@dataclass(frozen=True, slots=True)
class ExperimentSize:
    """The number of runs.

    Attributes:
        seeds: number of runs at each point.
        quick: whether to run only the cheaper points.
    """

    seeds: int
    quick: bool


QUICK = ExperimentSize(seeds=3, quick=True)
FULL = ExperimentSize(seeds=20, quick=False)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure, or one claim, of the paper.

    Attributes:
        name: name in commands.
        place: figure or section of the paper.
        title: what it shows, in one line.
        points: settings or sizes to measure.
        quick: points to measure in a quick report; empty: left out of it, unless asked for by name.
        sample: runs one point with one seed.
        remark: how to read its figures, and their limits.
        unit: unit of all its figures; empty: each figure's name has its unit.
        wall: whether it measures real time on this machine, which is not reproducible: it is run once, and alone.
        wide: whether its table has a row for each point and a column for each figure.
        needs: optional module that it requires; empty: none.
    """

    name: str
    place: str
    title: str
    points: tuple[str, ...]
    quick: tuple[str, ...]
    sample: Callable[[str, int], RunSample]
    remark: str
    unit: str = ""
    wall: bool = False
    wide: bool = False
    needs: str = ""

    def is_usual(self, size: ExperimentSize) -> bool:
        """Return whether it is measured without being asked for by name."""
        return is_there(self.needs) and bool(self.quick or not size.quick)

    def tasks(self, size: ExperimentSize) -> list[tuple[str, int]]:
        """List all (point, seed) to run."""
        points = (size.quick and self.quick) or self.points
        return [(point, seed) for seed in range(self.seeds(size)) for point in points]

    def seeds(self, size: ExperimentSize) -> int:
        """Return the number of runs at each point."""
        return 1 if self.wall else size.seeds


def rows_of(samples: Sequence[RunSample]) -> list[Row]:
    """Return the figures over all seeds, in the order of the samples' values."""
    by_figure: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        for point, figure, value in sample.values:
            by_figure.setdefault((point, figure), []).append(value)
    return [Row(point, figure, interval(values)) for (point, figure), values in by_figure.items()]
