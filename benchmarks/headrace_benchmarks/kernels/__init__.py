"""``headrace paper bench kernels``: the speed of the most important parts, each beside an anchor from the same run.

Rules of this package:

* Figures are CPU time, and the median of several rounds in which a kernel and its anchor take turns (`rounds`).
* An anchor is small, special-purpose code that shows the cost without the framework.
* A speed is reported, and never fails.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from headrace_benchmarks.figures import (
    Benchmark,
    BenchOptions,
    Figure,
    OnProgress,
    at_least,
    at_most,
    is_there,
)
from headrace_benchmarks.kernels import authority_kernel, counting, engine_alone, small, throughput
from headrace_benchmarks.kernels.rounds import Rounds, Run


@dataclass(frozen=True, slots=True)
class KernelSize:
    """The size of each measurement. ``rounds``, ``size_rounds``: numbers of rounds; all others: amounts of work."""

    rounds: int = 5
    records: int = 50_000
    size_records: int = 20_000
    size_rounds: int = 3
    alone: int = 50_000
    counted: int = 100_000
    few: int = authority_kernel.FEW
    many: int = authority_kernel.MANY
    updates: int = 500_000
    ids: int = 500_000
    codec: int = 200_000
    keys: int = 50_000


WHOLE = KernelSize()
QUICK = KernelSize(
    rounds=1, records=2_000, size_records=500, size_rounds=1, alone=2_000, counted=5_000, few=100, many=1_000, updates=5_000,
    ids=5_000, codec=5_000, keys=1_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineKernel:
    """A kernel.

    Attributes:
        name: the kernel's name.
        measure: takes the size, the seed, and a function to call with the name of each finished run.
        needs: optional module that it requires; empty: none.
    """

    name: str
    measure: Callable[[KernelSize, int, Callable[[str], None]], Iterator[Figure]]
    needs: str = ""

    @property
    def can_run(self) -> bool:
        """Whether the module that it needs is installed."""
        return is_there(self.needs)


def _rate(name: str, rounds: Rounds, run: str, what: str) -> Figure:
    return Figure(name, round(rounds.rate(run)), f"{what} per CPU second")


def _deliveries(size: KernelSize, seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    runs = throughput.runs(size.records, seed)
    rounds = Rounds(runs, size.rounds, on_run)
    yield _rate("simulated deliveries", rounds, throughput.ENGINE, "deliveries")
    yield at_least(
        "simulated deliveries, relative to a minimal engine loop", rounds.ratio(throughput.ENGINE, throughput.MINIMAL), 0.1,
        detail=f"the loop: {rounds.rate(throughput.MINIMAL):,.0f} per CPU second",
    )  # fmt: skip
    share = 1 - rounds.ratio(throughput.ENGINE, throughput.WITHOUT_HISTORY)
    yield at_most("the History's share of a run", share, 0.25)


def _sizes(size: KernelSize, seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    rounds = Rounds(throughput.sizes(size.size_records, seed), size.size_rounds, on_run)
    yield at_least(
        "simulated deliveries at 2,000 workers, relative to 200", rounds.ratio(throughput.LARGE, throughput.SMALL), 0.45,
        detail=
        f"{rounds.rate(throughput.LARGE):,.0f} and {rounds.rate(throughput.SMALL):,.0f} per CPU second, same load for each",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pair:
    """A kernel's speed relative to that of its anchor.

    Attributes:
        figure: name of the figure.
        goal: the least ratio.
        what: is done in each.
        runs: the kernel and its anchor, each by name; they take the amount of work.
        amount: the field of `KernelSize` that has it.
        note: more about it.
    """

    figure: str
    goal: float
    what: str
    runs: Mapping[str, Callable[[int], float]]
    amount: str
    note: str = ""

    def measure(self, size: KernelSize, _seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
        amount = getattr(size, self.amount)
        rounds = Rounds({name: partial(run, amount) for name, run in self.runs.items()}, size.rounds, on_run)
        ours, anchor = self.runs
        rates = f"{rounds.rate(ours):,.0f} and {rounds.rate(anchor):,.0f} {self.what} per CPU second"
        yield at_least(self.figure, rounds.ratio(ours, anchor), self.goal, detail=f"{rates}{self.note}")


_ALONE = _Pair(
    "the engine alone, relative to a minimal engine loop", 0.3, "deliveries",
    {"the engine alone": engine_alone.engine_rate, "a minimal engine loop": engine_alone.minimal_rate}, "alone",
)  # fmt: skip
_COUNTING = _Pair(
    "a windowed count, relative to a plain loop by key", 0.12, "records",
    {"a windowed count": counting.engine_rate, "a loop by hand": counting.plain_rate}, "counted",
    "; Bytewax reaches about as much as the goal",
)  # fmt: skip
_MEMBERSHIP = _Pair(
    "the Bloom filter, relative to a Python set", 1.0, "ids",
    {"the engine's filter": small.filter_rate, "a set": small.set_rate}, "ids", "; each is looked up twice",
)  # fmt: skip


def _watermarks(size: KernelSize, _seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    for shards in (1, authority_kernel.SHARDS):
        for case, run in authority_kernel.CASES.items():
            runs: dict[str, Run] = {
                f"authority, {size.many:,} intervals": partial(run, size.many, shards, size.updates),
                f"authority, {size.few:,} intervals": partial(run, size.few, shards, size.updates),
            }  # fmt: skip
            rounds = Rounds(runs, size.size_rounds, on_run)
            many, few = runs
            where = f"{case}, {shards} shards" if shards > 1 else case
            yield at_least(
                f"authority at {size.many:,} intervals, {where}",
                round(rounds.rate(many)),
                500_000,
                "updates per CPU second",
            )
            yield at_most(f"times slower than at {size.few:,}, {where}", rounds.ratio(few, many), 2.5)


def _codec(size: KernelSize, _seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    runs: dict[str, Run] = {
        "records": partial(small.record_rate, size.codec),
        "tuples": partial(small.tuple_rate, size.codec),
    }
    rounds = Rounds(runs, size.rounds, on_run)
    yield at_most(
        "time to encode and decode a record, relative to a MessagePack tuple", rounds.ratio("tuples", "records"), 1.5,
        detail=f"{1e9 / rounds.rate('records'):,.0f} and {1e9 / rounds.rate('tuples'):,.0f} ns of CPU time",
    )  # fmt: skip


def _memory(size: KernelSize, _seed: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    size_bytes = small.idle_key_bytes(size.keys)
    on_run("memory")
    yield at_most(
        "a worker's memory per idle key", round(size_bytes), 300, "bytes", detail="with its row in the cache"
    )


KERNELS = {
    kernel.name: kernel
    for kernel in (
        EngineKernel("membership", _MEMBERSHIP.measure),
        EngineKernel("codec", _codec, needs="pyspark"),
        EngineKernel("memory", _memory),
        EngineKernel("engine alone", _ALONE.measure),
        EngineKernel("windowed count", _COUNTING.measure),
        EngineKernel("watermarks", _watermarks),
        EngineKernel("deliveries", _deliveries),
        EngineKernel("sizes", _sizes),
    )
}
"""Kernels by name, small ones first: large ones fragment the process's memory, which slows down later ones."""


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Measure all kernels."""
    size = QUICK if options.quick else WHOLE
    for done, kernel in enumerate(KERNELS.values()):
        on_progress(kernel.name, done, len(KERNELS))
        if kernel.can_run:
            yield from kernel.measure(size, options.seed, partial(_say, on_progress, kernel.name, done))
    left_out = [
        f"{kernel.name}: {kernel.needs} is not installed" for kernel in KERNELS.values() if not kernel.can_run
    ]
    if left_out:
        yield Figure("kernels left out", len(left_out), detail="; ".join(left_out))


def _say(on_progress: OnProgress, kernel: str, done: int, run: str) -> None:
    on_progress(f"{kernel}: {run}", done, len(KERNELS))


BENCHMARK = Benchmark(
    "kernels", "wall-clock kernels: deliveries, engine, watermarks, filter, codec, memory", measure
)
