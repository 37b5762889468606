"""A helper's mutable default argument remembers what earlier calls put into it."""

from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("labels",)


def labelled(reading: dict[str, Any], labels: list[str] = []) -> dict[str, Any]:
    if reading["degrees"] > 25:
        labels.append("hot")
    return {**reading, "labels": list(labels)}


class Readings(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("labelled", labelled(record.value))


class MendedReadings(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("labelled", labelled(record.value, labels=[]))


def build(readings: Computation) -> Pipeline:
    built = Pipeline("labels")
    built.injector("readings")
    built.add(
        readings,
        name="labels",
        inputs={"readings": lambda record: record.value["sensor"]},
        outputs=["labelled"],
    )
    return built


pipeline, mended = build(Readings()), build(MendedReadings())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"sensor": random.choice(["a", "b"]), "degrees": random.randrange(10, 30)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
