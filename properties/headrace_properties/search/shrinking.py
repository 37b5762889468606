"""Shrink a failing run: fewer faults, fewer records, default knobs, rounder numbers (delta debugging).

It works on the plan and the input themselves, not on the bytes they were decoded from, so it shrinks plans of any origin,
and drops a fault without moving any other. Choice: the result fails in one of the original ways, lest shrinking slip to
another bug.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND
from headrace_properties.promises import PromiseError
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.budget import Budget, Meter
from headrace_properties.search.judging import Failure, JudgedRun
from headrace_sim import ClusterOptions, StepFault
from headrace_sim import faults as f
from headrace_sim.kernel import seldom_collected

BUDGET = Budget(runs=1_000, cpu_s=10.0)
"""The default budget. Small runs exhaust it by their number, and so with the same result on every machine."""

Test = Callable[[Trial], JudgedRun]
"""Runs a trial."""

_ROUND_US = (0, SECOND, 100 * MILLISECOND, 10 * MILLISECOND, MILLISECOND)


@seldom_collected()
def shrink(
    failure: Failure,
    application: Application,
    base: ClusterOptions,
    test: Test,
    budget: Budget = BUDGET,
) -> Failure:
    """Shrink a failing run as far as the budget allows.

    Args:
        failure: the run.
        application: what it is a run of.
        base: the options that are usual.
        test: makes a run of it.
        budget: what that may take.
    """
    shrinker = _Shrinker(failure, application.feed(failure.feed_seed).records, base, test, budget.begin())
    before = None
    while before != shrinker.best and not shrinker.spent:
        before = shrinker.best
        shrinker.drop_faults()
        shrinker.drop_records()
        shrinker.usual_knobs()
        shrinker.simpler_faults()
    return shrinker.best


class _Shrinker:
    def __init__(
        self, failure: Failure, records: int, base: ClusterOptions, test: Test, meter: Meter
    ) -> None:
        self.best = failure
        self._records = records
        self._base = base
        self._test = test
        self._meter = meter
        self._wanted = failure.violations.keys()

    @property
    def spent(self) -> bool:
        return self._meter.spent

    def drop_faults(self) -> None:
        """Leave out as many faults as possible, larger parts first."""
        schedule = self.best.plan.faults
        _minimise(list(schedule.planned), lambda some: self._try(schedule.with_planned(some)))
        schedule = self.best.plan.faults
        if schedule.lasting:
            self._try(msgspec.structs.replace(schedule, lasting=()))

    def drop_records(self) -> None:
        """Leave out records of the input."""
        kept = self.best.kept
        records = list(range(self._records) if kept is None else kept)
        _minimise(records, lambda some: self._try(kept=tuple(some)))

    def usual_knobs(self) -> None:
        """Reset the order of arrivals, the seed and the options to their defaults: all of them, or one by one."""
        plan = self.best.plan
        if plan.priorities is not None:
            self._try(priorities=None)
        if plan.seed:
            self._try(seed=0)
        if plan.options == self._base or self._try(options=self._base):
            return
        for options in _nearer(plan.options, self._base):
            self._try(options=options(self.best.plan.options))

    def simpler_faults(self) -> None:
        """Round times and counts, and let a fault begin at an earlier step of its kind."""
        for place in range(self.best.plan.faults.count):
            for simpler in _simpler:
                schedule = self.best.plan.faults
                faults = list(schedule.planned)
                for candidate in simpler(faults[place]):
                    faults[place] = candidate
                    if self._try(schedule.with_planned(faults)):
                        break

    def _try(
        self, faults: f.FaultSchedule | None = None, kept: tuple[int, ...] | None = None, **changes: Any
    ) -> bool:
        """Try a candidate; keep it if it fails like the original."""
        best = self.best
        if self.spent:
            return False
        if faults is not None:
            changes["faults"] = faults
        plan = msgspec.structs.replace(best.plan, **changes)
        trial = Trial(plan, best.feed_seed, best.kept if kept is None else kept)
        if trial == best.trial:
            return False
        self._meter.run()
        try:
            judged = self._test(trial)
        except PromiseError:  # a promise that expects an input larger than this
            return False
        if not judged.fails_like(self._wanted, best.error):
            return False
        self.best = judged.failure(trial)
        return True


def _minimise(things: list[Any], fails: Callable[[list[Any]], bool]) -> None:
    """Leave out parts, halves first, then smaller ones, as long as the rest still fails."""
    size = len(things)
    while size:
        begin = 0
        while begin < len(things):
            fewer = things[:begin] + things[begin + size :]
            if fails(fewer):
                things = fewer
            else:
                begin += size
        size //= 2


def _nearer(
    options: ClusterOptions, base: ClusterOptions
) -> Iterator[Callable[[ClusterOptions], ClusterOptions]]:
    """Yield functions that each reset one option to its default."""
    for name in options.__struct_fields__:
        if name != "engine" and getattr(options, name) != getattr(base, name):
            yield partial(_with_option, name=name, value=getattr(base, name))
    for field in dataclasses.fields(options.engine):
        usual = getattr(base.engine, field.name)
        if getattr(options.engine, field.name) != usual:
            yield partial(_with_engine_option, name=field.name, value=usual)


def _with_option(options: ClusterOptions, name: str, value: Any) -> ClusterOptions:
    return msgspec.structs.replace(options, **{name: value})


def _with_engine_option(options: ClusterOptions, name: str, value: Any) -> ClusterOptions:
    return _with_option(options, "engine", dataclasses.replace(options.engine, **{name: value}))


def _rounder(fault: Any) -> Iterator[Any]:
    """Yield the fault with one time rounded, coarsely first."""
    inner = fault.fault if isinstance(fault, StepFault) else fault
    for name in inner.__struct_fields__:
        value = getattr(inner, name)
        if not name.endswith("_us") or not isinstance(value, int):
            continue
        for step in _ROUND_US:
            rounded = value // step * step if step else 0
            if rounded < value and (rounded or name == "at_us"):
                yield _changed(fault, **{name: rounded})


def _fewer(fault: Any) -> Iterator[Any]:
    """Yield the fault striking only once."""
    if getattr(fault, "count", 1) > 1:
        yield _changed(fault, count=1)


def _earlier(fault: Any) -> Iterator[Any]:
    """Yield the fault at an earlier step of its kind."""
    if isinstance(fault, StepFault):
        for nth in range(1, fault.step.nth):
            yield msgspec.structs.replace(fault, step=msgspec.structs.replace(fault.step, nth=nth))


_simpler: tuple[Callable[[Any], Iterator[Any]], ...] = (_rounder, _fewer, _earlier)


def _changed(fault: Any, **changes: Any) -> Any:
    """Change a fault, or the fault tied to a step."""
    if isinstance(fault, StepFault):
        return msgspec.structs.replace(fault, fault=msgspec.structs.replace(fault.fault, **changes))
    return msgspec.structs.replace(fault, **changes)
