"""Seats that are sold are kept as tuples, which the codec of the state reads back as lists: no seat is ever found there."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("sell", "does not read back")


class Sell(Computation):
    def seat(self, record: Record) -> Any:
        return record.value["row"], record.value["seat"]

    def process_record(self, context: Context, record: Record) -> None:
        seat, sold = self.seat(record), context.state.setdefault("sold", [])
        if seat not in sold:
            sold.append(seat)
            context.produce("sold", {"seat": seat, "order": record.value["order"]})
        context.set_timer("show", at=60 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.clear_state()


class MendedSell(Sell):
    def seat(self, record: Record) -> Any:
        return [*super().seat(record)]


def build(sell: Computation) -> Pipeline:
    built = Pipeline("theatre")
    built.injector("orders")
    built.add(
        sell,
        name="sell",
        inputs={"orders": lambda record: record.value["hall"]},
        outputs=["sold"],
        ordered=True,
    )
    return built


pipeline, mended = build(Sell()), build(MendedSell())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {
        "hall": random.choice("ab"),
        "row": random.randint(1, 2),
        "seat": random.randint(1, 2),
        "order": number,
    }


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
