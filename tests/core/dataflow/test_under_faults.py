"""Dataflow pipelines hold every invariant of the protocol in the simulated cluster under faults, on each engine."""

from random import Random

import pytest

from headrace import MILLISECOND, SECOND, Pipeline
from headrace.dataflow import (
    AfterDelay,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    Element,
    Flow,
    MicroBatch,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    SlidingWindows,
    read,
)
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.verdict import Violated
from headrace_sim import Feed, FeedBuilder


def all_in_one(element: Element) -> list[tuple[str, object]]:
    return [("all", element.value)]


def sessions() -> Flow:
    trigger = SequenceOf(RepeatUntil(AtPeriod(SECOND), AtWatermark()), Repeat(AtWatermark()))
    grouped = (
        read("scores")
        .allowed_lateness(None)
        .window_into(Sessions(SECOND))
        .trigger(trigger)
        .accumulating_and_retracting()
        .sum()
    )
    return grouped.par_do(all_in_one).window_into(SlidingWindows(4 * SECOND, SECOND)).group().to("out")


def counts() -> Flow:
    trigger = Repeat(AnyOf(AtCount(3), AfterDelay(SECOND)))
    grouped = read("scores").trigger(trigger).accumulating_and_retracting().sum()
    return grouped.par_do(all_in_one).trigger(Repeat(AtCount(2))).mean().to("out")


def percentiles() -> Flow:
    windowed = (
        read("scores")
        .allowed_lateness(None)
        .window_into(SlidingWindows(2 * SECOND, SECOND))
        .allowed_lateness(SECOND)
    )
    return windowed.trigger(Repeat(AtWatermark(percentile=80))).sum().par_do(all_in_one).top(2).to("out")


PIPELINES = {
    "sessions": sessions().pipeline("sessions", processes=2),
    "counts": counts().pipeline("counts", processes=2),
    "percentiles": percentiles().pipeline("percentiles", processes=2),
    "batch": sessions().pipeline("batch", processes=2, engine=Batch()),
    "micro-batch": sessions().pipeline("micro-batch", processes=2, engine=MicroBatch(SECOND)),
}


def feed_of(pipeline: Pipeline, seed: int) -> Feed:
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(40):
        at_us = SECOND + number * 100 * MILLISECOND
        behind_us = random.randrange(3 * SECOND if number % 9 == 0 else SECOND)
        builder.record(
            at_us=at_us,
            value=random.randint(1, 9),
            timestamp=max(0, at_us - behind_us),
            key=random.choice("ab"),
            process=number % 2,
        )
        if number % 4 == 3:
            for process in (0, 1):
                builder.watermark(at_us=at_us, low_watermark=at_us - SECOND, process=process)
    return builder.build()


@pytest.mark.parametrize("name", PIPELINES)
def test_every_invariant_holds(name: str) -> None:
    pipeline = PIPELINES[name]
    verification = search(Steering(Application(pipeline, lambda seed: feed_of(pipeline, seed))), examples=6)
    assert verification.failure is None
    assert [name for name, verdict in verification.verdicts.items() if isinstance(verdict, Violated)] == []
