"""Orders are keyed by the customer's name, and two customers have the same: each sees what the other ordered."""

from collections.abc import Callable
from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, always
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("customers_are_not_mixed",)


class Orders(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.value["article"]] = record.value["customer"]
        context.set_timer("ship", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce(
            "parcels", {"articles": sorted(context.state), "to": sorted(set(context.state.values()))}
        )
        context.clear_state()


def build(key: Callable[[Record], str]) -> Pipeline:
    built = Pipeline("parcels")
    built.injector("orders")
    built.add(Orders(), name="pack", inputs={"orders": key}, outputs=["parcels"])
    return built


pipeline = build(lambda record: record.value["name"])
mended = build(lambda record: record.value["customer"])
CUSTOMERS = {"c1": "ann", "c2": "bob", "c3": "ann"}


def draw(random: Random, number: int) -> dict[str, Any]:
    customer = random.choice(sorted(CUSTOMERS))
    return {"customer": customer, "name": CUSTOMERS[customer], "article": f"article-{number}"}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)


@always(stream="parcels")
def customers_are_not_mixed(moment: Moment) -> None:
    """A parcel has the articles of one customer."""
    assert len(moment.changed.value["to"]) == 1, moment.changed


promises = [customers_are_not_mixed]
