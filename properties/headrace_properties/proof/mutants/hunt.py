"""The hunt for a mutant: run it under random plans until an oracle catches it, and make the plan small (invariants as oracles).

Rules of this file:

* A hunt is a function of the mutant and the seeds: the same again gives the same result, in every process.
* A mutant is killed only by an oracle that it is to break, in a run in which its probe was reached: what else breaks is not its
  doing, or says nothing of that oracle.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from headrace import SECOND
from headrace.rules import Rules
from headrace_properties.checkers import all_checkers
from headrace_properties.proof.calm import CALM
from headrace_properties.proof.mutants import CATALOGUE, Mutant, Parts, Probe
from headrace_properties.proof.oracles import ERROR, EXPECTED, REFERENCE, fired, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import Failure, JudgedRun
from headrace_properties.search.parallel import Jobs, spread
from headrace_properties.search.plans import Plan
from headrace_properties.search.smaller_plans import shrink
from headrace_properties.shrinking import Budget
from headrace_sim.kernel import seldom_collected

_SMALL = 3
"""A plan of more faults than these tells little: another seed may have a smaller one."""
_MORE_SEEDS = 200
"""Runs more that such a plan is worth."""
_LIMIT_US = 600 * SECOND
"""Choice: a broken protocol may be busy for ever with what it repeats; ten minutes of that show as much as an hour."""

_TO_SHRINK = Budget(runs=250)
"""What shrinking may take. No limit of time: it would make a slow machine's plans larger."""


@dataclass(frozen=True, slots=True)
class Hunted:
    """What a hunt came to.

    Attributes:
        name: of the mutant.
        breaks: the invariants that it is to break.
        activated: its probe was reached in some run.
        killed_by: the oracles that fired in the run that killed it, in order; empty: it survived.
        runs: how many runs there were, with the one that killed it and without those that shrink it.
        plan: the plan that kills it, made small.
        feed_seed: of that run's input.
        kept: which of the input's records it needs, by their order from 0; ``None``: all.
        directed: it was run in its directed scenario, and not left to chance.
        message: what the first of the oracles that it is to break says of the small plan's run.
        shrink_cpu_s: CPU time that making its plan small took, seconds.
        cpu_s: CPU time of the whole hunt, seconds.
    """

    name: str
    breaks: tuple[str, ...]
    activated: bool
    killed_by: tuple[str, ...]
    runs: int
    plan: Plan | None = None
    feed_seed: int = 0
    kept: tuple[int, ...] | None = None
    directed: bool = False
    message: str = ""
    shrink_cpu_s: float = field(default=0.0, compare=False)
    cpu_s: float = field(default=0.0, compare=False)

    @property
    def killed(self) -> bool:
        """An oracle that it is to break caught it."""
        return bool(self.killed_by)

    @property
    def faults(self) -> int | None:
        """How many faults the small plan has."""
        return None if self.plan is None else self.plan.faults.count


@seldom_collected()
def hunt(mutant: Mutant, seeds: Sequence[int]) -> Hunted:
    """Run a mutant under one plan for each seed until it is killed, or in its directed scenario; then make the plan small.

    Args:
        mutant: whom.
        seeds: of the plans and of the input, in this order.
    """
    began = time.process_time()
    hunted = _by_chance(mutant, seeds) if mutant.directed is None else _in_its_scenario(mutant)
    return replace(hunted, cpu_s=time.process_time() - began)


def hunt_all(names: Sequence[str], seeds: int, jobs: Jobs) -> Iterator[Hunted]:
    """Hunt mutants, and tell of each when it is done; the order of the results differs from run to run, and nothing else.

    Args:
        names: of the mutants.
        seeds: how many runs each may take; the first ``seeds`` seeds.
        jobs: how many processes; 1: this one. Or a pool.
    """
    yield from spread(partial(_hunt_named, seeds=range(seeds)), names, jobs)


def hunt_everywhere(
    name: str, rules: type[Rules], seeds: int, on_workload: Callable[[int, int], object]
) -> tuple[Mutant, Hunted]:
    """Hunt rules of somebody's own on one workload after the other until any oracle catches them.

    Args:
        name: what they are called.
        rules: a class that overrides some.
        seeds: how many runs each workload may take; the first ``seeds`` seeds.
        on_workload: is told how many workloads are behind it, and of how many.

    Returns:
        The mutant that they are on the last workload, and what the hunt came to, with the runs of all.
    """
    wrong = " ".join((rules.__doc__ or "No docstring says what it gets wrong.").split())
    mutant, sum_of_all = (
        Mutant(name, (), "", wrong, Parts(rules)),
        Hunted(name, (), activated=False, killed_by=(), runs=0),
    )
    for number, workload in enumerate(WORKLOADS.values()):
        if sum_of_all.killed:
            break
        on_workload(number, len(WORKLOADS))
        checked = (checker.name for checker in all_checkers(workload.deployed))
        mutant = replace(mutant, breaks=(*checked, REFERENCE, EXPECTED, CALM, ERROR), workload=workload.name)
        hunted = hunt(mutant, range(seeds))
        activated, runs = sum_of_all.activated or hunted.activated, sum_of_all.runs + hunted.runs
        sum_of_all = replace(hunted, activated=activated, runs=runs)
    return mutant, sum_of_all


