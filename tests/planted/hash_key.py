"""Users are spread over eight keys by `hash()`, so that each process counts a user under another key."""

import zlib
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.api.specs import KeyExtractor
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("hash",)


class Visits(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        users = context.state.setdefault("visits", {})
        users[record.value["user"]] = users.get(record.value["user"], 0) + 1
        context.set_timer("told", at=30 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        for user, visits in sorted(context.state.pop("visits", {}).items()):
            context.produce("visits_of", {"user": user, "visits": visits})


def build(key: KeyExtractor) -> Pipeline:
    built = Pipeline("visits")
    built.injector("visits")
    built.add(Visits(), name="shard", inputs={"visits": key}, outputs=["visits_of"])
    return built


pipeline = build(lambda record: str(hash(record.value["user"]) % 8))
mended = build(lambda record: str(zlib.crc32(record.value["user"].encode()) % 8))


def draw(random: Random, number: int) -> dict[str, str]:
    return {"user": random.choice(["ann", "bob", "cy", "dora"])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
