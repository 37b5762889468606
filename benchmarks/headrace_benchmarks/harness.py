"""``headrace paper bench harness``: the value and the cost of the verification harness.

Does it catch all broken protocols, without false alarms? Does it reach the hard cases, are runs the same in every process, how
much does a run cost, and does everything fit into CI? One run measures all of this. Rates are per CPU time, since wall time
depends on who else uses the machine.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least, at_most
from headrace_benchmarks.sampled_runs import SampleResult, spread_sample
from headrace_benchmarks.trace_hashes import HASH_SEEDS, digests_elsewhere
from headrace_properties.checkers import CASES
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.mutants.hunt import Hunted, hunt_all
from headrace_properties.proof.workloads import WORKLOADS, Workload
from headrace_properties.search.enumeration import Enumeration
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.strategy import search
from headrace_sim.faults import KINDS

SOON = 100
"""The number of seeds within which chance should kill most mutants."""
SMALL = ("tallies", "echoes", "windows")
"""The plain workloads of five records and two stages, whose runs are the unit of speed."""
NOT_BY_CHANCE = {
    "a zombie's write was applied": "only a broken protocol applies it, such as the mutant without sequencers",
}
"""Interesting cases that random plans over the sound protocol cannot reach, and why."""


@dataclass(frozen=True, slots=True)
class HarnessSize:
    """The size of each measurement.

    Attributes:
        mutants: names of those to hunt.
        seeds: maximum number of seeds per mutant.
        sample: number of runs that CI makes, each twice.
        probed: number of these within which every case should be reached.
        runs: total number of runs of the sound protocol.
        enumerated: workloads on which every single fault is tried.
        first: number of occurrences of each kind of step to strike, in addition to the last one.
        hashed: number of runs whose digests are compared between processes.
    """

    mutants: tuple[str, ...] = tuple(CATALOGUE)
    seeds: int = 1_000
    sample: int = 2_000
    probed: int = 1_000
    runs: int = 5_000
    enumerated: tuple[str, ...] = ("tallies", "weak tallies")
    first: int = 1
    hashed: int = 66


WHOLE = HarnessSize()
QUICK = HarnessSize(
    mutants=("ack on receipt", "timers not journaled", "a replaced master still mints", "a full cache keeps its rows"),
    seeds=100, sample=66, probed=66, runs=66, enumerated=("tallies",), first=0, hashed=4,
)  # fmt: skip
FULL_CLAIM = 100_000
"""The claimed number of runs without a false alarm."""


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Measure everything, part by part."""
    size = QUICK if options.quick else WHOLE
    clock = _CpuClock()
    yield from _mutants(size, options, on_progress)
    yield from _single_faults(size, options, on_progress)
    sample, probed = SampleResult(), SampleResult()
    for part in _sampled(range(size.probed), options, on_progress, again=True):
        probed.add(part)
    for part in _sampled(range(size.probed, size.sample), options, on_progress, again=True):
        sample.add(part)
    sample.add(probed)
    in_ci_s = clock.elapsed_s
    for part in _sampled(range(size.sample, options.runs or size.runs), options, on_progress, again=False):
        sample.add(part)
    yield from _false_alarms(sample)
    yield _probes(probed, size)
    yield from _hashes(sample, size, options, on_progress)
    yield _small_runs(sample)
    yield Figure(
        "all mutants, single faults and the sample, CPU time on each of 2 cores", in_ci_s / 2, "s",
        "below 300", met=in_ci_s / 2 < 300 if size is WHOLE else None,
        detail=f"the sample is {size.sample:,} seeds, each run twice",
    )  # fmt: skip


BENCHMARK = Benchmark(
    "harness",
    "the verification harness: mutants killed, false alarms, cases reached, equal hashes, speed",
    measure,
)


