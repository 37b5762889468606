"""The hunt for a mutant: run it under random plans until an oracle catches it, and make the plan small (invariants as oracles).

Rules of this file:

* A hunt is a function of the mutant and the seeds: the same again gives the same result, in every process.
* A mutant counts as killed only by a run in which its probe was reached: what breaks otherwise is not its doing.
* Beside the checkers of a History there are two oracles: ``reference``, the plain sequential reference, on workloads whose result
  is settled; and ``error``, a run that stops with an exception.
* The run of seed 0 is without faults: the smallest plan of all.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from millrace.history import History, Injected
from millrace_properties.checkers import all_checkers
from millrace_properties.mutants import CATALOGUE, Directed, Mutant, Probe
from millrace_properties.plans import PLAN_BYTES, Plan, decode_plan, ground_of
from millrace_properties.reference import outcome_of, run_reference
from millrace_properties.verification import run_plan, violations
from millrace_properties.workloads import WORKLOADS, Workload
from millrace_sim import SOUND, Feed, Protocol

REFERENCE = "reference"
ERROR = "error"
_SMALL = 3
"""So many faults at most are tried together before the whole plan is thinned out."""
_SHRINK_RUNS = 250
"""Runs that shrinking may take."""
_MORE_SEEDS = 200
"""Runs more that a plan of more faults than those is worth."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One run of a protocol, judged.

    Attributes:
        activations: how often the mutant did something else than the sound protocol.
        broken: oracle to what it says, of those that fired.
    """

    activations: int
    broken: dict[str, str]


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
        directed: it was run in its directed scenario, and not left to chance.
        message: what the first of those oracles says of the small plan's run.
    """

    name: str
    breaks: tuple[str, ...]
    activated: bool
    killed_by: tuple[str, ...]
    runs: int
    plan: Plan | None = None
    feed_seed: int = 0
    directed: bool = False
    message: str = ""

    @property
    def killed(self) -> bool:
        """An oracle caught it."""
        return bool(self.killed_by)

    @property
    def faults(self) -> int | None:
        """How many faults the small plan has."""
        return None if self.plan is None else self.plan.faults.count


def hunt(mutant: Mutant, seeds: Sequence[int]) -> Hunted:
    """Run a mutant under one plan for each seed until it is killed, or in its directed scenario; then make the plan small.

    Args:
        mutant: whom.
        seeds: of the plans and of the input, in this order.
    """
    workload = WORKLOADS[mutant.workload]
    if mutant.directed is not None:
        return _direct(mutant, workload, mutant.directed)
    activated = False
    for runs, seed in enumerate(seeds, 1):
        case = _Case(mutant, workload, seed)
        plan = plan_of(workload, case.feed, seed)
        found = case.judge(plan)
        activated |= found.activations > 0
        if found.activations and found.broken:
            killed = _killed(case, plan, found, runs)
            return killed if _size(killed) <= _SMALL else _smaller(killed, mutant, seeds[runs:])
    return Hunted(mutant.name, mutant.breaks, activated, (), len(seeds))


def hunt_named(name: str, seeds: Sequence[int]) -> Hunted:
    """`hunt`, for another process: what crosses to it is small."""
    return hunt(CATALOGUE[name], seeds)


def judge_run(
    workload: Workload, feed: Feed, plan: Plan, protocol: Protocol = SOUND, probe: Probe | None = None
) -> Judgement:
    """Run a protocol once, and ask all oracles.

    Args:
        workload: what is run.
        feed: its input.
        plan: the faults, options and seed.
        protocol: the state machines to host.
        probe: the protocol's.
    """
    probe = probe or Probe()
    try:
        history, verdicts, _ = run_plan(workload.deployed, feed, plan, protocol)
    except Exception as error:  # noqa: BLE001  a broken protocol may stop with anything
        return Judgement(probe.count, {ERROR: f"{type(error).__name__}: {error}"})
    broken = {name: one.message for name, one in violations(verdicts).items()}
    if (
        workload.settled
        and not _is_late(history)
        and outcome_of(history) != run_reference(workload.pipeline, feed)
    ):
        broken[REFERENCE] = (
            "output or state differs from what the plain sequential reference makes of the same input"
        )
    return Judgement(probe.count, broken)


def plan_of(workload: Workload, feed: Feed, seed: int) -> Plan:
    """The plan of a seed: random, and for seed 0 the one without faults."""
    data = Random(f"{seed}/plan").randbytes(PLAN_BYTES) if seed else bytes(PLAN_BYTES)
    return decode_plan(data, ground_of(workload.deployed, feed, workload.options), workload.options)


