"""Orders, payments and shipments, with deadlines: a process of several steps for each order.

An order is paid within `PAY_US`, or expires. A paid order is shipped within `SHIP_US` of the order, or the money goes back. The
deadlines are in event time: a timer fires once the low watermark says that nothing in time is still to come, so that the outcome
depends on when things happened, and not on when they arrived.
"""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, answered_once, bounded_state, eventually, never, sometimes
from headrace_sim import Feed, FeedBuilder

PAY_US = SECOND
SHIP_US = 2 * SECOND


class Process(Computation):
    """Follows one order. Its state says when the order, its payment and its shipment happened."""

    def process_record(self, context: Context, record: Record) -> None:
        """Note the event, and when to look at what has come of it. A payment may arrive before its order."""
        context.state[record.stream] = record.timestamp
        if record.stream == "orders":
            context.set_timer("pay", at=record.timestamp + PAY_US)
            context.cancel_timer("stray")
        elif "orders" not in context.state:
            context.set_timer("stray", at=max(context.state.values()) + SHIP_US)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Decide what is due."""
        ordered, paid = context.state.get("orders", 0), context.state.get("payments")
        in_time = paid is not None and paid < ordered + PAY_US
        if timer.tag == "pay" and in_time:
            context.set_timer("ship", at=ordered + SHIP_US)
            return
        outcome = None  # nobody ordered what was paid
        if timer.tag == "pay":
            outcome = "expired"
        elif timer.tag == "ship":
            shipped = context.state.get("shipments", timer.timestamp) < timer.timestamp
            outcome = "shipped" if shipped else "not shipped"
        if outcome is not None:
            context.produce("outcomes", {"order": context.key, "outcome": outcome})
        if (
            outcome == "expired" and len(context.state) > 1
        ):  # what came too late is treated alike before this and after
            del context.state["orders"]
            context.set_timer("stray", at=max(context.state.values()) + SHIP_US)
            return
        if paid is not None and outcome != "shipped":
            context.produce("refunds", {"order": context.key})
        context.clear_state()


def order_id(record: Record) -> str:
    """Return the key of all three streams."""
    return str(record.value["order"])


pipeline = Pipeline("orders")
pipeline.injector("shop", outputs=["orders", "payments", "shipments"])
pipeline.add(
    Process(),
    name="process",
    inputs=dict.fromkeys(["orders", "payments", "shipments"], order_id),
    outputs=["outcomes", "refunds"],
)


@eventually(within_us=30 * SECOND)
def every_order_is_closed(moment: Moment) -> bool:
    """No order hangs once its deadlines are over."""
    return len(moment.outputs("outcomes")) == len(moment.inputs("orders"))


@never(stream="outcomes")
def unpaid_goods_are_shipped(moment: Moment) -> bool:
    """Nothing is shipped that nobody paid."""
    if moment.changed.value["outcome"] != "shipped":
        return False
    return all(
        payment.value != {"order": moment.changed.value["order"]} for payment in moment.inputs("payments")
    )


@sometimes(stream="outcomes")
def some_order_expires(moment: Moment) -> bool:
    """A customer does not pay in time."""
    return bool(moment.changed.value["outcome"] == "expired")


promises = [
    every_order_is_closed,
    unpaid_goods_are_shipped,
    some_order_expires,
    answered_once("orders", "outcomes", by=lambda value: value["order"]),
    bounded_state("process"),
]


def feed(seed: int) -> Feed:
    """Make a feed: eight orders, most of them paid and shipped, some too late; all out of order by up to 0.3 s."""
    random, builder = Random(seed), FeedBuilder(pipeline)
    events: list[tuple[int, str, str]] = []
    for number in range(8):
        order, ordered = f"o{number}", SECOND + number * 200 * MILLISECOND
        events.append((ordered, "orders", order))
        paid = ordered + random.randrange(PAY_US * 5 // 4)
        if random.random() < 0.8:
            events.append((paid, "payments", order))
        if random.random() < 0.7:
            events.append((paid + random.randrange(SHIP_US), "shipments", order))
    for timestamp, stream, order in sorted(events):
        at_us = timestamp + random.randrange(300 * MILLISECOND)
        builder.record(at_us=at_us, value={"order": order}, timestamp=timestamp, stream=stream)
        builder.watermark(at_us=timestamp + 300 * MILLISECOND, low_watermark=timestamp)
    return builder.build()
