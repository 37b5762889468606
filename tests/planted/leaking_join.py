"""A join forgets an impression and its click when they have met; most impressions are never clicked, and stay."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import bounded_state
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("join", "is left with")


class Join(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.stream] = record.value
        context.set_timer("join", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        if "clicks" in context.state and "impressions" in context.state:
            context.produce("joined", {"ad": context.key, **context.state["impressions"]})
            context.clear_state()


class MendedJoin(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.stream] = record.value
        context.set_timer("join", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        if "clicks" in context.state and "impressions" in context.state:
            context.produce("joined", {"ad": context.key, **context.state["impressions"]})
        context.clear_state()


def build(join: Computation) -> Pipeline:
    built = Pipeline("ads")
    built.injector("ads", outputs=["impressions", "clicks"])
    ad = lambda record: record.value["ad"]  # noqa: E731
    built.add(join, name="join", inputs={"impressions": ad, "clicks": ad}, outputs=["joined"])
    return built


pipeline, mended = build(Join()), build(MendedJoin())


def draw(random: Random, number: int) -> dict[str, Any]:
    if number % 3 == 2:
        return {"ad": f"ad-{number - 1}", "clicked": True}
    return {"ad": f"ad-{number}", "price": random.randrange(100)}


def stream_of(value: dict[str, Any]) -> str:
    return "clicks" if "clicked" in value else "impressions"


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw, stream_of=stream_of)


promises = [bounded_state("join")]
