"""A small pipeline for runs on Spark under faults: how many people pass the turnstiles of a station.

    passages -> turnstile_counter -> turnstile_counts -> hall_counter -> hall_counts

Two stages, timers on both, and state that lasts to the end. What comes out is a function of what went in, and never of the order
of arrival; nothing is late, since hosts differ in what they find late.
"""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim.feed import Feed, FeedBuilder

HALLS = {"north": ("n1", "n2", "n3"), "south": ("s1", "s2"), "west": ("w1",)}
PASSAGES = 120
EVERY_US = 100 * MILLISECOND
DISORDER_US = 600 * MILLISECOND
"""A passage is told at most so long after it was."""

_HALL_OF = {turnstile: name for name, turnstiles in HALLS.items() for turnstile in turnstiles}


def hall(record: Record) -> str:
    """The second stage's key."""
    return _HALL_OF[record.key]


class SecondCounter(Computation):
    """Adds numbers up, for each second and in all.

    Args:
        output: where each second's sum goes when the second is over.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> dict[str, int]:
        """Nobody has passed."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        second = str(record.timestamp // SECOND)
        for name in (second, "all"):
            context.state[name] = context.state.get(name, 0) + record.value["people"]
        context.set_timer(second, (int(second) + 1) * SECOND - 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a second's sum."""
        context.produce(self._output, {"people": context.state.pop(timer.tag)})


pipeline = Pipeline("turnstiles")
pipeline.injector("passages")
pipeline.add(
    SecondCounter("turnstile_counts"), name="turnstile_counter", inputs=["passages"], outputs=["turnstile_counts"]
)  # fmt: skip
pipeline.add(
    SecondCounter("hall_counts"), name="hall_counter", inputs={"turnstile_counts": hall}, outputs=["hall_counts"]
)  # fmt: skip


def feed(seed: int) -> Feed:
    """Make 12 seconds of passages, in some disorder, and a watermark after every fourth.

    Args:
        seed: of who passes where and when.
    """
    random, builder = Random(f"{seed}/turnstiles"), FeedBuilder(pipeline)
    for number in range(PASSAGES):
        at_us = SECOND + number * EVERY_US
        timestamp = at_us - random.randrange(DISORDER_US)
        key = random.choice(list(_HALL_OF))
        builder.record(at_us=at_us, value={"people": random.randint(1, 3)}, timestamp=timestamp, key=key)
        if number % 4 == 3:
            builder.watermark(at_us=at_us, low_watermark=at_us + EVERY_US - DISORDER_US)
    return builder.build()
