"""The watermark authority's kernel: accepting reports, and the minimum over all intervals.

A report comes from a worker and covers many intervals. Usual case: intervals are random, each rises, and the minimum is read
occasionally, as for broadcasts. Worst case: each report is for the interval that holds the minimum, which is read after every
report. Sharded: the intervals belong to several computations, spread over the shards of an authority.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

from headrace import Computation, EngineOptions, Pipeline
from headrace.history import History
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire import messages as m
from headrace.wire.effects import Start
from headrace.wire.keys import KeyInterval
from headrace_benchmarks.kernels.rounds import rate

FEW, MANY = 1_000, 500_000
SHARDS = 4
_COMPUTATIONS = 8
"""The number of computations of a sharded authority: about two per shard."""
_IN_REPORT = 25
_REPORTS_BETWEEN_READS = 40


class _Authority:
    """An authority all of whose intervals have reported once, each a different value.

    Attributes:
        intervals: (computation, keys) of each interval, in the order of their reported values.
    """

    def __init__(self, intervals: int, shards: int) -> None:
        names = [f"stage {number}" for number in range(_COMPUTATIONS if shards > 1 else 1)]
        pipeline, options = Pipeline("reports"), EngineOptions(authority_shards=shards)
        pipeline.injector("source")
        for name in names:
            pipeline.add(Computation(), name=name, inputs=["source"])
        replicas = [
            WatermarkAuthority(f"authority-{shard}.0", shard, (pipeline,), options, History.discarding())
            for shard in range(shards)
        ]
        for replica in replicas:
            replica.handle(0, Start(1))
        self._shard_of = {name: replicas[options.shard_of(name)] for name in names}
        keys = _divided(intervals // len(names))
        self.intervals = [(name, interval) for interval in keys for name in names]
        for report in self.reports(self.intervals, 0):
            self.take(report)
        for name in names:
            self.read(name)

    def reports(self, intervals: Sequence[tuple[str, KeyInterval]], at_us: int) -> Iterator[m.Report]:
        """Yield reports in which each interval is a microsecond ahead of the previous one. A report is for one computation."""
        by_name: dict[str, list[m.IntervalReport]] = {}
        for low_us, (name, keys) in enumerate(intervals, at_us):
            waiting = by_name.setdefault(name, [])
            waiting.append(m.IntervalReport(name, keys, 1, low_us, low_us))
            if len(waiting) == _IN_REPORT:
                yield m.Report("worker", tuple(by_name.pop(name)))
        yield from (m.Report("worker", tuple(waiting)) for waiting in by_name.values())

    def take(self, report: m.Report) -> None:
        """Pass a report to the shard of its computation."""
        self._shard_of[report.intervals[0].computation].handle(0, report)

    def read(self, name: str) -> None:
        """Combine the intervals of a computation, as before a broadcast."""
        self._shard_of[name].progress(name)


def _divided(intervals: int) -> list[KeyInterval]:
    keys = [f"{number:07d}" for number in range(1, intervals)]
    return [KeyInterval(low, high) for low, high in zip(["", *keys], [*keys, None], strict=True)]


def usual_rate(intervals: int, shards: int, updates: int) -> float:
    """Return the updates per CPU second in the usual case."""
    authority, draw = _Authority(intervals, shards), random.Random(0)
    order = list(authority.reports(draw.choices(authority.intervals, k=updates), intervals))

    def run() -> None:
        for number, report in enumerate(order):
            authority.take(report)
            if number % _REPORTS_BETWEEN_READS == 0:
                authority.read(report.intervals[0].computation)

    return rate(updates, run)


def worst_rate(intervals: int, shards: int, updates: int) -> float:
    """Return the updates per CPU second if each one is for the interval with the minimum, which is read after each."""
    authority = _Authority(intervals, shards)
    in_turn = list(islice(cycle(authority.intervals), updates))
    order = [
        (name, m.Report("worker", (m.IntervalReport(name, keys, 1, low_us, low_us),)))
        for low_us, (name, keys) in enumerate(in_turn, intervals)
    ]

    def run() -> None:
        for name, report in order:
            authority.take(report)
            authority.read(name)

    return rate(updates, run)


CASES: dict[str, Callable[[int, int, int], float]] = {"usual": usual_rate, "worst case": worst_rate}
"""Measurements by name."""
