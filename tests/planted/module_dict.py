"""The last price of each share is kept in a dict of the module."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("LAST_PRICES",)
LAST_PRICES: dict[str, int] = {}
CURRENCIES = {"ACME": "EUR", "INIT": "USD"}


class Highs(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value["price"] > LAST_PRICES.get(context.key, 0):
            LAST_PRICES[context.key] = record.value["price"]
        context.set_timer("high", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("highs", {"share": context.key, "high": LAST_PRICES.get(context.key, 0)})


class MendedHighs(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        high = max(context.state.get("high", 0), record.value["price"])
        context.state["high"] = high
        context.set_timer("high", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        high = {"share": context.key, "high": context.state["high"], "currency": CURRENCIES[context.key]}
        context.produce("highs", high)


def build(highs: Computation) -> Pipeline:
    built = Pipeline("exchange")
    built.injector("trades")
    built.add(highs, name="highs", inputs={"trades": lambda record: record.value["share"]}, outputs=["highs"])
    return built


pipeline, mended = build(Highs()), build(MendedHighs())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"share": random.choice(["ACME", "INIT"]), "price": random.randrange(100, 200)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
