"""What groupings drop is counted: in a run, and in each run of a search."""

import pytest

from headrace import SECOND
from headrace.dataflow import FixedWindows, read
from headrace_properties.checkers.drops import DropCounter
from headrace_properties.reference import run_reference
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_sim import Feed, FeedBuilder, simulate

pipeline = read("scores").window_into(FixedWindows(SECOND)).sum().to("sums").pipeline("games")


def feed(seed: int) -> Feed:
    """Ten elements, of which three are late."""
    builder = FeedBuilder(pipeline)
    for number in range(10):
        late = number in (6, 7, 8)
        builder.record(
            at_us=(number + 1) * SECOND, value=1, timestamp=0 if late else number * SECOND, key="k"
        )
        builder.watermark(at_us=(number + 1) * SECOND + SECOND // 2, low_watermark=number * SECOND)
    return builder.build()


@pytest.mark.parametrize("host", ["cluster", "reference"])
def test_it_is_counted_in_a_run(host: str) -> None:
    drops = DropCounter([pipeline])
    if host == "cluster":
        drops.take(simulate(pipeline, feed(0)))
    else:
        drops.take_states(run_reference(pipeline, feed(0)).states)
    assert drops.counts() == {"sum": 3}


def test_it_is_counted_in_a_search() -> None:
    verification = search(Steering(Application(pipeline, feed), small_first=False), examples=3)
    assert verification.dropped["sum"] >= 9
