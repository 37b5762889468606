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
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import Failure, JudgedRun
from headrace_properties.shrinking import Budget, Shrinker, smallest
from headrace_sim import ClusterOptions, StepFault
from headrace_sim.kernel import seldom_collected

BUDGET = Budget(runs=1_000, cpu_s=10.0)
"""The default budget. Small runs exhaust it by their number, and so with the same result on every machine."""

Test = Callable[[PipelineTrial], JudgedRun]
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
    best, wanted = failure, failure.violations.keys()

    def fails(trial: PipelineTrial) -> bool:
        nonlocal best
        try:
            judged = test(trial)
        except PromiseError:  # a promise that expects an input larger than this
            return False
        if not judged.fails_like(wanted, best.error):
            return False
        best = judged.failure(trial)
        return True

    records = tuple(range(application.feed(failure.feed_seed).records))
    ways = (_drop_faults, partial(_drop_records, records), partial(_usual_knobs, base), _simpler_faults)
    smallest(failure.trial, fails, ways, budget)
    return best


def _drop_faults(shrinker: Shrinker[PipelineTrial]) -> None:
    """Leave out as many faults as possible, larger parts first."""
    schedule = shrinker.best.plan.faults
    shrinker.leave_out(
        schedule.planned, lambda some: _with(shrinker.best, faults=schedule.with_planned(list(some)))
    )
    schedule = shrinker.best.plan.faults
    if schedule.lasting:
        shrinker.tries(_with(shrinker.best, faults=msgspec.structs.replace(schedule, lasting=())))


def _drop_records(records: tuple[int, ...], shrinker: Shrinker[PipelineTrial]) -> None:
    """Leave out records of the input. ``records``: all of them."""
    kept = shrinker.best.kept
    shrinker.leave_out(
        records if kept is None else kept, lambda some: msgspec.structs.replace(shrinker.best, kept=some)
    )


def _usual_knobs(base: ClusterOptions, shrinker: Shrinker[PipelineTrial]) -> None:
    """Reset times and order of arrivals, the seed and the options to their defaults: all of them, or one by one."""
    plan = shrinker.best.plan
    if shrinker.best.gap_us is not None:
        shrinker.tries(msgspec.structs.replace(shrinker.best, gap_us=None))
    if plan.priorities is not None:
        shrinker.tries(_with(shrinker.best, priorities=None))
    if plan.seed:
        shrinker.tries(_with(shrinker.best, seed=0))
    if plan.options == base or shrinker.tries(_with(shrinker.best, options=base)):
        return
    for options in _nearer(plan.options, base):
        shrinker.tries(_with(shrinker.best, options=options(shrinker.best.plan.options)))


def _simpler_faults(shrinker: Shrinker[PipelineTrial]) -> None:
    """Round times and counts, and let a fault begin at an earlier step of its kind."""
    for place in range(shrinker.best.plan.faults.count):
        for simpler in _simpler:
            schedule = shrinker.best.plan.faults
            faults = list(schedule.planned)
            for candidate in simpler(faults[place]):
                faults[place] = candidate
                if shrinker.tries(_with(shrinker.best, faults=schedule.with_planned(faults))):
                    break


def _with(trial: PipelineTrial, **changes: Any) -> PipelineTrial:
    """Change the plan of a trial."""
    return msgspec.structs.replace(trial, plan=msgspec.structs.replace(trial.plan, **changes))


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
