"""What a workload is, and the input of most: numbers for a few keys, in bursts and some disorder."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from headrace import MILLISECOND, SECOND, Pipeline, Record
from headrace.history import History
from headrace_properties.search.application import Application
from headrace_sim import ClusterOptions, Feed, FeedBuilder

RECORDS = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline with its input, and the cluster that it runs on.

    Attributes:
        name: what reports call it.
        pipeline: the pipeline.
        feed: makes the input from a seed.
        options: of the cluster.
        versions: further versions of the pipeline, that an operator may put in force while it runs (3).
        settled: its result depends neither on the order of arrival nor on the faults, as long as no record is late from
            the source: then it is what the plain reference makes of the feed.
        unexpected: says what in a run's History is not as it must be on this workload, in plain Python; ``""``: nothing.
    """

    name: str
    pipeline: Pipeline
    feed: Callable[[int], Feed]
    options: ClusterOptions = field(default_factory=ClusterOptions)
    settled: bool = False
    versions: tuple[Pipeline, ...] = ()
    unexpected: Callable[[History], str] = lambda _: ""

    @property
    def deployed(self) -> tuple[Pipeline, ...]:
        """All versions; the first is in force from the start."""
        return (self.pipeline, *self.versions)

    @property
    def application(self) -> Application:
        """It, as a search takes it."""
        return Application(self.deployed, self.feed)

    def varied(self, name: str, **changes: object) -> "Workload":
        """Return the same under another name, with other options of the engine."""
        engine = dataclasses.replace(self.options.engine, **changes)  # type: ignore[arg-type]
        options = msgspec.structs.replace(self.options, engine=engine)
        return dataclasses.replace(self, name=name, options=options)


def city(record: Record) -> str:
    """Return the second stage's key: the first letter of the first stage's."""
    return record.key[0]


def letters(
    pipeline: Pipeline,
    name: str,
    *,
    lag_us: int = 400 * MILLISECOND,
    late: bool = False,
    records: int = RECORDS,
    quiet_us: int = 0,
    begin_us: int = 300 * MILLISECOND,
    gap_ms: int = 400,
    keys: Sequence[str] = ("ab", "ac", "ba"),
) -> Callable[[int], Feed]:
    """Return numbers for a few keys in bursts and some disorder, spread over all processes of all injectors.

    Args:
        pipeline: whose input.
        name: of the random stream.
        lag_us: how far the source's watermark is behind; nothing is late from the source with 300 ms or more.
        late: some records come behind the watermark, all the same.
        records: how many.
        quiet_us: how long nothing comes before the end.
        begin_us: when the first comes, or a little later.
        gap_ms: less than this between two of them.
        keys: of the records.
    """

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/{name}"), FeedBuilder(pipeline), begin_us
        doors = [
            (spec.name, number) for spec in pipeline.injectors.values() for number in range(spec.processes)
        ]
        for number in range(records):
            at_us += random.choice([0, 1, random.randrange(gap_ms)]) * MILLISECOND
            injector, process = doors[number % len(doors)]
            timestamp = at_us - random.randrange(300 * MILLISECOND)
            if late and number % 3 == 2:
                timestamp -= min(timestamp, SECOND)
            builder.record(
                at_us=at_us, value=number + 1, timestamp=timestamp, key=random.choice(keys),
                injector=injector, process=process,
            )  # fmt: skip
            for door, process in doors:
                low_us = max(at_us - lag_us, 0)
                builder.watermark(at_us=at_us + 1, low_watermark=low_us, injector=door, process=process)
        builder.watermark(at_us=at_us + quiet_us // 4 + 2, low_watermark=at_us)
        builder.watermark(at_us=at_us + quiet_us + 2, low_watermark=at_us + 1)
        return builder.build()

    return feed


SHORT = ClusterOptions(grace_us=15 * SECOND)
"""What has not come after so long never will; runs that never end cost the most."""


def same(record: Record) -> str:
    """Return the record's own key."""
    return record.key
