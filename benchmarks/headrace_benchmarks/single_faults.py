"""Every single fault at every protocol step of every workload, all oracles on: the sound protocol must hold in each run.

`headrace_benchmarks.studies` tells what came of it.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from headrace import SECOND
from headrace_properties.proof.oracles import ERROR, fired, try_workload
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.parallel import spread
from headrace_properties.search.plans import Plan, ground_of
from headrace_properties.search.step_faults import pairs_of, single_faults
from headrace_sim import FaultSchedule, StepFault
from headrace_sim.kernel import seldom_collected

_MOST_TOLD = 5
"""The number of alarms printed per workload; the others are probably the same."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The results for one workload.

    Attributes:
        workload: the workload's name.
        runs: number of runs, one for each fault or pair.
        struck: number of runs in which a fault struck.
        events: total number of events in their Histories.
        cpu_s: CPU time, seconds.
        alarms: for each alarm, the faults, the oracles that fired, and a message.
    """

    workload: str
    runs: int
    struck: int
    events: int
    cpu_s: float
    alarms: tuple[str, ...]


@seldom_collected()
def try_all(name: str, first: int = 1, pairs: int = 0, seed: int = 0) -> Tried:
    """Try every fault at every step, or some pairs of them.

    Args:
        name: the workload's name.
        first: number of occurrences of each kind of step to strike, in addition to the last one.
        pairs: number of pairs to try instead; 0: single faults.
        seed: seed of the input and of the choice of pairs.
    """
    began = time.process_time()
    workload = WORKLOADS[name]
    feed, base = workload.feed(seed), workload.options
    singles = single_faults(workload.deployed, feed, base, first)
    chosen: list[tuple[StepFault, ...]] = (
        pairs_of(singles, pairs, seed) if pairs else [(fault,) for fault in singles]
    )
    heal_at_us = ground_of(workload.deployed, feed, base).horizon_us + SECOND
    struck, events, alarms = 0, 0, []
    for faults in chosen:
        outcome = try_workload(workload, feed, Plan(FaultSchedule((), heal_at_us, at_steps=faults), base, 0))
        struck += bool(outcome.strikes)
        events += outcome.events
        oracles = fired(outcome)
        if oracles:
            message = str(outcome.error) if ERROR in oracles else outcome.broken[oracles[0]].message
            alarms.append(f"{' and '.join(map(str, faults))}: {', '.join(oracles)}: {message}")
    return Tried(name, len(chosen), struck, events, time.process_time() - began, tuple(alarms))


def rows(
    workloads: Iterable[str], first: int = 1, pairs: int = 0, seed: int = 0, jobs: int = 1
) -> Iterator[dict[str, str]]:
    """Try all faults of each of these workloads, and go on behind an alarm; the last row has the sums. See `try_all`."""
    results: list[Tried] = []
    for tried in spread(partial(try_all, first=first, pairs=pairs, seed=seed), list(workloads), jobs):
        results.append(tried)
        yield _row(tried) | ({"told": "; ".join(tried.alarms[:_MOST_TOLD])} if tried.alarms else {})
    alarms = tuple(alarm for tried in results for alarm in tried.alarms)
    runs, struck, events = (
        sum(getattr(tried, name) for tried in results) for name in ("runs", "struck", "events")
    )
    yield _row(Tried("all", runs, struck, events, sum(tried.cpu_s for tried in results), alarms))


def _row(tried: Tried) -> dict[str, str]:
    return {
        "workload": tried.workload, "runs": f"{tried.runs:,}", "struck": f"{tried.struck:,}",
        "alarms": str(len(tried.alarms)), "events": f"{tried.events:,}", "CPU s": f"{tried.cpu_s:.1f}",
    }  # fmt: skip
