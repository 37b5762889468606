"""Each order posts a charge to a payment service, and once more whenever its step runs again; without an answer it fails."""

import json
import urllib.request
from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("effects outside its process", "socket", "pay.example.com")


def charge(order: dict[str, Any]) -> None:
    """Post a charge."""
    urllib.request.urlopen(
        "http://pay.example.com/charge", data=json.dumps(order).encode(), timeout=1
    ).close()


class Charges(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        charge(record.value)
        context.produce("receipts", record.value)


class MendedCharges(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("charges", record.value)


def build(charges: Computation) -> Pipeline:
    built = Pipeline("charges")
    built.injector("orders")
    built.add(
        charges,
        name="charge",
        inputs={"orders": lambda record: record.value["card"]},
        outputs=["receipts", "charges"],
    )
    return built


pipeline, mended = build(Charges()), build(MendedCharges())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"card": random.choice(["amex", "visa"]), "order": number, "cents": random.randrange(1, 900)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
