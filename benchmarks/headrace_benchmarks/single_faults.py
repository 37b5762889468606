"""Every single fault at every protocol step of every workload, all oracles on: the sound protocol must hold in each run.

``python -m headrace_benchmarks.single_faults`` prints the table of docs/explanation/search.md, a row as soon as
it is known; with names of workloads behind it, only theirs. ``--pairs N`` tries so many pairs of faults instead. It goes on
behind an alarm, and ends with 1 if there was one.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from headrace import SECOND
from headrace_properties.search.oracles import ERROR, fired, try_workload
from headrace_properties.search.parallel import spread
from headrace_properties.search.plans import Plan, ground_of
from headrace_properties.search.step_faults import pairs_of, single_faults
from headrace_properties.search.workloads import WORKLOADS
from headrace_sim import FaultSchedule, StepFault
from headrace_sim.kernel import seldom_collected

_MOST_TOLD = 5
"""Alarms of a workload that are told; the others are likely the same."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What the runs of one workload came to.

    Attributes:
        workload: its name.
        runs: one for each fault, or pair.
        struck: runs in which a fault found something to strike.
        events: of their Histories.
        cpu_s: CPU time, seconds.
        alarms: what was tried, and which oracle fired with what message.
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
        name: of the workload.
        first: at so many of each kind of step, and at the last one.
        pairs: so many pairs instead; 0: single faults.
        seed: of the input, and of the draw of pairs.
    """
    began = time.process_time()
    workload = WORKLOADS[name]
    feed, base = workload.feed(seed), workload.options
    singles = single_faults(workload.deployed, feed, base, first)
    chosen: list[tuple[StepFault, ...]] = (
        pairs_of(singles, pairs, seed) if pairs else [(one,) for one in singles]
    )
    heal_at_us = ground_of(workload.deployed, feed, base).horizon_us + SECOND
    struck, events, alarms = 0, 0, []
    for faults in chosen:
        outcome = try_workload(workload, feed, Plan(FaultSchedule((), heal_at_us, at_steps=faults), base, 0))
        struck += bool(outcome.strikes)
        events += outcome.events
        oracles = fired(outcome)
        if oracles:
            message = outcome.error if ERROR in oracles else outcome.broken[oracles[0]].message
            alarms.append(f"{' and '.join(map(str, faults))}: {', '.join(oracles)}: {message}")
    return Tried(name, len(chosen), struck, events, time.process_time() - began, tuple(alarms))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser("python -m headrace_benchmarks.single_faults")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument(
        "--first", type=int, default=1, help="at so many of each kind of step, and at the last one"
    )
    parser.add_argument("--pairs", type=int, default=0, help="so many pairs of faults instead")
    parser.add_argument("--seed", type=int, default=0, help="of the input, and of the draw of pairs")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the workloads")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload is called {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    work = partial(try_all, first=given.first, pairs=given.pairs, seed=given.seed)
    found: list[Tried] = []
    print(f"{'workload':<18}{'runs':>8}{'struck':>8}{'alarms':>8}{'events':>12}{'CPU s':>8}")
    for one in spread(work, given.workloads or list(WORKLOADS), given.jobs):
        found.append(one)
        _print(one)
    _print(_sum(found), told=0)
    return int(any(one.alarms for one in found))


def _print(one: Tried, told: int = _MOST_TOLD) -> None:
    print(
        f"{one.workload:<18}{one.runs:>8,}{one.struck:>8,}{len(one.alarms):>8}{one.events:>12,}{one.cpu_s:>8.1f}",
        *(f"    {alarm}" for alarm in one.alarms[:told]),
        sep="\n",
        flush=True,
    )


def _sum(found: Sequence[Tried]) -> Tried:
    return Tried(
        "all", sum(one.runs for one in found), sum(one.struck for one in found), sum(one.events for one in found),
        sum(one.cpu_s for one in found), tuple(alarm for one in found for alarm in one.alarms),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
