"""``headrace paper bench dataflow``: what the Dataflow layer costs, beside a computation written by hand and by open windows.

The computation by hand keeps a sum for each open window in the row, sets a watermark timer at the window's end, and drops late
data. The layer does the same with ``allowed_lateness(0)``, and handles windows, triggers, timing and panes. Both run on the
simulated cluster, like any job, and in the sequential reference, where user code and codecs dominate. Only ratios are meaningful.

The cost of a record by the number of its key's open windows is measured in the layer alone, which reads and writes the row; in
the sequential reference; and of all that a simulated cluster does for it, without a History and with one, which keeps rows.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

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
from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress
from headrace_benchmarks.kernels.rounds import Rounds, Run, rate
from headrace_properties.reference import run_reference
from headrace_sim import Feed, FeedBuilder, simulate, start

ROUNDS = 3
RECORDS = 6_000
WINDOW_US = SECOND


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


def feed_of(pipeline: Pipeline, records: int) -> Feed:
    """Make a record per millisecond, in order, of 50 keys, and a watermark ten times a second."""
    builder = FeedBuilder(pipeline)
    for number in range(records):
        at_us = SECOND + number * MILLISECOND
        builder.record(at_us=at_us, value=number % 7, timestamp=at_us, key=f"{number * 31 % 50:02d}")
        if number % 100 == 99:
            builder.watermark(at_us=at_us, low_watermark=at_us + 1)
    return builder.build()


PLACES: dict[str, Callable[[Pipeline, Feed], object]] = {
    "the simulated cluster": simulate,
    "the sequential reference": run_reference,
}


def _beside_by_hand(records: int, rounds: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    pipelines = by_hand(), by_layer()
    feeds = [feed_of(pipeline, records) for pipeline in pipelines]
    for where, run in PLACES.items():
        runs: dict[str, Run] = {
            pipeline.name: partial(rate, records, partial(run, pipeline, feed))
            for pipeline, feed in zip(pipelines, feeds, strict=True)
        }
        measured = Rounds(runs, rounds, on_run)
        by_hand_us, by_layer_us = (1e6 / measured.rate(name) for name in runs)
        yield Figure(
            f"a sum by the layer, relative to one by hand, in {where}", measured.ratio("by hand", "by layer"),
            detail=f"{by_layer_us:.0f} and {by_hand_us:.0f} microseconds of CPU time per record",
        )  # fmt: skip


# Open windows

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


def rate_of_layer(windows: int, records: int = 200) -> float:
    """Return the records per CPU second of the layer: reading the row, adding the element, writing the row."""
    spec = with_open(windows).computations["sum"]
    assert isinstance(spec.computation, GroupByKeyAndWindow)
    grouping, codec, state = spec.computation.grouping, spec.state_codec, KeyState()
    grouping.element(state, Element("k", 0, FIRST_US), 0, 0)
    row, state = codec.encode(state), KeyState()  # all its windows are freed here, not below

    def run() -> None:
        nonlocal row, state
        for number in range(records):
            state = decode_state(codec, row)
            grouping.element(state, Element("k", 1, FIRST_US + number * 7919 % windows * SECOND), 0, 0)
            row = codec.encode(state)

    return rate(records, run)


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
        """Make the input with this number of later records."""
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

    def rate_in_the_cluster(self, *, keeps_history: bool, records: int = 500) -> float:
        """Return the later records per CPU second of the simulated cluster."""
        history = None if keeps_history else History.discarding()
        cluster = start(self.pipeline, self.feed(records), history=history)
        cluster.run_until(self.opened_us - MILLISECOND)
        return rate(records, lambda: cluster.run_until(self.opened_us + records * OPEN_PERIOD_US))

    def rate_in_the_reference(self, records: int = 2_000) -> float:
        """Return the later records per CPU second of the sequential reference."""
        first, times = len(self.opening), list[float]()

        def on_entry(done: int) -> bool:
            if done == first:
                gc.collect()
            if done in (first, first + records):
                times.append(time.process_time())
            return len(times) > 1

        run_reference(self.pipeline, self.feed(records + 1), on_entry)
        begun, ended = times
        return records / (ended - begun)


def fixed(windows: int) -> ManyWindows:
    """Fixed windows of a second, opened by one record."""
    return ManyWindows(
        with_open(windows), [FIRST_US], lambda number: FIRST_US + number * 7919 % windows * SECOND
    )


def spread(strategy: WindowFn, times: int, *, within_us: int) -> ManyWindows:
    """Open windows ten seconds apart; later records come within a number of microseconds after one of them."""
    pipeline = read("scores").window_into(strategy).sum().to("sums").pipeline("spread")
    opening = range(FIRST_US, FIRST_US + times * 10 * SECOND, 10 * SECOND)
    return ManyWindows(
        pipeline, opening, lambda number: opening[number * 7919 % times] + number * MILLISECOND % within_us
    )


def sessions(windows: int) -> ManyWindows:
    """Grow sessions."""
    return spread(Sessions(5 * SECOND), windows, within_us=4 * SECOND)


def sliding(windows: int) -> ManyWindows:
    """Sliding windows, a record in ten."""
    return spread(SlidingWindows(10 * SECOND, SECOND), -(-windows // 10), within_us=SECOND)


CASES: dict[str, Callable[[int], float]] = {
    "fixed windows, the layer alone": rate_of_layer,
    **{
        f"{kind}, {where}": run
        for kind, of in (("fixed windows", fixed), ("sessions that grow", sessions), ("sliding windows, a record in 10", sliding))
        for where, run in {
            "in the reference": lambda windows, of=of: of(windows).rate_in_the_reference(),
            "in the cluster": lambda windows, of=of: of(windows).rate_in_the_cluster(keeps_history=False),
            "in the cluster with a History": lambda windows, of=of: of(windows).rate_in_the_cluster(keeps_history=True),
        }.items()
    },
}  # fmt: skip
"""Records per CPU second by the number of open windows."""


def _by_open_windows(sizes: Sequence[int], rounds: int, on_run: Callable[[str], None]) -> Iterator[Figure]:
    for case, run in CASES.items():
        runs: dict[str, Run] = {f"{windows:,} open": partial(run, windows) for windows in sizes}
        measured = Rounds(runs, rounds, lambda done, case=case: on_run(f"{case}, {done}"))  # type: ignore[misc]
        one = next(iter(runs))
        for name in runs:
            yield Figure(
                f"{case}, {name}", 1e6 / measured.rate(name), "us of CPU time per record",
                detail=f"{measured.ratio(one, name):.2f} times that with {one}",
            )  # fmt: skip


def _of_sliding(windows: int) -> Figure:
    """Measure an element in this many windows, all of them already open."""
    grouping, state = Grouping(windows=SlidingWindows(windows * SECOND, SECOND), combine=SUM), KeyState()
    grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND)
    per_second = rate(1, lambda: grouping.element(state, Element("k", 1, 0), 0, -windows * SECOND))
    return Figure(f"an element in {windows:,} sliding windows", 1e3 / per_second, "ms of CPU time")


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Measure everything, part by part."""
    rounds = 1 if options.quick else options.runs or ROUNDS
    done, total = 0, 2 * len(PLACES) * rounds + len(CASES) * len(OPEN) * rounds

    def on_run(name: str) -> None:
        nonlocal done
        done = min(done + 1, total)
        on_progress(name, done, total)

    yield from _beside_by_hand(300 if options.quick else RECORDS, rounds, on_run)
    yield from _by_open_windows(OPEN[:2] if options.quick else OPEN, rounds, on_run)
    for windows in () if options.quick else (3_600, 86_400):
        yield _of_sliding(windows)


BENCHMARK = Benchmark(
    "dataflow", "the Dataflow layer beside a computation written by hand, and by open windows", measure
)
