"""What the Dataflow layer costs beside a hand-written computation: sums in fixed windows, both in one run (``make bench``).

By hand: a sum for each open window in the row, a watermark timer at its end, nothing else; late data are dropped. The layer does
the same with ``allowed_lateness(0)``, and carries windows, triggers, timing and panes for it. Both on the simulated cluster, as a
job is run, and in the sequential reference, where user code and its codecs are most of the work. Only the ratios mean something.

And what a record costs by how many windows of its key are open: the layer's logic alone, and with its row read and written.
"""

import gc
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.dataflow import (
    SUM,
    Element,
    FixedWindows,
    GroupByKeyAndWindow,
    Grouping,
    KeyState,
    SlidingWindows,
    read,
)
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_sim import Feed, FeedBuilder, simulate

ROUNDS = 3
RECORDS = 6_000
KEYS = 50
WINDOW_US = SECOND
EVERY_US = MILLISECOND


class WindowSum(Computation):
    """Sums of a key's records by window, by hand."""

    def process_record(self, context: Context, record: Record) -> None:
        """Add it to its window's sum, unless that was told already."""
        if record.late:
            return
        start = record.timestamp - record.timestamp % WINDOW_US
        name = str(start)
        context.state[name] = context.state.get(name, 0) + record.value
        context.set_timer(name, start + WINDOW_US)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a window's sum."""
        start = timer.timestamp - WINDOW_US
        context.produce("sums", {"start": start, "sum": context.state.pop(timer.tag)})


def by_hand() -> Pipeline:
    """The hand-written one."""
    pipeline = Pipeline("by hand")
    pipeline.injector("scores")
    pipeline.add(WindowSum(), name="sum", inputs=["scores"], outputs=["sums"])
    return pipeline


def by_layer() -> Pipeline:
    """The same, as a Dataflow pipeline."""
    windowed = read("scores").window_into(FixedWindows(WINDOW_US)).allowed_lateness(0)
    return windowed.sum().to("sums").pipeline("by layer")


def feed_of(pipeline: Pipeline) -> Feed:
    """A record each millisecond, in order, and a watermark ten times a second."""
    builder = FeedBuilder(pipeline)
    for number in range(RECORDS):
        at_us = SECOND + number * EVERY_US
        builder.record(at_us=at_us, value=number % 7, timestamp=at_us, key=f"{number * 31 % KEYS:02d}")
        if number % 100 == 99:
            builder.watermark(at_us=at_us, low_watermark=at_us + 1)
    return builder.build()


def in_the_cluster(pipeline: Pipeline, feed: Feed) -> int:
    """Run it on the simulated cluster; return how many panes there were."""
    return sum(outputs_of(simulate(pipeline, feed)).values())


def in_the_reference(pipeline: Pipeline, feed: Feed) -> int:
    """Run it one record at a time; likewise."""
    return sum(run_reference(pipeline, feed).outputs.values())


@dataclass(frozen=True, slots=True)
class Cost:
    """One row. ``seconds``: median of CPU time by hand and by the layer."""

    where: str
    by_hand_seconds: float
    by_layer_seconds: float

    @property
    def ratio(self) -> float:
        """How many times as much the layer needs."""
        return self.by_layer_seconds / self.by_hand_seconds


PLACES: dict[str, Callable[[Pipeline, Feed], int]] = {
    "simulated cluster": in_the_cluster,
    "sequential reference": in_the_reference,
}


def compare_costs(rounds: int = ROUNDS) -> list[Cost]:
    """Run all in turn, several times, so that a machine that changes its speed changes it for all."""
    pipelines = [by_hand(), by_layer()]
    feeds = [feed_of(pipeline) for pipeline in pipelines]
    found: dict[str, list[list[float]]] = {where: [[], []] for where in PLACES}
    panes = set()
    for _ in range(rounds):
        for where, run in PLACES.items():
            for times, pipeline, feed in zip(found[where], pipelines, feeds, strict=True):
                gc.collect()
                begun = time.process_time()
                panes.add(run(pipeline, feed))
                times.append(time.process_time() - begun)
    assert len(panes) == 1, f"they do not do the same: {panes}"
    return [Cost(where, *map(statistics.median, times)) for where, times in found.items()]


def test_the_layer_beside_a_computation_written_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print CPU time for a record of both, and the ratio."""
    costs = benchmark.pedantic(compare_costs, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print(
            f"\nseed 0, Python {platform.python_version()}, {platform.machine()}; {RECORDS:,} records, {KEYS} keys"
        )
        print("  CPU microseconds a record     by hand  by layer   ratio")
        for cost in costs:
            each = (seconds / RECORDS * 1e6 for seconds in (cost.by_hand_seconds, cost.by_layer_seconds))
            print(f"  {cost.where:<27}" + "".join(f"{one:>10.0f}" for one in each) + f"{cost.ratio:>8.2f}")


OPEN = (1, 100, 1_440, 10_000)
"""How many windows of one key are open; 1,440: those of a day, by the minute."""


@dataclass(frozen=True, slots=True)
class OpenCost:
    """One row. ``logic_us``, ``row_us``: microseconds for a record, in the layer's logic and for reading and writing its row."""

    windows: int
    logic_us: float
    row_us: float


def cost_of_open(windows: int, records: int = 50) -> OpenCost:
    """Give a key so many open windows, and add to them, one after the other."""
    pipeline = read("scores").window_into(FixedWindows(SECOND)).sum().to("sums").pipeline("open")
    spec = pipeline.computations["sum"]
    assert isinstance(spec.computation, GroupByKeyAndWindow)
    grouping, state = spec.computation.grouping, KeyState()
    for number in range(windows):
        grouping.element(state, Element("k", 1, number * SECOND), 0, 0)
    row = spec.state_codec.encode(state)
    logic: list[float] = []
    codec: list[float] = []
    for number in range(records):
        times = [time.perf_counter()]
        state = spec.state_codec.decode(row)
        times.append(time.perf_counter())
        before = grouping.alarms(state)
        grouping.element(state, Element("k", 1, number * 7919 % windows * SECOND), 0, 0)
        assert grouping.alarms(state) == before
        times.append(time.perf_counter())
        row = spec.state_codec.encode(state)
        times.append(time.perf_counter())
        logic.append(times[2] - times[1])
        codec.append(times[3] - times[2] + times[1] - times[0])
    return OpenCost(windows, statistics.median(logic) * 1e6, statistics.median(codec) * 1e6)


def cost_of_sliding(windows: int) -> float:
    """CPU seconds for an element that is in so many windows, all of them open already."""
    grouping, state = Grouping(windows=SlidingWindows(windows * SECOND, SECOND), combine=SUM), KeyState()
    grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND)
    begun = time.process_time()
    grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND)
    return time.process_time() - begun


def test_what_open_windows_cost(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """Print both."""
    costs = benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: [cost_of_open(windows) for windows in OPEN], rounds=1, iterations=1
    )
    with capsys.disabled():
        print(f"\nPython {platform.python_version()}, {platform.machine()}; one key")
        print("  microseconds a record     logic       row")
        for cost in costs:
            print(f"  {cost.windows:>7,} open windows {cost.logic_us:>11.0f}{cost.row_us:>10.0f}")
        for windows in (3_600, 86_400):
            print(f"  {windows:>7,} sliding windows: {cost_of_sliding(windows) * 1e3:,.0f} ms an element")
