"""The day of an order is the day on which the handler happens to run."""

from datetime import UTC, date, datetime
from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("today", "clock")


class Orders(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("invoices", {"order": record.value["order"], "day": date.today().isoformat()})


class MendedOrders(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        day = datetime.fromtimestamp(record.timestamp / SECOND, UTC).date()
        context.produce("invoices", {"order": record.value["order"], "day": day.isoformat()})


def build(orders: Computation) -> Pipeline:
    built = Pipeline("orders")
    built.injector("orders")
    built.add(
        orders, name="bill", inputs={"orders": lambda record: record.value["shop"]}, outputs=["invoices"]
    )
    return built


pipeline, mended = build(Orders()), build(MendedOrders())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"order": number, "shop": random.choice(["riva", "arco"])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
