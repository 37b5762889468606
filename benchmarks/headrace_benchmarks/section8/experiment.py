"""What an experiment is: runs of a point and a seed, and figures over all of them.

Rules of this file: an experiment's run is a function of its point and seed and of nothing else, so that any number in a report
can be run again. Those that take wall time are marked, and stand by themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from headrace_benchmarks.figures import is_there
from headrace_benchmarks.section8.statistics import Interval, interval


class Sample(msgspec.Struct, frozen=True):
    """What one run found.

    Attributes:
        point: where: a setting or a size.
        seed: of the run.
        values: by (point, figure), as some runs measure several points; in the experiment's unit, or the figure's name says it.
        counts: latencies by bin, for histograms; see `bin_of`.
    """

    point: str
    seed: int
    values: tuple[tuple[str, str, float], ...]
    counts: dict[int, int] = {}

    def rounded(self) -> "Sample":
        """Round the figures to the seven significant digits that a report keeps: far more than any table shows.

        >>> Sample("20 CPUs", 0, (("20 CPUs", "mean", 8.527927795337812),)).rounded().values
        (('20 CPUs', 'mean', 8.527928),)
        """
        values = tuple([(point, figure, float(f"{value:.7g}")) for point, figure, value in self.values])
        return msgspec.structs.replace(self, values=values)


class Row(msgspec.Struct, frozen=True):
    """One figure over all seeds, in the unit of its samples."""

    point: str
    figure: str
    value: Interval


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
    """One figure, or one claim, of the paper.

    Attributes:
        name: what commands call it.
        place: where the paper has it.
        title: what it shows.
        points: where it is measured.
        quick: those of them that are measured in a hurry; none: it is left out then, unless it is asked for.
        sample: runs it once.
        remark: how its figures are to be read, and what they do not tell.
        unit: of all its figures; empty: each figure's name says its own.
        wall: its figures are real time of this machine, which no run repeats: it is run once, and alone.
        wide: its table has a row for each point and a column for each figure.
        needs: a module that it can not run without, and that not everybody has; empty: none.
    """

    name: str
    place: str
    title: str
    points: tuple[str, ...]
    quick: tuple[str, ...]
    sample: Callable[[str, int], Sample]
    remark: str
    unit: str = ""
    wall: bool = False
    wide: bool = False
    needs: str = ""

    def is_usual(self, size: Size) -> bool:
        """Tell whether it is measured when nobody asks for it by name."""
        return is_there(self.needs) and bool(self.quick or not size.quick)

    def tasks(self, size: Size) -> list[tuple[str, int]]:
        """All (point, seed) to run."""
        points = (size.quick and self.quick) or self.points
        return [(point, seed) for seed in range(self.seeds(size)) for point in points]

    def seeds(self, size: Size) -> int:
        """Runs at each point."""
        return 1 if self.wall else size.seeds


def rows_of(samples: Sequence[Sample]) -> list[Row]:
    """Figures over seeds, in the order in which runs tell them."""
    found: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        for point, figure, value in sample.values:
            found.setdefault((point, figure), []).append(value)
    return [Row(point, figure, interval(values)) for (point, figure), values in found.items()]
