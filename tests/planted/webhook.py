"""A web service is called for each alarm, and once more whenever its step runs again."""

import urllib.error
import urllib.request
from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("socket", "127.0.0.1")


class Alarms(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value["degrees"] > 80:
            try:
                urllib.request.urlopen("http://127.0.0.1:9/alarm", data=context.key.encode(), timeout=1)
            except urllib.error.URLError:
                context.produce("unsent", record.value)


class MendedAlarms(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value["degrees"] > 80:
            context.produce("alarms", record.value)


def build(alarms: Computation) -> Pipeline:
    built = Pipeline("furnace")
    built.injector("readings")
    built.add(
        alarms,
        name="alarms",
        inputs={"readings": lambda record: record.value["furnace"]},
        outputs=["unsent", "alarms"],
    )
    return built


pipeline, mended = build(Alarms()), build(MendedAlarms())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {
        "furnace": random.choice(["north", "south"]),
        "degrees": random.randrange(60, 90),
        "number": number,
    }


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
