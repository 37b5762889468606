"""Small pipelines with their input: what broken protocols are run on, and what every single fault is tried on.

A run takes a few milliseconds, so that a search can afford thousands. The engine must be sound on each of them; between them they
use every part of the protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from millrace import (
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Productions,
    Record,
    Timer,
)
from millrace_sim import ClusterOptions, Feed, FeedBuilder

RECORDS = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline with its input, and the cluster that it runs on.

    Attributes:
        name: what reports call it.
        pipeline: the pipeline.
        feed: makes the input from a seed.
        options: of the cluster.
    """

    name: str
    pipeline: Pipeline
    feed: Callable[[int], Feed]
    options: ClusterOptions = field(default_factory=ClusterOptions)


class Tally(Computation):
    """Adds up, and tells the sum at the end of each second of event time.

    Args:
        output: the stream that the sums go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        context.state += record.value
        context.set_timer("end", record.timestamp // SECOND * SECOND + SECOND - 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell the sum."""
        del timer
        context.produce(self._output, context.state)


def city(record: Record) -> str:
    """The second stage's key: the first letter of the first stage's."""
    return record.key[0]


def tallies(productions: Productions = Productions.STRONG) -> Workload:
    """Two stages of `Tally` over five records in some disorder.

    Args:
        productions: of both stages.
    """
    pipeline = Pipeline("tallies")
    pipeline.injector("letters")
    pipeline.add(Tally("sent"), name="senders", inputs=["letters"], outputs=["sent"], productions=productions)
    pipeline.add(
        Tally("received"), name="cities", inputs={"sent": city}, outputs=["received"], productions=productions
    )

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/tallies"), FeedBuilder(pipeline), 300 * MILLISECOND
        for _ in range(RECORDS):
            at_us += random.randrange(200 * MILLISECOND)
            timestamp = at_us - random.randrange(300 * MILLISECOND)
            key = random.choice(["ab", "ac", "ba"])
            builder.record(at_us=at_us, value=1, timestamp=timestamp, key=key)
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 300 * MILLISECOND)
        return builder.build()

    return Workload("tallies" if productions is Productions.STRONG else "weak tallies", pipeline, feed)


class Slips(Computation):
    """Adds up by second of event time, with all that a step can do: holds, wall timers, cancelled timers, failures.

    A negative number is refused. While something is new, the state holds the low watermark; a wall timer lets it go.
    """

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        if record.value < 0:
            raise ValueError(record.value)
        second = str(record.timestamp // SECOND)
        context.state[second] = context.state.get(second, 0) + record.value
        context.hold_watermark(record.timestamp)
        context.set_timer(second, (record.timestamp // SECOND + 1) * SECOND - 1)
        context.set_wall_timer("let go", context.wall_time + 300 * MILLISECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a second's sum, or let the watermark go."""
        context.hold_watermark(None)
        if timer.tag != "let go":
            context.cancel_timer("let go")
            context.produce("slips", context.state.pop(timer.tag))


class Sorter(Computation):
    """Passes on what comes when the watermark that it follows has reached it."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it until then."""
        context.state.setdefault(str(record.timestamp), []).append(record.value)
        context.set_timer(str(record.timestamp), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass it on."""
        for value in context.state.pop(timer.tag):
            context.produce("sorted", value)


def slips() -> Workload:
    """`Slips` with dead letters, then a `Sorter` that follows a percentile watermark (7.2)."""
    pipeline = Pipeline("slips")
    pipeline.injector("numbers")
    refused = DeadLetter("refused")
    pipeline.add(
        Slips(), name="adders", inputs=["numbers"], outputs=["slips"], on_failure=refused, split_at=["b"]
    )
    pipeline.add(
        Sorter(), name="sorters", inputs={"slips": city}, outputs=["sorted"], watermark_percentile=80
    )

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/slips"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(2 * RECORDS):
            at_us += 10 * MILLISECOND + random.randrange(300 * MILLISECOND)
            timestamp = max(at_us - random.randrange(400 * MILLISECOND), 0)
            value = -1 if number == RECORDS else number + 1
            builder.record(
                at_us=at_us, value=value, timestamp=timestamp, key=random.choice(["ab", "ac", "ba"])
            )
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 400 * MILLISECOND)
        return builder.build()

    return Workload("slips", pipeline, feed)


WORKLOADS: dict[str, Workload] = {
    one.name: one for one in (tallies(), tallies(Productions.WEAK), slips())
}  # fmt: skip
"""By name."""
