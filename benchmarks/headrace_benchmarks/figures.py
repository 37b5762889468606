"""What a benchmark of ``headrace bench`` is, and the figures that it comes to.

A figure stands beside its anchor: the goal that was set, or the paper's number. Figures about correctness bind: a benchmark that
misses one has failed. Speeds and times depend on the machine, and are reported only.
"""

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

DEPENDENCIES = ("headrace", "simpy", "hypothesis", "msgspec", "networkx", "rbloom")
"""The packages whose versions stand beside the figures."""

OnProgress = Callable[[str, int, int], None]
"""Told what is being measured, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: what was measured.
        value: the figure.
        unit: of the value; what a time is a time of is said here: CPU time, wall time or simulated time.
        anchor: what stands beside it, in words: the goal, or the paper's number; empty: nothing.
        met: whether it reaches the goal; ``None``: there is none.
        binding: it is about correctness, and to miss it is to fail.
        detail: more about it, in a sentence or two.
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
        """It must be reached, and is not."""
        return self.binding and self.met is False


def is_there(needed: str) -> bool:
    """Whether a module that not everybody has is installed; an empty name: nothing is needed."""
    return not needed or find_spec(needed) is not None


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to measure.

    Attributes:
        seed: of what is random.
        jobs: processes to spread the work over.
        runs: how many runs the longest part takes; ``None``: the benchmark's own choice.
        quick: a fraction of everything, to see that it works; the goals are those of the whole.
    """

    seed: int = 0
    jobs: int = 1
    runs: int | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Something to measure.

    Attributes:
        name: what the command calls it.
        title: what it measures, in a line.
        measure: does it, and gives each figure as soon as it is known.
    """

    name: str
    title: str
    measure: Callable[[BenchOptions, OnProgress], Iterator[Figure]]


def at_least(
    name: str, value: float, goal: float, unit: str = "", *, binding: bool = False, detail: str = ""
) -> Figure:
    """A figure that is to be large."""
    return Figure(name, value, unit, f"at least {goal:,}", value >= goal, binding, detail)


def at_most(
    name: str, value: float, goal: float, unit: str = "", *, binding: bool = False, detail: str = ""
) -> Figure:
    """A figure that is to be small."""
    return Figure(name, value, unit, f"at most {goal:,}" if goal else "0", value <= goal, binding, detail)


def versions() -> dict[str, str]:
    """What was measured, and what with."""
    found = {"python": platform.python_version()}
    for name in DEPENDENCIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, str | int]:
    """What it was measured on."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "interpreter": platform.python_implementation(),
        "cores": os.cpu_count() or 1,
    }
