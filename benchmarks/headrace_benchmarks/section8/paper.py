"""The paper's measurements as data; no other file of this package contains its numbers.

Each number is in the unit of its figure: latencies and lags in milliseconds. Claims without numbers are quoted.
"""

import enum
from dataclasses import dataclass


class Basis(enum.Enum):
    """How much it means that the model agrees with the paper."""

    FITTED = "fitted"
    """Nothing: a parameter was fitted to this number."""
    CHOSEN = "chosen in view of it"
    """Little: the parameters behind it (keys, period of reports, timing of promises) were chosen after seeing their results."""
    PREDICTED = "predicted"
    """A lot: it follows from parameters that were not derived from it."""


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One number of the paper.

    Attributes:
        value: the number, in the figure's unit; ``None``: the paper gives only words.
        words: the paper's own words, shown instead of the number.
        basis: how much the model's agreement means.
    """

    value: float | None
    words: str = ""
    basis: Basis = Basis.PREDICTED


WEAK = "weak, exactly-once off"
STRONG = "strong, exactly-once on"
ONCE = "by boundary, written once"
FACTOR = "no cache / 125 % of the working set"
STRAIGHT = "R² of the line up to the working set"
CHANCE = "records that hit a failure within a minute, %"
BUSIEST = "busiest machine, % of all runs of user code"
WALL_TIME = "wall-time count (not deterministic)"
TWO_VALUES = "ids with two values per run"
USUAL = "CPU µs per update, usual case"
MORE = "increase over previous stage"
PROPORTIONAL = "R² of buffered against hours"
"""Names of points and figures for which the paper has a number."""

CLAIMS: dict[tuple[str, str, str], PaperFigure] = {
    ("figure-13", WEAK, "median"): PaperFigure(3.6, basis=Basis.FITTED),
    ("figure-13", WEAK, "95 %"): PaperFigure(30.0, basis=Basis.FITTED),
    ("figure-13", STRONG, "median"): PaperFigure(33.7, basis=Basis.FITTED),
    ("figure-13", STRONG, "95 %"): PaperFigure(93.8),
    ("figure-14", "20 CPUs", "median"): PaperFigure(None, "roughly constant", Basis.CHOSEN),
    ("figure-14", "2000 CPUs", "median"): PaperFigure(None, "roughly constant", Basis.CHOSEN),
    ("figure-14", "2000 CPUs", "99 %"): PaperFigure(None, "on the order of 100 ms", Basis.CHOSEN),
    ("figure-15", "stage 1", "mean"): PaperFigure(1795.0, basis=Basis.FITTED),
    ("figure-15", "stage 1", "stdev"): PaperFigure(159.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", "mean"): PaperFigure(1954.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", "stdev"): PaperFigure(127.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 3", "mean"): PaperFigure(2081.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 3", "stdev"): PaperFigure(140.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", MORE): PaperFigure(159.0, "under 200 ms", Basis.CHOSEN),
    ("figure-15", "stage 3", MORE): PaperFigure(127.0, "under 200 ms", Basis.CHOSEN),
    ("figure-16", FACTOR, ONCE): PaperFigure(2.0, "a factor of two"),
    ("figure-16", STRAIGHT, ONCE): PaperFigure(None, "linearly"),
    ("strong-weak", f"{WALL_TIME}, strong", TWO_VALUES): PaperFigure(None, "just works"),
    ("strong-weak", f"{WALL_TIME}, weak", TWO_VALUES): PaperFigure(None, "bit-wise distinct"),
    ("hot-key", "90 %", BUSIEST): PaperFigure(90.0),
    ("authority", "500,000 intervals, 1 shard", USUAL): PaperFigure(None, "no loss in performance"),
    ("skew", "no limit", PROPORTIONAL): PaperFigure(None, "often proportional to skew"),
    ("depth", "5 stages", CHANCE): PaperFigure(4.9, "nearly a 5% chance"),
}
"""Claims by experiment, point and figure (MillWheel 6.1.2-8.4). The increases in Figure 15 are differences of its means."""


def number_ms(place: tuple[str, str, str]) -> float:
    """Return a number of the paper to fit a parameter to, milliseconds."""
    ms = CLAIMS[place].value
    assert ms is not None, f"the paper has no number for {place}"
    return ms
