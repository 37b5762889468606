"""``headrace paper bench promises``: what promises cost a search.

Each trial is made with and without promises, in turn, in one process, so that both meet the same machine; CPU time counts.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_most
from headrace_properties.promises import Promise
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.steering import Steering
from headrace_scenarios import zeitgeist
from headrace_scenarios.examples import bank, orders
from headrace_sim.kernel import seldom_collected

GOAL = 1.15
"""A search with three promises takes at most this many times the CPU of one without."""
TRIALS = 60
QUICK_TRIALS = 4
PROMISES = 3

EXAMPLES: dict[str, Application] = {
    name: Application(module.pipeline, module.feed, tuple(module.promises[:PROMISES]))
    for name, module in {"bank": bank, "orders": orders, "zeitgeist": zeitgeist}.items()
}
"""Example pipelines with three of their promises."""


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Measure each example."""
    trials = options.runs or (QUICK_TRIALS if options.quick else TRIALS)
    for number, (name, application) in enumerate(EXAMPLES.items()):
        on_progress(f"trials of {name}", number, len(EXAMPLES))
        plain_s, promising_s = cpu_seconds(application, trials, options.seed)
        ratios = [with_s / without_s for with_s, without_s in zip(promising_s, plain_s, strict=True)]
        detail = (
            f"{trials} trials; median of their ratios {median(ratios):.3f};"
            f" {1000 * sum(plain_s) / trials:.1f} ms CPU a trial without promises,"
            f" {1000 * sum(promising_s) / trials:.1f} ms with {', '.join(_names(application.promises))}"
        )
        yield at_most(
            f"CPU with {PROMISES} promises: {name}",
            sum(promising_s) / sum(plain_s),
            GOAL,
            "times",
            detail=detail,
        )


def cpu_seconds(application: Application, trials: int, seed: int) -> tuple[list[float], list[float]]:
    """Make trials without and with promises, in turn.

    Args:
        application: what is under test, with its promises.
        trials: how many.
        seed: of the search.

    Returns:
        CPU time of each trial without, and of each with promises, seconds.
    """
    plain = replace(application, promises=())
    steering, drawn = Steering(plain, seed=seed, feeds=1), list[PipelineTrial]()
    while len(drawn) < trials:
        drawn += steering.round(Counter())
    without, promising = list[float](), list[float]()
    with seldom_collected():
        _timed(plain, drawn[0])
        for number, trial in enumerate(drawn[:trials]):
            pairs = [(plain, without), (application, promising)]
            for setup, times in pairs if number % 2 else pairs[::-1]:  # which comes first must not matter
                times.append(_timed(setup, trial)[0])
    return without, promising


def _timed(application: Application, trial: PipelineTrial) -> tuple[float, JudgedRun]:
    began = time.process_time()
    judged = try_plan(application, trial)
    return time.process_time() - began, judged


def _names(promises: tuple[Promise, ...]) -> list[str]:
    return [promise.name for promise in promises]


BENCHMARK = Benchmark("promises", "What promises cost a search", measure)
