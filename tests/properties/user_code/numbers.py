"""A computation over a few numbers, to be examined."""

from collections.abc import Callable
from typing import Any

from headrace import MILLISECOND, Computation, Context, Pipeline, Record
from headrace_sim import Feed, FeedBuilder

Note = Callable[[Context, Record], None]


def numbers(computation: Computation, **switches: Any) -> tuple[Pipeline, Feed]:
    """Twenty numbers for three keys."""
    pipeline = Pipeline("numbers")
    pipeline.injector("in")
    pipeline.add(computation, name="planted", inputs=["in"], outputs=["out"], **switches)
    builder = FeedBuilder(pipeline)
    for number in range(20):
        at_us = (number + 1) * 10 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="abc"[number % 3])
        if number % 5 == 4:
            builder.watermark(at_us=at_us, low_watermark=at_us)
    return pipeline, builder.build()
