"""Two categories name each other as parent, and the search for the root never arrives."""

from random import Random

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("RecursionError",)
PARENTS = {"nuts": "hardware", "bolts": "hardware", "gears": "wheels", "wheels": "gears"}


def root_of(category: str) -> str:
    return root_of(PARENTS[category]) if category in PARENTS else category


class Roots(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("roots", root_of(record.value))


class MendedRoots(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        category, seen = record.value, set[str]()
        while category in PARENTS and category not in seen:
            seen.add(category)
            category = PARENTS[category]
        context.produce("roots", category)


def build(roots: Computation) -> Pipeline:
    built = Pipeline("catalogue")
    built.injector("articles")
    built.add(roots, name="roots", inputs={"articles": lambda record: record.value[0]}, outputs=["roots"])
    return built


pipeline, mended = build(Roots()), build(MendedRoots())


def draw(random: Random, number: int) -> str:
    return "gears" if random.randrange(40) == 0 else random.choice(["nuts", "bolts", "paint"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
