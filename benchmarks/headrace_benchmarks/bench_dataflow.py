"""The cost of the Dataflow layer, compared with a hand-written computation: sums in fixed windows, in one run (``make bench``).

The hand-written computation keeps a sum for each open window in the row, sets a watermark timer at the window's end, and drops
late data. The layer does the same with ``allowed_lateness(0)``, and handles windows, triggers, timing and panes. Both run on the
simulated cluster, like any job, and in the sequential reference, where user code and codecs dominate. Only ratios are meaningful.

It also measures the cost of a record by the number of its key's open windows: in the layer alone, which reads and writes the row;
in the sequential reference; and of all that a simulated cluster does for it, without a History and with one, which keeps rows.
"""

import gc
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.api.codecs import decode_state
from headrace.dataflow import (
    SUM,
    Element,
    FixedWindows,
    GroupByKeyAndWindow,
    Grouping,
    KeyState,
    Sessions,
    SlidingWindows,
    Window,
    WindowFn,
    read,
)
from headrace.history import History
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_sim import Feed, FeedBuilder, simulate, start

ROUNDS = 3
RECORDS = 6_000
KEYS = 50
WINDOW_US = SECOND
EVERY_US = MILLISECOND


class WindowSum(Computation):
    """Sums a key's records by window, written by hand."""

    def process_record(self, context: Context, record: Record) -> None:
        """Add the record to its window's sum, unless the sum was already produced."""
        if record.late:
            return
        start = record.timestamp - record.timestamp % WINDOW_US
        name = str(start)
        context.state[name] = context.state.get(name, 0) + record.value
        context.set_timer(name, start + WINDOW_US)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce a window's sum."""
        start = timer.timestamp - WINDOW_US
        context.produce("sums", {"start": start, "sum": context.state.pop(timer.tag)})


def by_hand() -> Pipeline:
    """Build the hand-written pipeline."""
    pipeline = Pipeline("by hand")
    pipeline.injector("scores")
    pipeline.add(WindowSum(), name="sum", inputs=["scores"], outputs=["sums"])
    return pipeline


def by_layer() -> Pipeline:
    """Build the same as a Dataflow pipeline."""
    windowed = read("scores").window_into(FixedWindows(WINDOW_US)).allowed_lateness(0)
    return windowed.sum().to("sums").pipeline("by layer")


def feed_of(pipeline: Pipeline) -> Feed:
    """Make a record per millisecond, in order, and a watermark ten times a second."""
    builder = FeedBuilder(pipeline)
    for number in range(RECORDS):
        at_us = SECOND + number * EVERY_US
        builder.record(at_us=at_us, value=number % 7, timestamp=at_us, key=f"{number * 31 % KEYS:02d}")
        if number % 100 == 99:
            builder.watermark(at_us=at_us, low_watermark=at_us + 1)
    return builder.build()


def in_the_cluster(pipeline: Pipeline, feed: Feed) -> int:
    """Run a pipeline on the simulated cluster; return the number of panes."""
    return sum(outputs_of(simulate(pipeline, feed)).values())


def in_the_reference(pipeline: Pipeline, feed: Feed) -> int:
    """Run a pipeline in the sequential reference; return the number of panes."""
    return sum(run_reference(pipeline, feed).outputs.values())


@dataclass(frozen=True, slots=True)
class Cost:
    """One row of the table: median CPU times of the hand-written pipeline and the layer's, seconds."""

    where: str
    by_hand_seconds: float
    by_layer_seconds: float

    @property
    def ratio(self) -> float:
        """The layer's CPU time as a multiple of the hand-written one's."""
        return self.by_layer_seconds / self.by_hand_seconds


PLACES: dict[str, Callable[[Pipeline, Feed], int]] = {
    "simulated cluster": in_the_cluster,
    "sequential reference": in_the_reference,
}


