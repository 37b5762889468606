"""Faults outside the model: the store breaks the paper's assumptions, to show that the invariants would notice.

No search tries them unless asked to. Violations that they cause accuse neither the engine nor user code.
"""

from collections.abc import Collection, Iterable, Iterator

from headrace import MILLISECOND, OptionsError
from headrace_properties.search.plans import Plan
from headrace_properties.search.step_faults import steps_of
from headrace_sim import ClusterOptions, Does, Feed, Step, StepFault, Versions
from headrace_sim import faults as f
from headrace_sim.steps import role_of

NOTICED_BY: dict[f.Breach, tuple[str, ...]] = {
    f.Breach.LOST_WRITE: ("S1", "S3"),
    f.Breach.TORN_ROW: ("S4",),
    f.Breach.WRONG_ROW: ("S4", "S14"),
    f.Breach.OLD_SNAPSHOT: ("S7",),
}
"""The invariants that must notice each one; `headrace_sim.faults.ASSUMPTIONS` names what each breaks."""


def breaches_named(names: Iterable[str]) -> tuple[f.Breach, ...]:
    """Return the faults outside the model of these names.

    Raises:
        OptionsError: there is none of a name.
    """
    known, names = {breach.value: breach for breach in f.Breach}, tuple(names)
    for name in names:
        if name not in known:
            raise OptionsError("outside", name, f"one of {', '.join(known)}")
    return tuple(known[name] for name in names)


def breaches_at(step: Step, outside: Collection[f.Breach]) -> Iterator[StepFault]:
    """Yield the faults outside the model for a step at which a worker sends a write."""
    if outside and role_of(step.process) == "worker" and (step.does, step.message) == (Does.SENDS, "Write"):
        for breach in outside:
            # The next reader of the row gets an old one: its writer has it in memory.
            process = "" if breach is f.Breach.OLD_SNAPSHOT else step.process
            yield StepFault(step, f.BreakStore(at_us=0, how=breach, process=process))


def breaches_of(
    pipeline: Versions, feed: Feed, options: ClusterOptions, outside: Collection[f.Breach]
) -> list[tuple[StepFault, ...]]:
    """Return schedules with a single fault outside the model, one for each fault at each write of a run.

    An old snapshot needs a reader: the writer crashes, and its successor reads the rows.
    """
    steps = steps_of(pipeline, feed, options, first=_ALL) if outside else []
    breaches: list[tuple[StepFault, ...]] = []
    for step in steps:
        crash = StepFault(step, f.Crash(at_us=100 * MILLISECOND, process=step.process))
        for breach in breaches_at(step, outside):
            reads = isinstance(breach.fault, f.BreakStore) and breach.fault.how is f.Breach.OLD_SNAPSHOT
            breaches.append((breach, crash) if reads else (breach,))
    return breaches


_ALL = 10_000
"""More steps of a kind than a small run has."""


def is_outside(plan: Plan) -> bool:
    """Return whether a plan has a fault outside the model."""
    faults = (*plan.faults.faults, *(tied.fault for tied in plan.faults.at_steps))
    return any(isinstance(fault, f.BreakStore) for fault in faults)
