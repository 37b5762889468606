"""Every single fault at every protocol step of every workload, all oracles on: the sound protocol must hold in each run.

``python -m headrace_benchmarks.single_faults`` prints the table of docs/explanation/search.md row by row; with names of
workloads as arguments, only their rows. ``--pairs N`` tries N pairs of faults instead. The command continues after an alarm, and
exits with 1 if there was one.
"""

import argparse
import sys
import time
from collections.abc import Sequence
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and return the exit code."""
    parser = argparse.ArgumentParser("python -m headrace_benchmarks.single_faults")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument(
        "--first", type=int, default=1, help="occurrences of each kind of step to strike, besides the last"
    )
    parser.add_argument("--pairs", type=int, default=0, help="number of pairs of faults to try instead")
    parser.add_argument("--seed", type=int, default=0, help="seed of the input and of the choice of pairs")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; choose from {', '.join(WORKLOADS)}")
    work = partial(try_all, first=given.first, pairs=given.pairs, seed=given.seed)
    found: list[Tried] = []
    print(f"{'workload':<18}{'runs':>8}{'struck':>8}{'alarms':>8}{'events':>12}{'CPU s':>8}")
    for tried in spread(work, given.workloads or list(WORKLOADS), given.jobs):
        found.append(tried)
        _print(tried)
    _print(_sum(found), told=0)
    return int(any(tried.alarms for tried in found))


def _print(tried: Tried, told: int = _MOST_TOLD) -> None:
    print(
        f"{tried.workload:<18}{tried.runs:>8,}{tried.struck:>8,}{len(tried.alarms):>8}{tried.events:>12,}{tried.cpu_s:>8.1f}",
        *(f"    {alarm}" for alarm in tried.alarms[:told]),
        sep="\n",
        flush=True,
    )


def _sum(found: Sequence[Tried]) -> Tried:
    return Tried(
        "all", sum(tried.runs for tried in found), sum(tried.struck for tried in found),
        sum(tried.events for tried in found), sum(tried.cpu_s for tried in found),
        tuple(alarm for tried in found for alarm in tried.alarms),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
