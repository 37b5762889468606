"""The engine on its simulated cluster: a shuffle of two stages.

Injectors feed a keyed stage, which sends each record on, re-keyed, to a second stage: 100 intervals per stage on 200 workers,
strong productions, exactly-once, History on, retries on, and random faults for each message. Deliveries of both stages count.

Two options differ from the engine's defaults, since the load is high and latency does not matter: an interval has one write in
flight at a time (``commits_in_flight``), and the next write waits some milliseconds for more steps (``commit_linger_us``).
"""

import gc
import time
from dataclasses import dataclass

from headrace import MILLISECOND, SECOND, Computation, Context, EngineOptions, Pipeline, Record
from headrace.history import Delivered, FaultStruck, History, Resent
from headrace_sim import ClusterOptions, FaultSchedule, Feed, FeedBuilder, start
from headrace_sim.faults import Noise

KEYS = 10_000
# Coprime to the number of keys, so that each stage gets all of them equally often.
FIRST_STRIDE = 6_173
SECOND_STRIDE = 7_919
_WARM_UP_US = 2_900 * MILLISECOND


@dataclass(frozen=True, slots=True)
class ShuffleOptions:
    """The load.

    Attributes:
        records: number of injected records; each makes two deliveries.
        workers: number of workers; each stage has half as many intervals.
        injectors: number of injector processes.
        gap_us: simulated time between two records, microseconds.
        fault_rate: probability of each fault per message: drop, duplicate, delay.
        commits_in_flight: see `EngineOptions`; 1 is classic group commit.
        commit_linger_us: see `EngineOptions`.
        history: whether to keep a History.
    """

    records: int = 50_000
    workers: int = 200
    injectors: int = 20
    gap_us: int = 10
    fault_rate: float = 0.002
    commits_in_flight: int = 1
    commit_linger_us: int = 10 * MILLISECOND
    history: bool = True


@dataclass(frozen=True, slots=True)
class ShuffleResult:
    """The result of a run.

    Attributes:
        deliveries: number of records that reached an owner and were new to it; without a History, the expected number.
        heap_events: number of events put on the heap from the first record on.
        cpu_seconds: CPU time of the event loop from then on.
        resent: number of deliveries that were sent again.
        struck: number of faults that struck.
        history: the run's History.
    """

    deliveries: int
    heap_events: int
    cpu_seconds: float
    resent: int
    struck: int
    history: History

    @property
    def deliveries_per_second(self) -> float:
        """Simulated deliveries per second of CPU time."""
        return self.deliveries / self.cpu_seconds

    @property
    def heap_events_per_delivery(self) -> float:
        """Heap events per delivery; at most 6."""
        return self.heap_events / self.deliveries


class KeySum(Computation):
    """Sums values by key."""

    def initial_state(self) -> int:
        """Start at 0."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add the value."""
        context.state = context.state + record.value


class _SumAndSend(KeySum):
    """Sums values, and sends them on under another key."""

    def process_record(self, context: Context, record: Record) -> None:
        """Add the value, and send it on."""
        super().process_record(context, record)
        context.produce("second", record.value, key=f"{record.value * SECOND_STRIDE % KEYS:05d}")


def shuffle_pipeline(options: ShuffleOptions) -> Pipeline:
    """Build two keyed stages, each split among half of the workers."""
    intervals = max(1, options.workers // 2)
    boundaries = [f"{number * KEYS // intervals:05d}" for number in range(1, intervals)]
    pipeline = Pipeline("shuffle")
    pipeline.injector("first", processes=options.injectors)
    pipeline.add(_SumAndSend(), name="a", inputs=["first"], outputs=["second"], split_at=boundaries)
    pipeline.add(KeySum(), name="b", inputs=["second"], split_at=boundaries)
    return pipeline


def shuffle_feed(pipeline: Pipeline, options: ShuffleOptions) -> Feed:
    """Make evenly spaced records with spread keys, from three seconds on, when all intervals are assigned."""
    builder = FeedBuilder(pipeline)
    for number in range(options.records):
        at_us = number * options.gap_us
        key = f"{number * FIRST_STRIDE % KEYS:05d}"
        builder.record(
            at_us=3 * SECOND + at_us,
            value=number,
            timestamp=at_us,
            key=key,
            process=number % options.injectors,
        )
    return builder.build()


def run_shuffle(options: ShuffleOptions | None = None, seed: int = 0) -> ShuffleResult:
    """Run the shuffle once, and measure from just before the first record to the end."""
    options = options or ShuffleOptions()
    pipeline = shuffle_pipeline(options)
    engine = EngineOptions(
        commits_in_flight=options.commits_in_flight, commit_linger_us=options.commit_linger_us
    )
    rate = options.fault_rate
    noise = Noise(
        at_us=_WARM_UP_US,
        for_us=60 * SECOND,
        drop=rate,
        duplicate=rate,
        delay=rate,
        delay_us=150 * MILLISECOND,
    )
    cluster = start(
        pipeline,
        shuffle_feed(pipeline, options),
        options=ClusterOptions(workers=options.workers, engine=engine),
        faults=FaultSchedule((noise,) if rate else (), heal_at_us=60 * SECOND),
        seed=seed,
        history=None if options.history else History.discarding(),
    )
    cluster.run_until(_WARM_UP_US)
    gc.collect()
    events, began = cluster.kernel.events, time.process_time()
    cluster.run_to_the_end()
    cpu_seconds = time.process_time() - began
    history = cluster.history
    return ShuffleResult(
        deliveries=sum(isinstance(event, Delivered) for event in history) or 2 * options.records,
        heap_events=cluster.kernel.events - events,
        cpu_seconds=cpu_seconds,
        resent=sum(isinstance(event, Resent) for event in history),
        struck=sum(isinstance(event, FaultStruck) for event in history),
        history=history,
    )