def oracle_names() -> dict[str, str]:
    """Each oracle, and what it says in a line."""
    names = {
        REFERENCE: "the run comes to what the plain reference does",
        ERROR: "the run does not stop with an error",
    }
    for workload in WORKLOADS.values():
        names |= {one.name: one.title for one in all_checkers([workload.pipeline]) if not one.finding}
    return names


def _is_late(history: History) -> bool:
    """Some record was late from the source: then what comes of it may depend on when."""
    injected = (event for event in history if isinstance(event, Injected))
    return any(one.timestamp < event.source_watermark for event in injected for one in event.productions)


class _Case:
    """A mutant on its workload, with the input of one seed."""

    def __init__(self, mutant: Mutant, workload: Workload, feed_seed: int) -> None:
        self.mutant = mutant
        self.workload = workload
        self.feed_seed = feed_seed
        self.feed = workload.feed(feed_seed)

    def judge(self, plan: Plan) -> Judgement:
        """Run it."""
        probe = Probe()
        return judge_run(self.workload, self.feed, plan, self.mutant.protocol(probe), probe)


def _killed(case: _Case, plan: Plan, found: Judgement, runs: int, *, directed: bool = False) -> Hunted:
    small, last = _shrink(case, plan, found)
    first = next(name for name in last.broken if name in found.broken)
    return Hunted(
        name=case.mutant.name, breaks=case.mutant.breaks, activated=True, killed_by=tuple(found.broken), runs=runs, plan=small,
        feed_seed=case.feed_seed, directed=directed, message=last.broken[first],
    )  # fmt: skip


def _smaller(killed: Hunted, mutant: Mutant, seeds: Sequence[int]) -> Hunted:
    """A plan of many faults tells little: look a little further for a smaller one."""
    for seed in seeds[:_MORE_SEEDS]:
        case = _Case(mutant, WORKLOADS[mutant.workload], seed)
        plan = plan_of(case.workload, case.feed, seed)
        found = case.judge(plan)
        if found.activations and found.broken:
            other = _killed(case, plan, found, killed.runs)
            if _size(other) < _size(killed):
                killed = other
            if _size(killed) <= _SMALL:
                break
    return killed


def _size(killed: Hunted) -> int:
    assert killed.faults is not None
    return killed.faults


def _direct(mutant: Mutant, workload: Workload, directed: Directed) -> Hunted:
    case = _Case(mutant, workload, directed.feed_seed)
    plan = directed.plan(workload.options)
    found = case.judge(plan)
    if found.activations and found.broken:
        return _killed(case, plan, found, 1, directed=True)
    return Hunted(mutant.name, mutant.breaks, found.activations > 0, (), 1, directed=True)


# Shrinking


def _shrink(case: _Case, plan: Plan, found: Judgement) -> tuple[Plan, Judgement]:
    """Find a small plan that is caught by one of the same oracles: few faults first, then default options."""
    budget = iter(range(_SHRINK_RUNS))
    last = found

    def still(one: Plan) -> bool:
        nonlocal last
        if next(budget, None) is None:
            return False
        judged = case.judge(one)
        fails = bool(judged.activations) and not found.broken.keys().isdisjoint(judged.broken)
        if fails:
            last = judged
        return fails

    plan = _fewer_faults(plan, still)
    default = Plan(plan.faults, case.workload.options, plan.seed)
    if default != plan and still(default):
        plan = default
    return plan, last


def _fewer_faults(plan: Plan, still: Callable[[Plan], bool]) -> Plan:
    faults = plan.faults.planned
    for kept in _subsets(len(faults)):
        small = _with_faults(plan, kept)
        if still(small):
            return small
    left = list(range(len(faults)))
    for one in range(len(faults)):
        rest = [number for number in left if number != one]
        if still(_with_faults(plan, rest)):
            left = rest
    return _with_faults(plan, left)


def _subsets(count: int) -> Iterator[Sequence[int]]:
    """The small subsets, the smallest first."""
    for size in range(min(_SMALL + 1, count)):
        yield from itertools.combinations(range(count), size)


def _with_faults(plan: Plan, kept: Sequence[int]) -> Plan:
    schedule = plan.faults.with_planned(plan.faults.planned[number] for number in kept)
    if not kept:
        schedule = msgspec.structs.replace(schedule, heal_at_us=0)
    return msgspec.structs.replace(plan, faults=schedule)
