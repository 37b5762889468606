"""All experiments by name, and Figures 13 to 15: latency and watermark lag in simulated milliseconds (MillWheel 8.1, 8.2)."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, stdev

import msgspec

from headrace import MILLISECOND, Productions
from headrace_benchmarks.section8 import (
    figure_16,
    hot_key,
    nexmark,
    on_spark,
    recoveries,
    section_6_1_3,
    section_7_2,
    skew,
    strong_weak,
)
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.lagging import CPUS, STAGES, lags_us
from headrace_benchmarks.section8.paper import MORE, STRONG, WEAK
from headrace_benchmarks.section8.sorting import Sorting, latencies_us
from headrace_benchmarks.section8.statistics import quantile

BINS_PER_DOUBLING = 4


def bin_of(latency_us: int) -> int:
    """Return the bin of a latency; `bin_ms` is its lower bound.

    >>> bin_of(1_000), round(bin_ms(bin_of(1_000)), 2), round(bin_ms(bin_of(1_000) + 1), 2)
    (39, 0.86, 1.02)
    """
    return int(math.log2(max(latency_us, 1)) * BINS_PER_DOUBLING)


def bin_ms(number: int) -> float:
    """Return the lower bound of a bin, milliseconds."""
    return float(2 ** (number / BINS_PER_DOUBLING)) / MILLISECOND


# Figures 13 and 14

_SETTINGS = {
    WEAK: Sorting(productions=Productions.WEAK, exactly_once=False),
    "weak, exactly-once on": Sorting(productions=Productions.WEAK, exactly_once=True),
    "strong, exactly-once off": Sorting(productions=Productions.STRONG, exactly_once=False),
    STRONG: Sorting(productions=Productions.STRONG, exactly_once=True),
}
_SIZES = {f"{cpus} CPUs": Sorting(cpus=cpus) for cpus in (20, 50, 100, 200, 400, 1_000, 2_000)}


def _sample_latencies(point: str, sorting: Sorting, seed: int) -> tuple[RunSample, list[int]]:
    latencies = latencies_us(sorting, CALIBRATION, seed)
    values = {
        "median": float(quantile(latencies, 0.5)),
        "mean": fmean(latencies),
        "95 %": float(quantile(latencies, 0.95)),
        "99 %": float(quantile(latencies, 0.99)),
    }
    in_ms = tuple((point, figure, us / MILLISECOND) for figure, us in values.items())
    return RunSample(point, seed, in_ms), latencies


def sample_figure_13(point: str, seed: int) -> RunSample:
    """Run one setting of Figure 13."""
    sample, latencies = _sample_latencies(point, _SETTINGS[point], seed)
    return msgspec.structs.replace(sample, counts=dict(sorted(Counter(map(bin_of, latencies)).items())))


def sample_figure_14(point: str, seed: int) -> RunSample:
    """Run one size of Figure 14."""
    return _sample_latencies(point, _SIZES[point], seed)[0]


# Figure 15

_POLLS = 10
"""Choice: few per run, since processes keep their periods to the microsecond, so the polls of one run are much alike."""


def sample_figure_15(point: str, seed: int) -> RunSample:
    """Run Figure 15's pipeline."""
    return RunSample(point, seed, tuple(_lags(lags_us(CALIBRATION, seed, polls=_POLLS))))


def _lags(by_stage: dict[str, list[int]]) -> Iterator[tuple[str, str, float]]:
    for stage, lags in by_stage.items():
        yield stage, "mean", fmean(lags) / MILLISECOND
        yield stage, "stdev", stdev(lags) / MILLISECOND
    for before, stage in pairwise(STAGES):
        more_us = fmean(by_stage[stage]) - fmean(by_stage[before])
        yield stage, MORE, more_us / MILLISECOND


_FIGURES = (
    Experiment(
        "figure-13",
        "Figure 13",
        "Latency of one stage on 200 CPUs",
        tuple(_SETTINGS),
        tuple(_SETTINGS),
        sample_figure_13,
        "Latency is the time from a record's arrival at the bucketing stage to the arrival of its production at the sorting"
        " stage, so that each stage's CPU, commit and wire count once. The paper does not define where latency begins and ends,"
        f" nor the number of keys, on which the tails depend: here there are {CALIBRATION.keys:,}. The fit uses other seeds; the"
        " error of a fitted figure shows how well the fit generalizes.",
        unit="ms",
    ),
    Experiment(
        "figure-14",
        "Figure 14",
        "Latency of one stage, weak without exactly-once, input in proportion to the CPUs",
        tuple(_SIZES),
        tuple(_SIZES)[:5],
        sample_figure_14,
        f"The input grows with the cluster, but the program's {CALIBRATION.keys:,} keys do not. In a larger cluster, therefore,"
        " more records share a key and wait for each other: a weak step holds its key until its productions are ACKed. That makes"
        " the tail grow here; with a proportional number of keys it would not. The paper does not say whether its tail grew for"
        " the same reason. With a tenth of the keys, the median would grow, too.",
        unit="ms",
    ),
    Experiment(
        "figure-15",
        "Figure 15",
        f"Lag of low watermarks in three stages on {CPUS} CPUs, polled every second",
        ("three stages",),
        ("three stages",),
        sample_figure_15,
        "Lag is real time minus the low watermark that the authority last broadcast, polled once a second; stdev is over a run's"
        " polls. The model's processes keep their periods to the microsecond; only the sources' watermarks come at random times."
        " The period of reports was chosen to match the paper's less than 200 ms per stage, and the memoryless timing of the"
        " sources' watermarks after the deviations had been too small; their mean period is the engine's default."
        " Productions are strong, with exactly-once.",
        unit="ms",
    ),
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        *_FIGURES,
        figure_16.EXPERIMENT,
        strong_weak.EXPERIMENT,
        section_6_1_3.EXPERIMENT,
        recoveries.EXPERIMENT,
        hot_key.EXPERIMENT,
        skew.EXPERIMENT,
        section_7_2.EXPERIMENT,
        on_spark.EXPERIMENT,
        nexmark.EXPERIMENT,
    )
}
"""Experiments by name: the paper's figures, then its other claims, then measurements in real time."""
