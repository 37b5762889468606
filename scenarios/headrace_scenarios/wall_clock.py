"""The wall-time aggregate of MillWheel 6.1.2: visits in each second of the machine's own clock.

    visits -> seconds -> counts -> board -> totals

What ``seconds`` makes of a visit depends on when it runs. If it runs again after its production was sent and before any of it
was persisted, the second record is another one: two bit-wise different records for one visit. Strong productions rule that out.
"""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record
from headrace_sim import Feed, FeedBuilder

PAGES = ("about", "home", "news", "shop")
VISITS = 30


class SecondsOfTheClock(Computation):
    """Counts visits, and tells the count with the second of wall time that it was made in."""

    def initial_state(self) -> int:
        """No visit yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Count one."""
        del record
        context.state += 1
        context.produce("counts", {"visits": context.state, "in second": context.wall_time // SECOND})


class VisitBoard(Computation):
    """Adds up how many visits it was told of in each second; not idempotent, so a record that counts twice is seen."""

    def initial_state(self) -> dict[str, int]:
        """Nothing yet."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Add one, and show the sum."""
        second = str(record.value["in second"])
        context.state[second] = context.state.get(second, 0) + 1
        context.produce("totals", {"second": second, "visits": context.state[second]})


pipeline = Pipeline("wall_clock")
pipeline.injector("visits")
pipeline.add(SecondsOfTheClock(), name="seconds", inputs=["visits"], outputs=["counts"])
pipeline.add(VisitBoard(), name="board", inputs=["counts"], outputs=["totals"])


def feed(seed: int) -> Feed:
    """Make some seconds of visits.

    Args:
        seed: of who visits what.
    """
    random, builder = Random(f"{seed}/wall clock"), FeedBuilder(pipeline)
    for number in range(VISITS):
        at_us = SECOND + number * 100 * MILLISECOND
        builder.record(at_us=at_us, value=None, timestamp=at_us, key=random.choice(PAGES))
    return builder.build()
