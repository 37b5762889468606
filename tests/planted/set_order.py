"""The tags of an article are told in the order of a set, which differs between processes."""

from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("set", "order")


class Tags(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        words = set(record.value["text"].split())
        context.produce("tags", {"article": context.key, "tags": [word for word in words if len(word) > 3]})


class MendedTags(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        words = set(record.value["text"].split())
        context.produce(
            "tags", {"article": context.key, "tags": sorted(word for word in words if len(word) > 3)}
        )


def build(tags: Computation) -> Pipeline:
    built = Pipeline("articles")
    built.injector("articles")
    built.add(tags, name="tags", inputs={"articles": lambda record: record.value["id"]}, outputs=["tags"])
    return built


pipeline, mended = build(Tags()), build(MendedTags())
WORDS = ["mill", "wheel", "turns", "slowly", "while", "water", "falls", "from", "race", "into", "river"]


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"id": f"article-{number % 3}", "text": " ".join(random.sample(WORDS, 6))}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
