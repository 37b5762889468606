"""A cached function returns a list, and the handler appends to it: the cache is the state."""

from functools import cache
from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("basket_of", "cache")


@cache
def basket_of(customer: str) -> list[str]:
    return []


class Baskets(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        basket_of(context.key).append(record.value["article"])
        context.set_timer("order", at=4 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("orders", {"customer": context.key, "articles": sorted(basket_of(context.key))})


@cache
def shelf_of(article: str) -> int:
    return sum(map(ord, article)) % 7


class MendedBaskets(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault("articles", []).append(record.value["article"])
        context.state["articles"].sort()
        context.set_timer("order", at=4 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        articles = context.state.pop("articles")
        context.produce(
            "orders", {"articles": articles, "shelves": [shelf_of(article) for article in articles]}
        )


def build(baskets: Computation) -> Pipeline:
    built = Pipeline("shop")
    built.injector("clicks")
    built.add(
        baskets,
        name="baskets",
        inputs={"clicks": lambda record: record.value["customer"]},
        outputs=["orders"],
    )
    return built


pipeline, mended = build(Baskets()), build(MendedBaskets())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"customer": random.choice(["ann", "bob"]), "article": random.choice(["nut", "bolt", "cog"])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
