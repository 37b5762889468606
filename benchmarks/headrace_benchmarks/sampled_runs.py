"""A sample of runs of the true engine: every workload in turn under ever new random plans, all faults and all oracles on.

No oracle may fire in any of them: an alarm is either false or a bug in the engine. Run N of a sample is a function of N and
of the sample's seed, in every process.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from headrace.history import History
from headrace_properties.proof.oracles import ERROR, fired, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS, Workload
from headrace_properties.search.fault_kinds import FIRST_TABLE, NEWEST_TABLE
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.parallel import spread
from headrace_properties.search.plans import Plan
from headrace_sim import Feed, simulate

SEEDS = 1_000_000
"""Choice: the seeds of one sample are this far from those of the next, so that samples have no run in common."""

_PART = 220
"""Number of runs per unit of work: ten of each workload, some seconds."""


@dataclass(frozen=True, slots=True)
class SampledRun:
    """One run of a sample, not yet run.

    Attributes:
        workload: what is run.
        seed: of its input and of its plan.
        feed: its input.
        plan: the faults, options and seed.
    """

    workload: Workload
    seed: int
    feed: Feed
    plan: Plan

    def judged(self) -> JudgedRun:
        """Run it, and consult all oracles."""
        return try_workload(self.workload, self.feed, self.plan)

    def history(self) -> History:
        """Run it without judging it."""
        plan, pipeline = self.plan, self.workload.deployed
        return simulate(pipeline, self.feed, options=plan.options, faults=plan.faults, seed=plan.seed)

    def digest(self) -> str:
        """Run it without judging it, and return the digest of its History."""
        return self.history().digest()


@dataclass(frozen=True, slots=True)
class OracleAlarm:
    """A run in which an oracle fired.

    Attributes:
        workload: its name.
        seed: of the input and of the plan (`headrace_properties.proof.oracles.plan_of`).
        oracles: those that fired.
        message: what the first of them says.
    """

    workload: str
    seed: int
    oracles: tuple[str, ...]
    message: str


@dataclass(slots=True)
class SampleResult:
    """The results of a sample, or of a part of one.

    Attributes:
        runs: by workload.
        cpu_s: CPU time that they took, judged, by workload, seconds; what runs again is left out.
        idle: runs in which no fault struck.
        struck: fault to how often it struck.
        reached: interesting case to how often it came up.
        alarms: runs in which an oracle fired.
        again: how many were run twice.
        unlike: (workload, seed) of those whose second History was not the first one, byte for byte.
    """

    runs: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    alarms: list[OracleAlarm] = field(default_factory=list)
    again: int = 0
    unlike: list[tuple[str, int]] = field(default_factory=list)

    def add(self, other: "SampleResult") -> None:
        """Add another part."""
        for mine, its in (
            (self.runs, other.runs),
            (self.cpu_s, other.cpu_s),
            (self.struck, other.struck),
            (self.reached, other.reached),
        ):
            mine.update(its)
        self.idle += other.idle
        self.alarms += other.alarms
        self.again += other.again
        self.unlike += other.unlike

    def take(self, case: SampledRun, judged: JudgedRun, cpu_s: float) -> None:
        """Add a run."""
        name = case.workload.name
        self.runs[name] += 1
        self.cpu_s[name] += cpu_s  # type: ignore[assignment]  # a Counter of seconds
        self.idle += not judged.strikes
        self.struck.update(judged.strikes)
        self.reached.update(judged.cases)
        oracles = fired(judged)
        if oracles:
            first = str(judged.error) if oracles[0] == ERROR else judged.broken[oracles[0]].message
            self.alarms.append(OracleAlarm(name, case.seed, oracles, first))


def case_of(number: int, seed: int = 0) -> SampledRun:
    """Run ``number`` of the sample of a seed: the workloads take turns, and each run has a plan and an input of its own.

    In every other turn its faults are of the newest table of kinds.
    """
    turn, place = divmod(number, len(WORKLOADS))
    workload = list(WORKLOADS.values())[place]
    of_run = seed * SEEDS + number
    feed = workload.feed(of_run)
    table = NEWEST_TABLE if turn % 2 else FIRST_TABLE
    return SampledRun(workload, of_run, feed, plan_of(workload, feed, of_run, table))


def run_sample(numbers: Iterable[int], seed: int = 0, *, again: bool = False) -> SampleResult:
    """Run some of a sample.

    Args:
        numbers: which runs.
        seed: of the sample.
        again: run each a second time, and compare the two Histories' digests.
    """
    sample = SampleResult()
    for number in numbers:
        case = case_of(number, seed)
        began = time.process_time()
        judged = case.judged()
        sample.take(case, judged, time.process_time() - began)
        if again and not judged.error:
            sample.again += 1
            if case.digest() != judged.digest:
                sample.unlike.append((case.workload.name, case.seed))
    return sample


def spread_sample(
    numbers: range, seed: int = 0, *, again: bool = False, jobs: int = 1
) -> Iterator[SampleResult]:
    """Spread `run_sample` over processes; yield its parts, in any order."""
    parts = [numbers[begin : begin + _PART] for begin in range(0, len(numbers), _PART)]
    yield from spread(partial(run_sample, seed=seed, again=again), parts, jobs)
