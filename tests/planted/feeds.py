"""The input of the planted pipelines: records in some disorder, and a watermark behind every few of them."""

from collections.abc import Callable
from random import Random
from typing import Any

from headrace import MILLISECOND, SECOND, Pipeline
from headrace_sim import Feed, FeedBuilder

DISORDER_US = 400 * MILLISECOND


def arrivals(
    pipeline: Pipeline,
    seed: int,
    draw: Callable[[Random, int], Any],
    *,
    records: int = 24,
    stream_of: Callable[[Any], str] | None = None,
) -> Feed:
    """Draw the values of a feed.

    Args:
        pipeline: whose first injector brings them in.
        seed: of all draws.
        draw: makes the value of a record from a random generator and the record's number.
        records: how many.
        stream_of: the stream that a value goes to; default: the injector's first.
    """
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(records):
        at_us = SECOND + number * 100 * MILLISECOND
        value = draw(random, number)
        builder.record(
            at_us=at_us,
            value=value,
            timestamp=at_us - random.randrange(DISORDER_US),
            stream=stream_of(value) if stream_of else None,
        )
        if number % 4 == 3:
            builder.watermark(at_us=at_us, low_watermark=at_us - DISORDER_US)
    return builder.build()
