"""Users are put into test groups by `hash()`, which differs between processes."""

import zlib
from random import Random

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("hash",)


class Groups(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("groups", {"user": context.key, "group": hash(context.key) % 8})


class MendedGroups(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("groups", {"user": context.key, "group": zlib.crc32(context.key.encode()) % 8})


def build(groups: Computation) -> Pipeline:
    built = Pipeline("experiment")
    built.injector("visits")
    built.add(
        groups, name="groups", inputs={"visits": lambda record: record.value["user"]}, outputs=["groups"]
    )
    return built


pipeline, mended = build(Groups()), build(MendedGroups())


def draw(random: Random, number: int) -> dict[str, str]:
    return {"user": random.choice(["ann", "bob", "cy", "dora"])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