def compare_costs(rounds: int = ROUNDS) -> list[Cost]:
    """Run all in turn, several times, so that changes of the machine's speed affect all alike."""
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
    assert len(panes) == 1, f"the pipelines produced different numbers of panes: {panes}"
    return [Cost(where, *map(statistics.median, times)) for where, times in found.items()]


def test_the_layer_beside_a_computation_written_by_hand(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print both CPU times per record, and their ratio."""
    costs = benchmark.pedantic(compare_costs, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print(
            f"\nseed 0, Python {platform.python_version()}, {platform.machine()}; {RECORDS:,} records, {KEYS} keys"
        )
        print("  CPU microseconds per record   by hand  by layer   ratio")
        for cost in costs:
            each = (seconds / RECORDS * 1e6 for seconds in (cost.by_hand_seconds, cost.by_layer_seconds))
            print(f"  {cost.where:<27}" + "".join(f"{us:>10.0f}" for us in each) + f"{cost.ratio:>8.2f}")


OPEN = (1, 100, 1_440, 10_000)
"""Numbers of open windows of one key; 1,440: one for each minute of a day."""
FIRST_US = 1_600_000_000 * SECOND
OPEN_PERIOD_US = 5 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Opening(FixedWindows):
    """Fixed windows, of which an element with the value 0 is in the first ``many``."""

    many: int = 1

    def assign_windows(self, element: Element) -> Iterable[Window]:
        """Assign an element to its window, or to all."""
        if element.value:
            return FixedWindows.assign_windows(self, element)
        starts = range(FIRST_US, FIRST_US + self.many * SECOND, SECOND)
        return [Window(start, start + SECOND) for start in starts]


def with_open(windows: int) -> Pipeline:
    """Build a pipeline whose first record opens this many windows."""
    return read("scores").window_into(Opening(SECOND, many=windows)).sum().to("sums").pipeline("open")


def cost_of_layer(windows: int, records: int = 200) -> float:
    """Return the microseconds of a record for the layer: reading the row, adding the element, writing the row."""
    spec = with_open(windows).computations["sum"]
    assert isinstance(spec.computation, GroupByKeyAndWindow)
    grouping, codec, state = spec.computation.grouping, spec.state_codec, KeyState()
    grouping.element(state, Element("k", 0, FIRST_US), 0, 0)
    row, state = codec.encode(state), KeyState()  # all its windows are freed here, not below
    begun = time.process_time()
    for number in range(records):
        state = decode_state(codec, row)
        grouping.element(state, Element("k", 1, FIRST_US + number * 7919 % windows * SECOND), 0, 0)
        row = codec.encode(state)
    return (time.process_time() - begun) / records * 1e6


@dataclass(frozen=True, slots=True)
class ManyWindows:
    """A pipeline and its input: records that open windows of one key, then one record after another for one of them each.

    Attributes:
        pipeline: the pipeline.
        opening: event times of the first records, microseconds.
        times: event time of each later record by its number, microseconds.
    """

    pipeline: Pipeline
    opening: Sequence[int]
    times: Callable[[int], int]

    def feed(self, records: int) -> Feed:
        """Make the input with so many later records."""
        builder = FeedBuilder(self.pipeline)
        for number, timestamp in enumerate(self.opening):
            builder.record(at_us=SECOND + number * MILLISECOND, value=0, timestamp=timestamp, key="k")
        for number in range(records):
            at_us = self.opened_us + number * OPEN_PERIOD_US
            builder.record(at_us=at_us, value=1, timestamp=self.times(number), key="k")
        return builder.build()

    @property
    def opened_us(self) -> int:
        """When the first later record comes, microseconds."""
        return 2 * SECOND + len(self.opening) * MILLISECOND

    def cost_in_the_cluster(self, *, keeps_history: bool, records: int = 500) -> float:
        """Return the microseconds of a later record in the simulated cluster."""
        history = None if keeps_history else History.discarding()
        cluster = start(self.pipeline, self.feed(records), history=history)
        cluster.run_until(self.opened_us - MILLISECOND)
        gc.collect()
        begun = time.process_time()
        cluster.run_until(self.opened_us + records * OPEN_PERIOD_US)
        return (time.process_time() - begun) / records * 1e6

    def cost_in_the_reference(self, records: int = 2_000) -> float:
        """Return the microseconds of a later record in the sequential reference."""
        first, times = len(self.opening), list[float]()

        def on_entry(done: int) -> bool:
            if done == first:
                gc.collect()
            if done in (first, first + records):
                times.append(time.process_time())
            return len(times) > 1

        run_reference(self.pipeline, self.feed(records + 1), on_entry)
        begun, ended = times
        return (ended - begun) / records * 1e6


def fixed(windows: int) -> ManyWindows:
    """Fixed windows of a second, opened by one record."""
    return ManyWindows(
        with_open(windows), [FIRST_US], lambda number: FIRST_US + number * 7919 % windows * SECOND
    )


def spread(strategy: WindowFn, times: int, *, within_us: int) -> ManyWindows:
    """Windows at so many times, ten seconds apart; later records come within so many microseconds after one of these."""
    pipeline = read("scores").window_into(strategy).sum().to("sums").pipeline("spread")
    opening = range(FIRST_US, FIRST_US + times * 10 * SECOND, 10 * SECOND)
    return ManyWindows(
        pipeline, opening, lambda number: opening[number * 7919 % times] + number * MILLISECOND % within_us
    )


def cost_of_sliding(windows: int) -> float:
    """Return the CPU seconds for an element in this many windows, all of them already open."""
    grouping, state = Grouping(windows=SlidingWindows(windows * SECOND, SECOND), combine=SUM), KeyState()
    grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND)
    begun = time.process_time()
    grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND)
    return time.process_time() - begun


KINDS: dict[str, Callable[[int], ManyWindows]] = {
    "fixed windows": fixed,
    "sessions that grow": lambda windows: spread(Sessions(5 * SECOND), windows, within_us=4 * SECOND),
    "sliding windows, a record in 10": lambda windows: spread(
        SlidingWindows(10 * SECOND, SECOND), -(-windows // 10), within_us=SECOND
    ),
}
"""What a record does, by the number of open windows."""


def costs_of(case: ManyWindows) -> list[float]:
    """Return what a record costs: in the reference, the cluster, and there with a History of each row written."""
    in_clusters = (case.cost_in_the_cluster(keeps_history=keeps) for keeps in (False, True))
    return [case.cost_in_the_reference(), *in_clusters]


def medians_of(costs: Callable[[int], list[float]]) -> list[list[float]]:
    """Measure by number of open windows, several times in turn, and take medians."""
    runs = [[costs(windows) for windows in OPEN] for _ in range(ROUNDS)]
    return [
        [statistics.median(times) for times in zip(*of_one, strict=True)]
        for of_one in zip(*runs, strict=True)
    ]


def test_what_open_windows_cost(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """Print the costs by number of open windows, each the median of several, and beside those of one window."""
    tables = benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: {
            "fixed windows, the layer alone (one column)": medians_of(
                lambda windows: [cost_of_layer(windows)]
            ),
            **{kind: medians_of(lambda windows, of=of: costs_of(of(windows))) for kind, of in KINDS.items()},  # type: ignore[misc]
        },
        rounds=1,
        iterations=1,
    )
    with capsys.disabled():
        print(f"\nPython {platform.python_version()}, {platform.machine()}; one key")
        print("  CPU microseconds per record, and beside one window")
        print("                        reference          cluster     with History")
        for kind, medians in tables.items():
            print(f"  {kind}")
            for windows, row in zip(OPEN, medians, strict=True):
                cells = (f"{us:>10.0f}{us / one:>7.2f}" for us, one in zip(row, medians[0], strict=True))
                print(f"  {windows:>10,} open" + "".join(cells))
        for windows in (3_600, 86_400):
            print(f"  {windows:>7,} sliding windows: {cost_of_sliding(windows) * 1e3:,.0f} ms per element")
