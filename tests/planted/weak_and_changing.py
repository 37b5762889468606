"""A weak production carries the machine's clock: the second run of a step sends another record than the first."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Productions, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("context.wall_time",)


class Bids(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("bids", {**record.value, "received": context.wall_time})


class MendedBids(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("bids", {**record.value, "received": record.timestamp})


class Best(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        bid = [record.value["cents"], -record.value["received"]]
        context.state["best"] = max(context.state.get("best", bid), bid)
        context.set_timer("close", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("sold", context.state["best"])


def build(bids: Computation) -> Pipeline:
    built = Pipeline("auction")
    built.injector("bids in")
    built.add(
        bids, name="stamp", inputs={"bids in": lambda record: record.value["bidder"]}, outputs=["bids"],
        productions=Productions.WEAK,
    )  # fmt: skip
    built.add(Best(), name="best", inputs={"bids": lambda record: record.value["lot"]}, outputs=["sold"])
    return built


pipeline, mended = build(Bids()), build(MendedBids())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {
        "bidder": random.choice(["ann", "bob"]),
        "lot": random.choice(["1", "2"]),
        "cents": random.randrange(900),
    }


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
