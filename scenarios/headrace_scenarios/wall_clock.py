"""The wall-time aggregate of MillWheel 6.1.2: visits in each second of the machine's own clock.

    visits -> seconds -> counts -> board -> totals

What ``seconds`` produces for a visit depends on when it runs. If it runs again after its production was sent and before any of it
was persisted, the second record differs: two different records for one visit. Strong productions rule that out.
"""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record
from headrace_properties.promises import conserved
from headrace_sim import Feed, FeedBuilder

PAGES = ("about", "home", "news", "shop")
VISITS = 30


class SecondsOfTheClock(Computation):
    """Counts visits, and produces each count with the second of wall time in which it was made."""

    def initial_state(self) -> int:
        """Start without visits."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Count a visit."""
        del record
        context.state += 1
        context.produce("counts", {"visits": context.state, "in second": context.wall_time // SECOND})


class VisitBoard(Computation):
    """Adds up the visits of each second. As this is not idempotent, a record counted twice shows."""

    def initial_state(self) -> dict[str, int]:
        """Start without counts."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Add a count, and produce the sum."""
        second = str(record.value["in second"])
        context.state[second] = context.state.get(second, 0) + 1
        context.produce("totals", {"second": second, "visits": context.state[second]})


pipeline = Pipeline("wall_clock")
pipeline.injector("visits")
pipeline.add(SecondsOfTheClock(), name="seconds", inputs=["visits"], outputs=["counts"])
pipeline.add(VisitBoard(), name="board", inputs=["counts"], outputs=["totals"])

promises = [
    conserved(
        "each_visit_counts_once",
        held={"seconds": lambda _: 0, "board": lambda seconds: sum(seconds.values())},
        carried={"visits": lambda _: 1, "counts": lambda _: 1},
    )
]
"""Which second a visit counts in, the clock decides; that it counts in one, it does not."""


def feed(seed: int) -> Feed:
    """Make a few seconds of visits.

    Args:
        seed: determines who visits what.
    """
    random, builder = Random(f"{seed}/wall clock"), FeedBuilder(pipeline)
    for number in range(VISITS):
        at_us = SECOND + number * 100 * MILLISECOND
        builder.record(at_us=at_us, value=None, timestamp=at_us, key=random.choice(PAGES))
    return builder.build()
