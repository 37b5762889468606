"""What the paper measured, as data: nothing else in this package holds one of its numbers.

Each in the unit of its figure: latencies and lags in milliseconds. What the paper gives in words only is quoted.
"""

import enum
from dataclasses import dataclass


class Basis(enum.Enum):
    """What it is worth that the model says as the paper does."""

    FITTED = "fitted"
    """Nothing: a parameter was fitted to this number."""
    CHOSEN = "chosen in view of it"
    """Little: what decides it (how many keys, how often reports, how promises come) was chosen when its results had been seen."""
    PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of the paper.

    Attributes:
        value: in the unit of the figure; ``None``: it says it in words.
        words: the paper's own, where there is no number.
        basis: of what the model says of it.
    """

    value: float | None
    words: str = ""
    basis: Basis = Basis.PREDICTED


WEAK = "weak, exactly-once off"
STRONG = "strong, exactly-once on"
ONCE = "by boundary, written once"
FACTOR = "no cache / 125 % of the working set"
STRAIGHT = "R² of the line up to the working set"
CHANCE = "records that meet a failure in a minute, %"
BUSIEST = "busiest machine, % of all runs of user code"
WALL_TIME = "wall-time count (not deterministic)"
TWO_VALUES = "one id, two values, a run"
USUAL = "an update, CPU µs"
PROPORTIONAL = "R² of buffered against hours"
"""Places that have a number of the paper: what experiments call them."""

CLAIMS: dict[tuple[str, str, str], Claim] = {
    ("figure-13", WEAK, "median"): Claim(3.6, basis=Basis.FITTED),
    ("figure-13", WEAK, "95 %"): Claim(30.0, basis=Basis.FITTED),
    ("figure-13", STRONG, "median"): Claim(33.7, basis=Basis.FITTED),
    ("figure-13", STRONG, "95 %"): Claim(93.8),
    ("figure-14", "20 CPUs", "median"): Claim(None, "roughly constant", Basis.CHOSEN),
    ("figure-14", "2000 CPUs", "median"): Claim(None, "roughly constant", Basis.CHOSEN),
    ("figure-14", "2000 CPUs", "99 %"): Claim(None, "on the order of 100 ms", Basis.CHOSEN),
    ("figure-15", "stage 1", "mean"): Claim(1795.0, basis=Basis.FITTED),
    ("figure-15", "stage 1", "stdev"): Claim(159.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", "mean"): Claim(1954.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", "stdev"): Claim(127.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 3", "mean"): Claim(2081.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 3", "stdev"): Claim(140.0, basis=Basis.CHOSEN),
    ("figure-15", "stage 2", "more than stage before"): Claim(159.0, "under 200 ms", Basis.CHOSEN),
    ("figure-15", "stage 3", "more than stage before"): Claim(127.0, "under 200 ms", Basis.CHOSEN),
    ("figure-16", FACTOR, ONCE): Claim(2.0, "a factor of two"),
    ("figure-16", STRAIGHT, ONCE): Claim(None, "linearly"),
    ("strong-weak", f"{WALL_TIME}, strong", TWO_VALUES): Claim(None, "just works"),
    ("strong-weak", f"{WALL_TIME}, weak", TWO_VALUES): Claim(None, "bit-wise distinct"),
    ("hot-key", "90 %", BUSIEST): Claim(90.0),
    ("authority", "500,000 intervals, 1 shard", USUAL): Claim(None, "no loss in performance"),
    ("skew", "no limit", PROPORTIONAL): Claim(None, "often proportional to skew"),
    ("depth", "5 stages", CHANCE): Claim(4.9, "nearly a 5% chance"),
}
"""By experiment, point and figure (MillWheel 6.1.2-8.4). How much more Figure 15's stages lag is a difference of means."""


def number_ms(place: tuple[str, str, str]) -> float:
    """A number of the paper that something can be fitted to."""
    ms = CLAIMS[place].value
    assert ms is not None, f"the paper says {place} in words only"
    return ms
