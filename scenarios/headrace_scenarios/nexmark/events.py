"""NEXMark's events: of fifty, one is a new person, three are auctions, and the others are bids.

As in the benchmark, a few auctions and people are hot: most bids go to the latest auctions, and sellers are often the latest
people. Records come out of order by up to `Mix.disorder_us`, and the watermark allows for that, so that none is late.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from headrace import MILLISECOND, SECOND, Pipeline
from headrace_sim import Feed, FeedBuilder

STREAM = "events"
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CATEGORIES = (10, 11, 12, 13, 14)
_CYCLE = 50


@dataclass(frozen=True, slots=True)
class Mix:
    """How many events there are, and how fast they come.

    Attributes:
        count: number of events.
        period_us: from one event to the next, event time and wall time, microseconds.
        disorder_us: how much later than its event time a record arrives at most, microseconds.
        hot: of so many bids and auctions, all but one are about the latest auction or person.
    """

    count: int = 150
    period_us: int = 100 * MILLISECOND
    disorder_us: int = SECOND
    hot: int = 3


def events(seed: int, mix: Mix = Mix()) -> list[tuple[int, dict[str, Any]]]:
    """Draw events in the order of their event times, microseconds. The same seed gives the same events."""
    random = Random(seed)
    drawn: list[tuple[int, dict[str, Any]]] = []
    people = auctions = 0
    for number in range(mix.count):
        time_us = SECOND + number * mix.period_us
        place = number % _CYCLE
        if place == 0:
            event = {
                "kind": "person",
                "id": people,
                "name": f"person {people}",
                "state": random.choice(STATES),
            }
            people += 1
        elif place <= 3:
            event = {
                "kind": "auction",
                "id": auctions,
                "seller": _latest(random, people, mix.hot),
                "category": random.choice(CATEGORIES),
                "reserve": random.randrange(100),
                "expires": time_us + random.randrange(1, 40) * mix.period_us,
            }
            auctions += 1
        else:
            event = {
                "kind": "bid",
                "auction": _latest(random, auctions, mix.hot),
                "bidder": random.randrange(people),
                "price": random.randrange(1, 1_000),
            }
        drawn.append((time_us, {**event, "time": time_us}))
    return drawn


def _latest(random: Random, count: int, hot: int) -> int:
    return count - 1 if random.randrange(hot) else random.randrange(count)


def feed(seed: int, mix: Mix = Mix()) -> Feed:
    """Make the events' arrivals, out of order."""
    random, builder = Random(f"arrivals of {seed}"), FeedBuilder(_SOURCE)
    arrivals = [(time_us + random.randrange(mix.disorder_us), event) for time_us, event in events(seed, mix)]
    for number, (at_us, event) in enumerate(sorted(arrivals, key=lambda arrival: arrival[0])):
        builder.record(at_us=at_us, stream=STREAM, key=event["kind"], value=event, timestamp=event["time"])
        if number % 5 == 4:
            builder.watermark(at_us=at_us, low_watermark=at_us - mix.disorder_us)
    return builder.build()


_SOURCE = Pipeline("nexmark source")
_SOURCE.injector(STREAM)
