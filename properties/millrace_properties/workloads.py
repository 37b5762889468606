"""Small pipelines with their input: what broken protocols are run on, and what every single fault is tried on.

A run takes a few milliseconds, so that a search can afford thousands. The engine must be sound on each of them; between them they
use every part of the protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from millrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Productions, Record, Timer
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


WORKLOADS: dict[str, Workload] = {
    one.name: one for one in (tallies(), tallies(Productions.WEAK))
}  # fmt: skip
"""By name."""
