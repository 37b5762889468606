"""``headrace bench harness``: what the verification harness is worth, and what it costs.

Are the broken protocols caught, and the sound one let be? Are the hard cases reached, are runs the same in every process, how
much is a run, and does all of it fit into CI? One run measures all of it. Rates are by CPU time: wall time says more of who
else is using the machine.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least, at_most
from headrace_benchmarks.trace_hashes import HASH_SEEDS, digests_elsewhere
from headrace_properties.checkers import CASES
from headrace_properties.mutants import CATALOGUE
from headrace_properties.mutants.hunt import Hunted, hunt_all
from headrace_properties.search.enumeration import enumerate_faults
from headrace_properties.search.sampled_runs import SampleResult, spread_sample
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.workloads import WORKLOADS, Workload
from headrace_sim.faults import KINDS

SOON = 100
"""Seeds in which chance should have killed most mutants."""
SMALL = ("tallies", "echoes", "windows")
"""The workloads of five records and two stages, and of nothing unusual, whose runs are the unit of speed."""
NOT_BY_CHANCE = {
    "a zombie's write was applied": "only a broken protocol applies it: the mutant without sequencers does",
}
"""Interesting cases that random plans over the sound protocol can not reach, and why."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Attributes:
        mutants: of the catalogue every so manieth.
        seeds: that a mutant may take.
        sample: runs that CI makes, and makes again.
        probed: of those, the ones that are to reach every case.
        runs: of the sound protocol, all in all.
        enumerated: the workloads on which every single fault is tried.
        first: at so many of each kind of step, and at the last one.
        hashed: runs whose digests are compared between processes.
    """

    mutants: int = 1
    seeds: int = 1_000
    sample: int = 2_000
    probed: int = 1_000
    runs: int = 5_000
    enumerated: tuple[str, ...] = ("tallies", "weak tallies")
    first: int = 1
    hashed: int = 66


WHOLE = Size()
QUICK = Size(mutants=40, seeds=100, sample=66, probed=66, runs=66, enumerated=("tallies",), first=0, hashed=4)
FULL_CLAIM = 100_000
"""Runs without a false alarm that the harness is to have behind it."""


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
        "all mutants, single faults and the sample, CPU time for each of 2 cores", in_ci_s / 2, "s",
        "below 300", met=in_ci_s / 2 < 300 if size is WHOLE else None,
        detail=f"the sample is {size.sample:,} seeds, each run twice",
    )  # fmt: skip


BENCHMARK = Benchmark(
    "harness",
    "the verification harness: mutants killed, false alarms, cases reached, equal hashes, speed",
    measure,
)


# Mutants


def _mutants(size: Size, options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    names = list(CATALOGUE)[:: size.mutants]
    found: list[Hunted] = []
    for one in hunt_all(names, size.seeds, options.jobs):
        found.append(one)
        on_progress("hunting mutants", len(found), len(names))
    found.sort(key=lambda one: names.index(one.name))
    idle = [one.name for one in found if not one.activated]
    survivors = [one.name for one in found if not one.killed]
    yield at_least(
        "mutants activated", len(found) - len(idle), len(found), f"of {len(found)}", binding=True, detail="; ".join(idle),
    )  # fmt: skip
    yield at_least(
        f"mutants killed within {size.seeds:,} seeds, each by an invariant that it is to break",
        len(found) - len(survivors), len(found), f"of {len(found)}", binding=True,
        detail=f"survivors: {'; '.join(survivors)}" if survivors else "",
    )  # fmt: skip
    directed = [one for one in found if one.directed]
    yield Figure(
        "of those in a directed scenario, that says why chance does not", len(directed),
        detail="; ".join(f"{one.name}: {_why(one.name)}" for one in directed),
    )  # fmt: skip
    soon = sum(one.killed and not one.directed and one.runs <= SOON for one in found)
    yield at_least(f"mutants killed by chance within {SOON} seeds", soon, min(35, len(found)), binding=True)
    faults = [one.faults for one in found if one.faults is not None]
    yield at_most("faults of a mutant's smallest plan, at most", max(faults, default=0), 3, binding=True)
    yield at_most("the same, median", median(faults or [0]), 1, binding=True)
    yield at_most(
        "shrinking a plan, the longest", max(one.shrink_cpu_s for one in found), 10, "s of CPU time",
        detail=f"mean {sum(one.shrink_cpu_s for one in found) / len(found):.2f} s",
    )  # fmt: skip


def _why(name: str) -> str:
    directed = CATALOGUE[name].directed
    return directed.why if directed is not None else ""


# The sound protocol


def _single_faults(size: Size, options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    tried, broken = 0, []
    for workload in (WORKLOADS[name] for name in size.enumerated):
        runs, found = _enumerate(workload, size, options, on_progress)
        tried += runs
        broken += found
    yield at_most(
        "false alarms under every single fault at every protocol step", len(broken), 0, f"in {tried:,} runs",
        binding=True, detail="; ".join(broken),
    )  # fmt: skip


def _enumerate(
    workload: Workload, size: Size, options: BenchOptions, on_progress: OnProgress
) -> tuple[int, list[str]]:
    feed = workload.feed(options.seed)
    total = len(single_faults(workload.deployed, feed, workload.options, size.first))
    found = enumerate_faults(
        workload.deployed, feed, feed_seed=options.seed, options=workload.options, first=size.first, jobs=options.jobs,
        on_run=lambda now: on_progress(f"single faults, {workload.name}", now.runs + now.idle, total),
    )  # fmt: skip
    failure = found.failure
    broken = [] if failure is None else [f"{workload.name}: {', '.join(failure.violations) or failure.error}"]
    return found.runs + found.idle, broken


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
        detail="; ".join(f"{one.workload}, seed {one.seed}: {', '.join(one.oracles)}" for one in alarms)
        or f"{len(sample.runs)} workloads; a fault struck in {runs - sample.idle:,} runs",
    )  # fmt: skip
    struck = {
        kind
        for kind in KINDS.values()
        if any(one == kind or one.startswith(f"{kind}_") for one in sample.struck)
    }
    yield at_least(
        "kinds of faults that struck in them", len(struck), len(KINDS), detail=_never(KINDS.values(), struck)
    )


def _probes(sample: SampleResult, size: Size) -> Figure:
    wanted = [case for case in CASES if case not in NOT_BY_CHANCE]
    reached = [case for case in wanted if sample.reached[case]]
    without = "; ".join(f"{case}: {why}" for case, why in NOT_BY_CHANCE.items())
    return Figure(
        "hard cases that random plans reached", len(reached), f"of {len(wanted)} in {sample.runs.total():,} seeds",
        f"all, in {WHOLE.probed:,}", len(reached) == len(wanted), binding=size is not QUICK,
        detail=". ".join(filter(None, (_never(wanted, reached), f"Left out: {without}"))),
    )  # fmt: skip


def _never(wanted: Iterable[str], found: Collection[str]) -> str:
    missing = [one for one in wanted if one not in found]
    return f"never: {', '.join(missing)}" if missing else ""


def _hashes(
    sample: SampleResult, size: Size, options: BenchOptions, on_progress: OnProgress
) -> Iterator[Figure]:
    yield at_most(
        "runs of the sample that were another History the second time", len(sample.unlike), 0, f"of {sample.again:,}",
        binding=True, detail="; ".join(f"{name}, seed {seed}" for name, seed in sample.unlike),
    )  # fmt: skip
    found = []
    total = 2 * len(HASH_SEEDS)
    for hash_seed, digests in digests_elsewhere(size.hashed, options.seed):
        found.append((hash_seed, tuple(digests)))
        on_progress("hashes in other processes", len(found), total)
    kinds = len({digests for _, digests in found})
    yield Figure(
        f"different lists of trace hashes, PYTHONHASHSEED {', '.join(HASH_SEEDS)}", kinds,
        f"in {total} processes", "1", kinds == 1, binding=True, detail=f"{size.hashed} runs each",
    )  # fmt: skip


# Speed


def _small_runs(sample: SampleResult) -> Figure:
    runs = sum(sample.runs[name] for name in SMALL)
    cpu_s = sum(sample.cpu_s[name] for name in SMALL)
    return at_least(
        "small runs (5 records, 2 stages, all oracles on) a minute and core", round(60 * runs / cpu_s), 5_000,
        detail=f"{1_000 * cpu_s / runs:.1f} ms of CPU time each; {', '.join(SMALL)}",
    )  # fmt: skip


class _CpuClock:
    """CPU time of this process and of those that it has waited for, since it was made."""

    def __init__(self) -> None:
        self._began_s = _cpu_s()

    @property
    def elapsed_s(self) -> float:
        """Seconds."""
        return _cpu_s() - self._began_s


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