def _hunt_named(name: str, seeds: Sequence[int]) -> Hunted:
    """Call `hunt` by name: what crosses to another process is small."""
    return hunt(CATALOGUE[name], seeds)


def _by_chance(mutant: Mutant, seeds: Sequence[int]) -> Hunted:
    """Run it until it is killed, and then a little further if another seed may have a smaller plan."""
    activated, killed, left = False, None, len(seeds)
    for runs, seed in enumerate(seeds, 1):
        if not left:
            break
        left -= 1
        case = MutantCase(mutant, seed)
        plan = case.plan
        judged, activations = case.run(plan)
        activated |= activations > 0
        if not case.kills(judged, activations):
            continue
        if killed is None:
            killed, left = _killed(case, plan, judged, runs), min(left, _MORE_SEEDS)
        else:
            killed = min(killed, _killed(case, plan, judged, killed.runs), key=_size)
        if _size(killed) <= _SMALL:
            break
    return killed or Hunted(mutant.name, mutant.breaks, activated, (), len(seeds))


def _in_its_scenario(mutant: Mutant) -> Hunted:
    directed = mutant.directed
    assert directed is not None
    case = MutantCase(mutant, directed.feed_seed)
    plan = directed.plan(case.workload.options)
    judged, activations = case.run(plan)
    if case.kills(judged, activations):
        return replace(_killed(case, plan, judged, 1), directed=True)
    return Hunted(mutant.name, mutant.breaks, activations > 0, (), 1, directed=True)


class MutantCase:
    """A mutant on its workload, with the input of one seed."""

    def __init__(self, mutant: Mutant, feed_seed: int) -> None:
        self.mutant = mutant
        self.workload = WORKLOADS[mutant.workload]
        self.feed_seed = feed_seed
        self.application = Application(self.workload.deployed, self.workload.feed)

    @property
    def plan(self) -> Plan:
        """The plan of its seed."""
        return plan_of(self.workload, self.application.feed(self.feed_seed), self.feed_seed)

    def run(self, plan: Plan, kept: tuple[int, ...] | None = None) -> tuple[JudgedRun, int]:
        """Run it; returns how often the mutant did something else than the sound protocol, too."""
        probe = Probe()
        plan = msgspec.structs.replace(
            plan, options=msgspec.structs.replace(plan.options, limit_us=_LIMIT_US)
        )
        feed = self.application.input_of(PipelineTrial(plan, self.feed_seed, kept))
        judged = try_workload(self.workload, feed, plan, self.mutant.protocol(probe))
        return judged, probe.count

    def kills(self, judged: JudgedRun, activations: int) -> bool:
        """Return whether an oracle that it is to break has fired."""
        return activations > 0 and not set(self.mutant.breaks).isdisjoint(fired(judged))

    def again(self, trial: PipelineTrial) -> JudgedRun:
        """Run it for a shrinker, for which only a run that kills fails."""
        judged, activations = self.run(trial.plan, trial.kept)
        return judged if self.kills(judged, activations) else replace(judged, verdicts={}, error=None)

    def failure(self, plan: Plan, judged: JudgedRun) -> Failure:
        """Return the failure to shrink: only the oracles that it is to break count."""
        broken = {name: one for name, one in judged.broken.items() if name in self.mutant.breaks}
        return replace(judged.failure(PipelineTrial(plan, self.feed_seed)), violations=broken)


def _killed(case: MutantCase, plan: Plan, judged: JudgedRun, runs: int) -> Hunted:
    began, mutant = time.process_time(), case.mutant
    small = shrink(
        case.failure(plan, judged), case.application, case.workload.options, case.again, _TO_SHRINK
    )
    messages = [one.message for name, one in small.violations.items() if name in mutant.breaks]
    return Hunted(
        name=mutant.name, breaks=mutant.breaks, activated=True, killed_by=fired(judged), runs=runs, plan=small.plan,
        feed_seed=case.feed_seed, kept=small.kept, message=str(small.error or messages[0]),
        shrink_cpu_s=time.process_time() - began,
    )  # fmt: skip


def _size(killed: Hunted) -> int:
    assert killed.faults is not None
    return killed.faults
