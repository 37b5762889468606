"""The stock of each article is kept in a dict of the class, which all keys share and no row holds."""

from random import Random
from typing import Any, ClassVar

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("stock", "class")


class Stock(Computation):
    stock: ClassVar[dict[str, int]] = {}

    def process_record(self, context: Context, record: Record) -> None:
        self.stock[context.key] = self.stock.get(context.key, 0) + record.value["pieces"]
        context.produce("stock", {"article": context.key, "pieces": self.stock[context.key]})


class MendedStock(Computation):
    first_order: ClassVar[dict[str, int]] = {"nut": 50}

    def process_record(self, context: Context, record: Record) -> None:
        pieces = context.state.get("pieces", self.first_order.get(context.key, 0)) + record.value["pieces"]
        context.state["pieces"] = pieces
        context.set_timer("tell", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("stock", {"article": context.key, **context.state})


def build(stock: Computation) -> Pipeline:
    built = Pipeline("warehouse")
    built.injector("deliveries")
    built.add(
        stock, name="stock", inputs={"deliveries": lambda record: record.value["article"]}, outputs=["stock"]
    )
    return built


pipeline, mended = build(Stock()), build(MendedStock())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"article": random.choice(["nut", "bolt", "cog"]), "pieces": random.randrange(1, 10)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
