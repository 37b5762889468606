"""When a failure became inevitable: how often the run fails if it continues differently from some moment.

A run is deterministic. So it can be rerun up to a moment, and then continued with new draws (such as delays) and without the
faults that had not begun. The fraction of such continuations that fail is small as long as the run can still succeed, and 1
once it cannot.

Choice: first moments spread evenly over the events, then halving where the rate rises most: that finds the event in few runs.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from headrace import MILLISECOND
from headrace.history import Event
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.parallel import RunTrials, runner, useful_jobs
from headrace_properties.search.run_error import RunError
from headrace_sim import Protocol, Redraw

POINTS = 20
"""Number of moments examined."""

CONTINUATIONS = 50
"""Number of continuations from each."""

_STEP_US = MILLISECOND

_SPREAD = 12
"""Number of moments that are spread evenly."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """How often the run fails when continued from a moment.

    Attributes:
        at_us: the moment, true time in microseconds: just after all that happens at this time.
        failed: continuations that failed.
        runs: continuations.
    """

    at_us: int
    failed: int
    runs: int

    @property
    def rate(self) -> float:
        """The fraction that failed."""
        return self.failed / self.runs


@dataclass(frozen=True, slots=True)
class FailureRates:
    """The rate of failure over the time of a run.

    Attributes:
        points: the moments, in order; none if there are no faults, so that nothing has to happen for the run to fail.
        jump: numbers of the first and the last event between the two moments where the rate rises most; the same number if it is
            one event, ``None``: it never rises, or the run has no History.
    """

    points: tuple[RatePoint, ...]
    jump: tuple[int, int] | None

    @property
    def rise(self) -> tuple[RatePoint, RatePoint] | None:
        """The two moments between which the rate rises most."""
        return _steepest(self.points)


def failure_rates(
    application: Application,
    trial: PipelineTrial,
    history: Sequence[Event],
    violations: Sequence[str],
    *,
    protocol: Protocol,
    error: RunError | None = None,
    until_us: int | None = None,
    continuations: int = CONTINUATIONS,
    jobs: int = 1,
    on_run: Callable[[int], None] = lambda _: None,
) -> FailureRates:
    """Measure how often a failing run still fails when continued differently, at a series of moments.

    Args:
        application: what was run.
        trial: the failing run.
        history: its History.
        violations: names of what it violates; none: it stopped with an error.
        protocol: the state machines to host.
        error: what it stopped with.
        until_us: the last moment to look at; default: the heal.
        continuations: from each moment.
        jobs: processes that share the runs. The result does not depend on it.
        on_run: told after each run how many there were.
    """
    heals_at_us = trial.plan.faults.heals_at_us
    last_us = heals_at_us if until_us is None else min(until_us, heals_at_us)
    moments = sorted({event.at_us for event in history if event.at_us <= last_us})
    moments = moments or [*range(0, last_us, _STEP_US)]  # a run that stopped with an error has no History
    if not trial.plan.faults.count:
        return FailureRates((), None)
    with runner(application, protocol, useful_jobs(jobs, continuations * POINTS)) as run:
        search = _Search(trial, violations, error, continuations, run, on_run)
        for place in range(_SPREAD):
            search.look_at(moments[place * (len(moments) - 1) // (_SPREAD - 1)])
        while len(search.points) < POINTS and (between := search.between(moments)) is not None:
            search.look_at(between)
    points = tuple(search.points[at_us] for at_us in sorted(search.points))
    return FailureRates(points, _jump(points, history))


@dataclass(slots=True)
class _Search:
    trial: PipelineTrial
    violations: Sequence[str]
    error: RunError | None
    continuations: int
    run: RunTrials
    on_run: Callable[[int], None]
    points: dict[int, RatePoint] = field(default_factory=dict)
    runs: int = 0

    def look_at(self, at_us: int) -> None:
        """Continue the run from a moment, unless already done."""
        if at_us in self.points:
            return
        trials = [
            msgspec.structs.replace(self.trial, redraw=Redraw(at_us + 1, seed))
            for seed in range(1, self.continuations + 1)
        ]
        failed = 0
        for judged in self.run(trials):
            failed += judged.fails_like(self.violations, self.error)
            self.runs += 1
            self.on_run(self.runs)
        self.points[at_us] = RatePoint(at_us, failed, self.continuations)

    def between(self, moments: Sequence[int]) -> int | None:
        """Choose a moment in the middle of where the rate rises most; ``None``: there is none."""
        rise = _steepest([self.points[at_us] for at_us in sorted(self.points)])
        if rise is None:
            return None
        low, high = (bisect_left(moments, point.at_us) for point in rise)
        return moments[(low + high) // 2] if high - low > 1 else None


def _steepest(points: Sequence[RatePoint]) -> tuple[RatePoint, RatePoint] | None:
    best = max(pairwise(points), key=lambda pair: pair[1].rate - pair[0].rate, default=None)
    return best if best is not None and best[1].failed > best[0].failed else None


def _jump(points: Sequence[RatePoint], history: Sequence[Event]) -> tuple[int, int] | None:
    rise = _steepest(points)
    if rise is None:
        return None
    before, after = rise
    if not history:
        return None
    numbers = [number for number, event in enumerate(history) if before.at_us < event.at_us <= after.at_us]
    return numbers[0], numbers[-1]
