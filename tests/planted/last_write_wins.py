"""The address of a customer is the one that arrived last, and not the newest."""

from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("order of arrival",)
ASKED = True


class Addresses(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["street"] = record.value["street"]


class MendedAddresses(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        version = [record.timestamp, record.value["street"]]
        if version > context.state.get("version", [0, ""]):
            context.state["version"] = version


def build(addresses: Computation) -> Pipeline:
    built = Pipeline("customers")
    built.injector("moves")
    built.add(addresses, name="addresses", inputs={"moves": lambda record: record.value["customer"]})
    return built


pipeline, mended = build(Addresses()), build(MendedAddresses())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"customer": random.choice(["ann", "bob"]), "street": f"{number} Mill Lane"}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
