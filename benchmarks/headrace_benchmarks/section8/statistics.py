"""Quantiles of a run, and confidence intervals over runs."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import msgspec

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom; for more, the last one, which is slightly too wide."""


class Interval(msgspec.Struct, frozen=True):
    """A mean over runs, and half the width of its 95 % interval (Student's t); ``None`` for a single run."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        """Format as in the tables: small numbers with more digits."""
        digits = 1 if abs(self.mean) >= 1 or not self.mean else 3
        return f"{self.mean:.{digits}f}" + ("" if self.half is None else f" ± {self.half:.{digits}f}")


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and interval of one figure over runs.

    >>> str(interval([9.0, 10.0, 11.0]))
    '10.0 ± 2.5'
    """
    mean, runs = fmean(values), len(values)
    if runs == 1:
        return Interval(mean, None)
    return Interval(mean, _T_975[min(runs - 2, len(_T_975) - 1)] * stdev(values) / math.sqrt(runs))


def quantile(ordered: Sequence[int], part: float) -> int:
    """Return the smallest of these sorted values that at least this fraction of them does not exceed.

    >>> quantile([10, 20, 30, 40], 0.5), quantile([10, 20, 30, 40], 0.95)
    (20, 40)
    """
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]