def measure_alarms(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Run the sample, and count the runs in which an oracle fires, also if the command is ended before its time."""
    runs = options.runs or (QUICK.runs if options.quick else WHOLE.runs)
    sample = SampleResult()
    try:
        for part in _sampled(range(runs), options, on_progress, again=False):
            sample.add(part)
    except KeyboardInterrupt:
        if sample.runs:
            yield from _false_alarms(sample)
        raise
    yield from _false_alarms(sample)
    cpu_s = sample.cpu_s.total()
    yield Figure(
        "runs per minute and core, all workloads", round(60 * runs / cpu_s),
        detail=f"{1_000 * cpu_s / runs:.1f} ms of CPU time each",
    )  # fmt: skip


ALARMS = Benchmark(
    "alarms",
    "runs of the sound protocol over all workloads, with varied inputs, faults and options: no oracle may fire",
    measure_alarms,
)


# Mutants


def _mutants(size: HarnessSize, options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    names = size.mutants
    hunts: list[Hunted] = []
    for hunted in hunt_all(names, size.seeds, options.jobs):
        hunts.append(hunted)
        on_progress("hunting mutants", len(hunts), len(names))
    hunts.sort(key=lambda hunted: names.index(hunted.name))
    idle = [hunted.name for hunted in hunts if not hunted.activated]
    survivors = [hunted.name for hunted in hunts if not hunted.killed]
    yield at_least(
        "mutants activated", len(hunts) - len(idle), len(hunts), f"of {len(hunts)}", binding=True, detail="; ".join(idle),
    )  # fmt: skip
    yield at_least(
        f"mutants killed within {size.seeds:,} seeds, each by an expected invariant",
        len(hunts) - len(survivors), len(hunts), f"of {len(hunts)}", binding=True,
        detail=f"survivors: {'; '.join(survivors)}" if survivors else "",
    )  # fmt: skip
    directed = [hunted for hunted in hunts if hunted.directed]
    yield Figure(
        "mutants killed only in a directed scenario", len(directed),
        detail="; ".join(f"{hunted.name}: {_why(hunted.name)}" for hunted in directed),
    )  # fmt: skip
    by_chance = [hunted for hunted in hunts if not hunted.directed]
    soon = sum(hunted.killed and hunted.runs <= SOON for hunted in by_chance)
    yield at_least(
        f"mutants killed by chance within {SOON} seeds", soon, min(35, len(by_chance)), binding=True
    )
    faults = [hunted.faults for hunted in hunts if hunted.faults is not None]
    yield at_most("faults in a mutant's smallest plan, maximum", max(faults, default=0), 3, binding=True)
    yield at_most("faults in a mutant's smallest plan, median", median(faults or [0]), 1, binding=True)
    yield at_most(
        "shrinking a plan, maximum", max(hunted.shrink_cpu_s for hunted in hunts), 10, "s of CPU time",
        detail=f"mean {sum(hunted.shrink_cpu_s for hunted in hunts) / len(hunts):.2f} s",
    )  # fmt: skip


def _why(name: str) -> str:
    directed = CATALOGUE[name].directed
    return directed.why if directed is not None else ""


# The sound protocol


def _single_faults(size: HarnessSize, options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    tried, broken = 0, []
    for workload in (WORKLOADS[name] for name in size.enumerated):
        runs, alarms = _enumerate(workload, size, options, on_progress)
        tried += runs
        broken += alarms
    yield at_most(
        "false alarms under every single fault at every protocol step", len(broken), 0, f"in {tried:,} runs",
        binding=True, detail="; ".join(broken),
    )  # fmt: skip


def _enumerate(
    workload: Workload, size: HarnessSize, options: BenchOptions, on_progress: OnProgress
) -> tuple[int, list[str]]:
    feed = workload.feed(options.seed)
    total = len(single_faults(workload.deployed, feed, workload.options, size.first))
    result = search(
        Enumeration(workload.application, feed_seed=options.seed, options=workload.options, first=size.first),
        jobs=options.jobs,
        on_run=lambda now: on_progress(f"single faults, {workload.name}", now.runs + now.idle, total),
    )
    failure = result.failure
    broken = [] if failure is None else [f"{workload.name}: {', '.join(failure.violations) or failure.error}"]
    return result.runs + result.idle, broken


def _sampled(
    numbers: range, options: BenchOptions, on_progress: OnProgress, *, again: bool
) -> Iterator[SampleResult]:
    done = 0
    for part in spread_sample(numbers, options.seed, again=again, jobs=options.jobs):
        done += part.runs.total()
        what = "runs, each twice" if again else "runs"
        on_progress(f"{what}, from {numbers.start:,} on", done, len(numbers))
        yield part


def _false_alarms(sample: SampleResult) -> Iterator[Figure]:
    runs, alarms = sample.runs.total(), sample.alarms
    yield Figure(
        "false alarms of the sound protocol, all faults on", len(alarms), f"in {runs:,} runs",
        f"0 in {FULL_CLAIM:,}", not alarms, binding=True,
        detail="; ".join(f"{alarm.workload}, seed {alarm.seed}: {', '.join(alarm.oracles)}" for alarm in alarms)
        or f"{len(sample.runs)} workloads; a fault struck in {runs - sample.idle:,} runs",
    )  # fmt: skip
    struck = {
        kind
        for kind in KINDS.values()
        if any(verb == kind or verb.startswith(f"{kind}_") for verb in sample.struck)
    }
    yield at_least(
        "kinds of faults that struck in these runs",
        len(struck),
        len(KINDS),
        detail=_never(KINDS.values(), struck),
    )


def _probes(sample: SampleResult, size: HarnessSize) -> Figure:
    wanted = [case for case in CASES if case not in NOT_BY_CHANCE]
    reached = [case for case in wanted if sample.reached[case]]
    without = "; ".join(f"{case}: {why}" for case, why in NOT_BY_CHANCE.items())
    return Figure(
        "hard cases that random plans reached", len(reached), f"of {len(wanted)} in {sample.runs.total():,} seeds",
        f"all, in {WHOLE.probed:,}", len(reached) == len(wanted), binding=size is not QUICK,
        detail=". ".join(filter(None, (_never(wanted, reached), f"Left out: {without}"))),
    )  # fmt: skip


def _never(wanted: Iterable[str], seen: Collection[str]) -> str:
    missing = [name for name in wanted if name not in seen]
    return f"never: {', '.join(missing)}" if missing else ""


def _hashes(
    sample: SampleResult, size: HarnessSize, options: BenchOptions, on_progress: OnProgress
) -> Iterator[Figure]:
    yield at_most(
        "runs of the sample whose History differed the second time", len(sample.unlike), 0, f"of {sample.again:,}",
        binding=True, detail="; ".join(f"{name}, seed {seed}" for name, seed in sample.unlike),
    )  # fmt: skip
    lists = []
    total = 2 * len(HASH_SEEDS)
    for hash_seed, digests in digests_elsewhere(size.hashed, options.seed):
        lists.append((hash_seed, tuple(digests)))
        on_progress("hashes in other processes", len(lists), total)
    kinds = len({digests for _, digests in lists})
    yield Figure(
        f"distinct lists of trace hashes, PYTHONHASHSEED {', '.join(HASH_SEEDS)}", kinds,
        f"in {total} processes", "1", kinds == 1, binding=True, detail=f"{size.hashed} runs each",
    )  # fmt: skip


# Speed


def _small_runs(sample: SampleResult) -> Figure:
    runs = sum(sample.runs[name] for name in SMALL)
    cpu_s = sum(sample.cpu_s[name] for name in SMALL)
    return at_least(
        "small runs (5 records, 2 stages, all oracles on) per minute and core", round(60 * runs / cpu_s), 5_000,
        detail=f"{1_000 * cpu_s / runs:.1f} ms of CPU time each; {', '.join(SMALL)}",
    )  # fmt: skip


class _CpuClock:
    """CPU time of this process and the child processes that it has waited for, since the clock was made."""

    def __init__(self) -> None:
        self._began_s = _cpu_s()

    @property
    def elapsed_s(self) -> float:
        """The CPU time in seconds."""
        return _cpu_s() - self._began_s


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
