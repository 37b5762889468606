"""7.2: what an update costs the watermark authority, with up to 500,000 key intervals, sharded and not. CPU time of this machine.

The measure itself is a kernel of `headrace bench kernels` (`headrace_benchmarks.kernels.watermarks`).
"""

from headrace_benchmarks.kernels.watermarks import CASES, FEW, MANY, SHARDS
from headrace_benchmarks.section8.experiment import Experiment, Sample
from headrace_benchmarks.section8.paper import USUAL

_UPDATES = 100_000
_POINTS = tuple(
    f"{intervals:,} intervals, {shards} shard{'s' if shards > 1 else ''}"
    for intervals in (FEW, 10_000, 100_000, MANY)
    for shards in (1, SHARDS)
)


def sample(point: str, _seed: int) -> Sample:
    """Measure one size."""
    intervals, shards = (int(part.split(maxsplit=1)[0].replace(",", "")) for part in point.split(", "))
    rates = {name: measure(intervals, shards, _UPDATES) for name, measure in CASES.items()}
    return Sample(point, 0, tuple((point, _figure(name), 1e6 / rate) for name, rate in rates.items()))


def _figure(case: str) -> str:
    return USUAL if case == "usual" else f"{case}, CPU µs"


EXPERIMENT = Experiment(
    "authority",
    "7.2",
    f"The watermark authority with up to {MANY:,} key intervals: CPU time of an update",
    _POINTS,
    _POINTS[:6],
    sample,
    f"**Not simulated: CPU time of the machine that wrote this report**, of {_UPDATES:,} updates, once; another one, or the same"
    " one when it is busy, takes another time. Usual: the interval is any of them, and the minimum is read once in a while, as"
    " broadcasts do. Worst case: it is the one that holds the minimum, which is read after each. What grows with the number of"
    " intervals is what memory takes that no cache of the CPU holds. Shards have computations of their own and know nothing of"
    " each other; they are measured in one process, one after the other, so that with a machine for each the time is divided by"
    " their number.",
    wall=True,
    wide=True,
)
