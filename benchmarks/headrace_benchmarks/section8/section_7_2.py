"""7.2: the CPU time of an update at the watermark authority, with up to 500,000 key intervals, with and without shards.

The measurement is a kernel of `headrace paper bench kernels` (`headrace_benchmarks.kernels.authority_kernel`).
"""

from headrace_benchmarks.kernels.authority_kernel import CASES, FEW, MANY, SHARDS
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import USUAL

_UPDATES = 100_000
_POINTS = tuple(
    f"{intervals:,} intervals, {shards} shard{'s' if shards > 1 else ''}"
    for intervals in (FEW, 10_000, 100_000, MANY)
    for shards in (1, SHARDS)
)


def sample(point: str, _seed: int) -> RunSample:
    """Measure one number of intervals and shards."""
    intervals, shards = (int(part.split(maxsplit=1)[0].replace(",", "")) for part in point.split(", "))
    rates = {name: measure(intervals, shards, _UPDATES) for name, measure in CASES.items()}
    return RunSample(point, 0, tuple((point, _figure(name), 1e6 / rate) for name, rate in rates.items()))


def _figure(case: str) -> str:
    return USUAL if case == "usual" else f"CPU µs per update, {case}"


EXPERIMENT = Experiment(
    "authority",
    "7.2",
    f"The watermark authority with up to {MANY:,} key intervals: CPU time per update",
    _POINTS,
    _POINTS[:6],
    sample,
    f"**Not simulated: CPU time on the machine that wrote this report**, for one run of {_UPDATES:,} updates; other machines, or"
    " the same machine under load, take different times. Usual case: each update is for a random interval, and the minimum is"
    " read occasionally, as for broadcasts. Worst case: each update is for the interval that holds the minimum, which is read"
    " after every update. The time grows with the number of intervals because their data no longer fit into the CPU's caches."
    " Shards serve different computations and are independent of each other; they are measured one after the other in one"
    " process, so with one machine per shard, divide the time by the number of shards.",
    wall=True,
    wide=True,
)
