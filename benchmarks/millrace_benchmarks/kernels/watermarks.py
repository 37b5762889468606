"""The watermark authority's kernel: reports taken, and the minimum over all intervals.

Usual: each report is of some interval and raises it, and the minimum is read once a period, as broadcasts do. Worst: each report
is of the interval that holds the minimum, and the minimum is read after each. Sharded: the intervals are those of several
computations, divided among the shards of an authority.
"""

import random
from collections.abc import Callable
from itertools import cycle, islice

from millrace import Computation, EngineOptions, Pipeline
from millrace import _messages as m
from millrace._authority import WatermarkAuthority
from millrace._keys import KeyInterval
from millrace.history import History
from millrace_benchmarks.kernels.rounds import rate

FEW, MANY = 1_000, 500_000
SHARDS = 4
_COMPUTATIONS = 8
"""Of a sharded authority: two for each shard, more or less."""
_BETWEEN_READS = 1_000


class _Authority:
    """An authority whose every interval has reported once."""

    def __init__(self, intervals: int, shards: int) -> None:
        names = [f"stage {number}" for number in range(_COMPUTATIONS if shards > 1 else 1)]
        pipeline, options = Pipeline("reports"), EngineOptions(authority_shards=shards)
        pipeline.injector("source")
        for name in names:
            pipeline.add(Computation(), name=name, inputs=["source"])
        self._options = options
        self._shards = [
            WatermarkAuthority(f"authority-{shard}.0", shard, (pipeline,), options, History.discarding())
            for shard in range(shards)
        ]
        self.intervals = [(name, keys) for name in names for keys in _divided(intervals // len(names))]
        for name, keys in self.intervals:
            self.report(name, keys, 0)

    def report(self, name: str, keys: KeyInterval, low_watermark: int) -> None:
        """An owner reports one interval."""
        one = m.IntervalReport(name, keys, 1, low_watermark, low_watermark)
        self._shards[self._options.shard_of(name)].handle(0, m.Report("worker", (one,)))

    def read(self, name: str) -> None:
        """Combine, as before a broadcast."""
        self._shards[self._options.shard_of(name)].progress(name)


def _divided(intervals: int) -> list[KeyInterval]:
    keys = [f"{number:07d}" for number in range(1, intervals)]
    return [KeyInterval(low, high) for low, high in zip(["", *keys], [*keys, None], strict=True)]


def usual_rate(intervals: int, shards: int, updates: int) -> float:
    """Updates by CPU second."""
    authority, draw = _Authority(intervals, shards), random.Random(0)
    order = draw.choices(authority.intervals, k=updates)

    def run() -> None:
        for low_us, (name, keys) in enumerate(order, 1):
            authority.report(name, keys, low_us)
            if low_us % _BETWEEN_READS == 0:
                authority.read(name)

    return rate(updates, run)


def worst_rate(intervals: int, shards: int, updates: int) -> float:
    """The same where each report raises the minimum, which is read after each."""
    authority = _Authority(intervals, shards)
    order = list(islice(cycle(authority.intervals), updates))

    def run() -> None:
        for low_us, (name, keys) in enumerate(order, 1):
            authority.report(name, keys, low_us)
            authority.read(name)

    return rate(updates, run)


CASES: dict[str, Callable[[int, int, int], float]] = {"usual": usual_rate, "worst case": worst_rate}
