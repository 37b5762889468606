"""The state holds the time at which the handler ran, and the output the time since."""

import time
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("time.time", "clock")


class Heartbeats(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        now = time.time()
        context.produce("silences", {"silent_for": now - context.state.get("last", now)})
        context.state["last"] = now


class MendedHeartbeats(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["last"] = max(context.state.get("last", 0), record.timestamp)
        context.set_timer("end", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("silences", {"since": context.state["last"]})


def build(heartbeats: Computation) -> Pipeline:
    built = Pipeline("heartbeats")
    built.injector("heartbeats")
    built.add(
        heartbeats, name="hosts", inputs={"heartbeats": lambda record: record.value}, outputs=["silences"]
    )
    return built


pipeline, mended = build(Heartbeats()), build(MendedHeartbeats())


def draw(random: Random, number: int) -> str:
    return random.choice(["db-1", "db-2", "web-1"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
