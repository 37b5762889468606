"""The handler counts up in steps of a tenth until it meets a price, which some prices never are."""

from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("never ends",)


class Steps(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        price, steps = 0.0, 0
        while price != record.value["price"]:
            price += 0.1
            steps += 1
        context.produce("steps", {"share": context.key, "steps": steps})


class MendedSteps(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("steps", {"share": context.key, "steps": round(record.value["price"] * 10)})


def build(steps: Computation) -> Pipeline:
    built = Pipeline("ticks")
    built.injector("prices")
    built.add(steps, name="steps", inputs={"prices": lambda record: record.value["share"]}, outputs=["steps"])
    return built


pipeline, mended = build(Steps()), build(MendedSteps())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"share": random.choice(["ACME", "INIT"]), "price": random.choice([0.1, 0.2, 0.4, 0.5, 0.8])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
