"""The running mean of each sensor is kept on the instance."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("self.readings",)


class Means(Computation):
    def __init__(self) -> None:
        self.readings: dict[str, list[int]] = {}

    def process_record(self, context: Context, record: Record) -> None:
        second = str(record.timestamp // SECOND)
        self.readings.setdefault(context.key + second, []).append(record.value["degrees"])
        context.set_timer(second, at=(record.timestamp // SECOND + 1) * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        readings = self.readings.pop(context.key + timer.tag, [0])
        context.produce("means", {"sensor": context.key, "mean": sum(readings) / len(readings)})


class MendedMeans(Computation):
    def __init__(self, unit: str) -> None:
        self.unit = unit

    def process_record(self, context: Context, record: Record) -> None:
        second = str(record.timestamp // SECOND)
        kept = context.state.setdefault(second, {"sum": 0, "count": 0})
        kept["sum"] += record.value["degrees"]
        kept["count"] += 1
        context.set_timer(second, at=(record.timestamp // SECOND + 1) * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        kept = context.state.pop(timer.tag)
        mean = kept["sum"] / kept["count"]
        context.produce("means", {"sensor": context.key, "mean": mean, "unit": self.unit})


def build(means: Computation) -> Pipeline:
    built = Pipeline("sensors")
    built.injector("readings")
    built.add(
        means, name="means", inputs={"readings": lambda record: record.value["sensor"]}, outputs=["means"]
    )
    return built


pipeline, mended = build(Means()), build(MendedMeans("C"))


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"sensor": random.choice(["a", "b"]), "degrees": random.randrange(10, 30)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
