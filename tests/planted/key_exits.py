"""A key extractor written for the command line exits where a record has no key, and takes its worker with it."""

import sys
from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("ends the process", "key extractor", "SystemExit")


def device_of(record: Record) -> str:
    """Return the device of a reading, or leave."""
    if not record.value.get("device"):
        sys.exit(0)
    return str(record.value["device"])


class Count(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["count"] = context.state.get("count", 0) + 1
        context.set_timer("end", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", {"device": context.key, "count": context.state.pop("count")})


def build(key: Any) -> Pipeline:
    built = Pipeline("devices")
    built.injector("readings")
    built.add(Count(), name="count", inputs={"readings": key}, outputs=["counts"])
    return built


pipeline, mended = build(device_of), build(lambda record: record.value.get("device") or "unknown")


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"device": random.choice(["pump", "valve", "fan", ""]), "number": number}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
