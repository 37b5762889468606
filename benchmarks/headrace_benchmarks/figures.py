"""The benchmarks of ``headrace paper bench``, and their figures.

A figure is shown beside its anchor: a goal, or the paper's number. Figures about correctness are binding: missing one fails the
benchmark. Speeds and times depend on the machine, and are only reported.
"""

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

DEPENDENCIES = ("headrace", "simpy", "hypothesis", "msgspec", "networkx", "rbloom")
"""The packages whose versions are shown with the figures."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of the current measurement, the amount done, and the total amount."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: name of the measurement.
        value: measured value.
        unit: unit of the value; for times, it says whether they are CPU time, wall time or simulated time.
        anchor: goal or paper's number, as text; empty: none.
        met: whether the goal is met; ``None``: there is no goal.
        binding: whether missing the goal is a failure, since it is about correctness.
        detail: a sentence or two of detail.
    """

    name: str
    value: float
    unit: str = ""
    anchor: str = ""
    met: bool | None = None
    binding: bool = False
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it misses a binding goal."""
        return self.binding and self.met is False


def is_there(needed: str) -> bool:
    """Return whether an optional module is installed; an empty name needs none."""
    return not needed or find_spec(needed) is not None


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to measure.

    Attributes:
        seed: seed of all randomness.
        jobs: number of parallel processes.
        runs: number of runs of the longest part; ``None``: the benchmark's default.
        quick: whether to measure only a fraction of everything, as a smoke test; the goals stay those of the full size.
    """

    seed: int = 0
    jobs: int = 1
    runs: int | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: name in the command.
        title: what it measures, in one line.
        measure: runs it, and yields each figure as soon as it is known.
        needs: optional module that it requires; empty: none.
    """

    name: str
    title: str
    measure: Callable[[BenchOptions, OnProgress], Iterator[Figure]]
    needs: str = ""

    def figures(self, options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
        """Run it, or say what is missing."""
        if is_there(self.needs):
            yield from self.measure(options, on_progress)
        else:
            yield Figure(self.name, 0, detail=f"not measured: {self.needs} is not installed")


def at_least(
    name: str, value: float, goal: float, unit: str = "", *, binding: bool = False, detail: str = ""
) -> Figure:
    """Make a figure with a lower bound as its goal."""
    return Figure(name, value, unit, f"at least {goal:,}", value >= goal, binding, detail)


def at_most(
    name: str, value: float, goal: float, unit: str = "", *, binding: bool = False, detail: str = ""
) -> Figure:
    """Make a figure with an upper bound as its goal."""
    return Figure(name, value, unit, f"at most {goal:,}" if goal else "0", value <= goal, binding, detail)


def versions() -> dict[str, str]:
    """Return the versions of Python and packages."""
    numbers = {"python": platform.python_version()}
    for name in DEPENDENCIES:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers


def machine() -> dict[str, str | int]:
    """Return a description of this machine."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "interpreter": platform.python_implementation(),
        "cores": os.cpu_count() or 1,
    }
