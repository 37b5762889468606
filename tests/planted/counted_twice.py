"""Deliveries are counted without exactly-once, for speed, so that a retried delivery counts twice."""

from collections import Counter
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, at_end
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("every_visitor_counts_once", "exactly_once=False")


class Visitors(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["visitors"] = context.state.get("visitors", 0) + 1
        context.set_timer("night", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("visitors", {"gate": context.key, "visitors": context.state.pop("visitors")})


def build(*, exactly_once: bool) -> Pipeline:
    built = Pipeline("museum")
    built.injector("turnstiles")
    built.add(
        Visitors(), name="gates", inputs={"turnstiles": lambda record: record.value}, outputs=["visitors"],
        exactly_once=exactly_once,
    )  # fmt: skip
    return built


pipeline, mended = build(exactly_once=False), build(exactly_once=True)


def draw(random: Random, number: int) -> str:
    return random.choice(["north", "south"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)


@at_end
def every_visitor_counts_once(moment: Moment) -> None:
    """The counts of a gate add up to the number of its visitors."""
    told: Counter[str] = Counter()
    for record in moment.outputs("visitors"):
        told[record.value["gate"]] += record.value["visitors"]
    came = Counter(record.value for record in moment.inputs("turnstiles"))
    assert told == came, f"visitors came: {dict(came)}; told: {dict(told)}"


promises = [every_visitor_counts_once]
