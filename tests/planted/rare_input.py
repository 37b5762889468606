"""One amount in sixty is not a number, and the handler raises."""

from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("ValueError", "n/a")


class Amounts(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + int(record.value["amount"])


class MendedAmounts(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value["amount"].isdecimal():
            context.state["sum"] = context.state.get("sum", 0) + int(record.value["amount"])
        else:
            context.produce("refused", record.value)


def build(amounts: Computation) -> Pipeline:
    built = Pipeline("amounts")
    built.injector("amounts")
    built.add(
        amounts, name="sums", inputs={"amounts": lambda record: record.value["shop"]}, outputs=["refused"]
    )
    return built


pipeline, mended = build(Amounts()), build(MendedAmounts())


def draw(random: Random, number: int) -> dict[str, Any]:
    amount = "n/a" if random.randrange(60) == 0 else str(random.randrange(900))
    return {"shop": random.choice(["riva", "arco"]), "amount": amount}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
