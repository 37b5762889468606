"""Fits the model's free parameters, each to one number of the paper, one after the other until none changes (MillWheel 8).

``python -m headrace_benchmarks.section8.fitting`` prints the values for `CALIBRATION`; a test compares them. The fit uses other
seeds than the report, so the report's runs are not the fitted ones.

Each parameter affects one figure far more than the others: the CPU time the weak median, the contended share the weak 95th
percentile, the commit time the strong median, and the source's lag the lag of the first stage.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from headrace import MILLISECOND, Productions
from headrace_benchmarks.section8.calibration import CALIBRATION, Calibration
from headrace_benchmarks.section8.lagging import STAGES, lags_us
from headrace_benchmarks.section8.paper import STRONG, WEAK, number_ms
from headrace_benchmarks.section8.sorting import Sorting, latencies_us
from headrace_benchmarks.section8.statistics import quantile

SEEDS = range(-6, 0)
ROUNDS = 2
_LAG_SEEDS = range(-8, 0)
_LAG_POLLS = 10
LAG_STEP_US = 10 * MILLISECOND
LAG = ("figure-15", STAGES[0], "mean")
_WEAK = Sorting()
_STRONG = Sorting(productions=Productions.STRONG, exactly_once=True)


@dataclass(frozen=True, slots=True)
class Target:
    """A parameter and the number that it is fitted to.

    Attributes:
        parameter: the parameter's name in `Calibration`.
        claim: the number's place in `CLAIMS`.
        low: lower bound of the search.
        high: upper bound of the search.
        step: the parameter is fitted to a multiple of this; steps finer than the variation over seeds would mean nothing.
        measure: computes the model's figure for the paper's number, milliseconds; it increases with the parameter.
    """

    parameter: str
    claim: tuple[str, str, str]
    low: float
    high: float
    step: float
    measure: Callable[[Calibration], float]


def _latency_ms(sorting: Sorting, part: float) -> Callable[[Calibration], float]:
    return lambda calibration: fmean(
        quantile(latencies_us(sorting, calibration, seed), part) / MILLISECOND for seed in SEEDS
    )


def first_lag_ms(calibration: Calibration) -> float:
    """Return the mean lag of the first stage, milliseconds."""
    return (
        fmean(lag for seed in _LAG_SEEDS for lag in lags_us(calibration, seed, polls=_LAG_POLLS)[STAGES[0]])
        / MILLISECOND
    )


LATENCIES = (
    Target("record_cpu_us", ("figure-13", WEAK, "median"), 2_500, 3_500, 50, _latency_ms(_WEAK, 0.5)),
    Target("contended_share", ("figure-13", WEAK, "95 %"), 0.03, 0.11, 0.005, _latency_ms(_WEAK, 0.95)),
    Target("commit_us", ("figure-13", STRONG, "median"), 15_000, 40_000, 500, _latency_ms(_STRONG, 0.5)),
)
"""The parameters that Figure 13 determines, in the order of fitting."""


def fit_latencies(start: Calibration = CALIBRATION) -> Calibration:
    """Fit the parameters that Figure 13 determines. Their start values do not matter: each is searched over its whole range."""
    calibration = start
    for _ in range(ROUNDS):
        before = calibration
        for target in LATENCIES:
            calibration = fit_one(target, calibration)
        if calibration == before:
            break
    return calibration


def fit_one(target: Target, calibration: Calibration) -> Calibration:
    """Find the multiple of the step whose figure is nearest to the paper's, by bisection."""
    low, high = round(target.low / target.step), round(target.high / target.step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _error(target, calibration, middle) > 0 else (middle, high)
    nearest = min((low, high), key=lambda number: abs(_error(target, calibration, number)))
    return _at(target, calibration, nearest)


def is_fitted(target: Target, calibration: Calibration) -> bool:
    """Return whether the calibration's multiple of the step is at least as close to the paper's number as its neighbors."""
    number = round(getattr(calibration, target.parameter) / target.step)
    here = abs(_error(target, calibration, number))
    return all(abs(_error(target, calibration, number + side)) >= here for side in (-1, 1))


def _error(target: Target, calibration: Calibration, number: int) -> float:
    return target.measure(_at(target, calibration, number)) - number_ms(target.claim)


def _at(target: Target, calibration: Calibration, number: int) -> Calibration:
    """Return the calibration with the parameter set to this number of steps."""
    value = number * target.step
    changed: dict[str, Any] = {target.parameter: round(value) if target.step >= 1 else round(value, 6)}
    return dataclasses.replace(calibration, **changed)


def fit_lag(start: Calibration = CALIBRATION) -> Calibration:
    """Fit the source's lag to Figure 15: the figure grows exactly with the parameter, so no search is needed."""
    more_us = (number_ms(LAG) - first_lag_ms(start)) * MILLISECOND
    steps = round((start.source_lag_us + more_us) / LAG_STEP_US)
    return dataclasses.replace(start, source_lag_us=steps * LAG_STEP_US)


def main() -> None:
    """Fit everything, and print the calibration."""
    print(fit_lag(fit_latencies()))


if __name__ == "__main__":
    main()
