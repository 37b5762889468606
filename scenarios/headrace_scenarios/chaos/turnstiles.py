"""A small pipeline for runs on Spark under faults: it counts the people who pass a station's turnstiles.

    passages -> turnstile_counter -> turnstile_counts -> hall_counter -> hall_counts
    passages -> gate -> passed

The counters have timers, and state that lasts to the end; the gate has outputs in each micro-batch. The outputs depend only on
the input, never on the order of arrival. No record is late, because hosts differ in what they find late.
"""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, at_end
from headrace_sim.feed import Feed, FeedBuilder

HALLS = {"north": ("n1", "n2", "n3"), "south": ("s1", "s2"), "west": ("w1",)}
PASSAGES = 120
EVERY_US = 100 * MILLISECOND
DISORDER_US = 600 * MILLISECOND
"""Maximum delay between a passage and its report."""

_HALL_OF = {turnstile: name for name, turnstiles in HALLS.items() for turnstile in turnstiles}


def hall(record: Record) -> str:
    """Return the second stage's key."""
    return _HALL_OF[record.key]


class Gate(Computation):
    """A gate that reports each passage at once."""

    def process_record(self, context: Context, record: Record) -> None:
        """Pass on the number of people."""
        context.produce("passed", record.value)


class SecondCounter(Computation):
    """Adds up numbers for each second and in total.

    Args:
        output: the stream for each second's sum, once the second is over.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> dict[str, int]:
        """Start with no passages."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        second = str(record.timestamp // SECOND)
        for name in (second, "all"):
            context.state[name] = context.state.get(name, 0) + record.value["people"]
        context.set_timer(second, (int(second) + 1) * SECOND - 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce a second's sum."""
        context.produce(self._output, {"people": context.state.pop(timer.tag)})


pipeline = Pipeline("turnstiles")
pipeline.injector("passages")
pipeline.add(
    SecondCounter("turnstile_counts"), name="turnstile_counter", inputs=["passages"], outputs=["turnstile_counts"]
)  # fmt: skip
pipeline.add(
    SecondCounter("hall_counts"), name="hall_counter", inputs={"turnstile_counts": hall}, outputs=["hall_counts"]
)  # fmt: skip
pipeline.add(Gate(), name="gate", inputs=["passages"], outputs=["passed"])


@at_end
def everybody_is_counted(moment: Moment) -> None:
    """Turnstiles, halls and their outputs all count the people who passed."""
    people = sum(passage.value["people"] for passage in moment.inputs("passages"))
    for counter in ("turnstile_counter", "hall_counter"):
        counted = sum(state["all"] for state in moment.states(counter).values())
        assert counted == people, f"{counter} counts {counted} of {people}"
    reported = sum(count.value["people"] for count in moment.outputs("hall_counts"))
    assert reported == people, f"{reported} of {people} are told"


promises = [everybody_is_counted]


def feed(seed: int) -> Feed:
    """Generate 12 seconds of passages, slightly out of order, with a watermark after every fourth.

    Args:
        seed: seed for the passages.
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
