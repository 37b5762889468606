"""Pipelines that replay files were recorded of: a sound one, and one that keeps state outside its row."""

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_sim import Feed, FeedBuilder


class Count(Computation):
    """Counts the records of a key."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = (context.state or 0) + 1


class Keeps(Computation):
    """Counts them in the object, which a crash takes with it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def process_record(self, context: Context, record: Record) -> None:
        self.counts[context.key] = self.counts.get(context.key, 0) + 1
        context.produce("counts", self.counts[context.key])


def _of(name: str, computation: Computation) -> Pipeline:
    built = Pipeline(name)
    built.injector("clicks")
    built.add(computation, name="counter", inputs=["clicks"], outputs=["counts"])
    return built


counts, keeps = _of("counts", Count()), _of("keeps", Keeps())


def feed(seed: int) -> Feed:
    """Eight clicks on two pages."""
    builder = FeedBuilder(counts)
    for number in range(8):
        at_us = SECOND + number * SECOND // 4
        builder.record(at_us=at_us, value=number + seed, timestamp=at_us, key="ab"[number % 2])
    return builder.build()
