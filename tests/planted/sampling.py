"""One record in four is sampled by a random generator without a seed."""

import random
import zlib

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("random",)


class Sample(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if random.random() < 0.25:
            context.produce("samples", record.value)


class MendedSample(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if zlib.crc32(str(record.value).encode()) % 4 == 0:
            context.produce("samples", record.value)


def build(sample: Computation) -> Pipeline:
    built = Pipeline("requests")
    built.injector("requests")
    built.add(
        sample, name="sample", inputs={"requests": lambda record: record.value["page"]}, outputs=["samples"]
    )
    return built


pipeline, mended = build(Sample()), build(MendedSample())


def draw(random: random.Random, number: int) -> dict[str, object]:
    return {"page": random.choice(["home", "news"]), "number": number}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
