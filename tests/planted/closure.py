"""Words seen before are remembered in a set that a helper function closes over."""

from collections.abc import Callable
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("seen",)


def news() -> Callable[[str], bool]:
    seen: set[str] = set()

    def is_new(word: str) -> bool:
        new = word not in seen
        seen.add(word)
        return new

    return is_new


class Vocabulary(Computation):
    def __init__(self, is_new: Callable[[str], bool]) -> None:
        self.is_new = is_new

    def process_record(self, context: Context, record: Record) -> None:
        if self.is_new(record.value):
            context.produce("new", record.value)


def longer_than(letters: int) -> Callable[[str], bool]:
    def is_longer(word: str) -> bool:
        return len(word) > letters

    return is_longer


class MendedVocabulary(Computation):
    def __init__(self, counts: Callable[[str], bool]) -> None:
        self.counts = counts

    def process_record(self, context: Context, record: Record) -> None:
        if self.counts(record.value):
            context.state[record.value] = True
            context.set_timer("end", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        for word in sorted(context.state):
            context.produce("new", word)


def build(vocabulary: Computation) -> Pipeline:
    built = Pipeline("vocabulary")
    built.injector("words")
    built.add(vocabulary, name="learn", inputs={"words": lambda record: record.value[0]}, outputs=["new"])
    return built


pipeline, mended = build(Vocabulary(news())), build(MendedVocabulary(longer_than(2)))


def draw(random: Random, number: int) -> str:
    return random.choice(["mill", "mile", "wheel", "water", "race", "of"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
