"""Panes with the event times of their elements are never late downstream: the output watermark waits for them (Beam)."""

from typing import Any

import pytest

from headrace import MINUTE, SECOND, OptionsError, Pipeline, TypedCodec
from headrace.dataflow import (
    AtCount,
    AtWatermark,
    FixedWindows,
    Pane,
    PCollection,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    TimestampCombiner,
    WindowFn,
    read,
)
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_sim import FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim.faults import Crash, Noise, Pause

EARLIEST, LATEST = TimestampCombiner.EARLIEST, TimestampCombiner.LATEST
EARLY_AND_ON_TIME = SequenceOf(RepeatUntil(AtCount(3), AtWatermark()), Repeat(AtWatermark()))
MANY = 60


def twice(combiner: TimestampCombiner, windows: WindowFn) -> Pipeline:
    """Sums with early panes, which may be retracted; then sums of each second, which take nothing late."""
    sums: PCollection[Any] = read("clicks").window_into(windows).trigger(EARLY_AND_ON_TIME)
    sums = sums.accumulating_and_retracting().timestamps_of_panes(combiner).sum()
    return sums.discarding().window_into(FixedWindows(SECOND)).sum(name="seconds").to("out").pipeline("twice")


def feed_of(pipeline: Pipeline) -> Feed:
    """A click every two seconds, up to six seconds out of order, and a watermark behind all of them."""
    builder = FeedBuilder(pipeline)
    for number in range(MANY):
        at_us = (10 + 2 * number) * SECOND
        builder.record(at_us=at_us, value=1 << number, timestamp=at_us - number * 7 % 4 * 2 * SECOND, key="k")
        builder.watermark(at_us=at_us + SECOND, low_watermark=at_us - 5 * SECOND)
    return builder.build()


def total(outputs: Any) -> int:
    """Add what came out, less what was retracted: each click is a bit."""
    panes = [TypedCodec(Pane).decode(output.value) for output in outputs.elements()]
    return sum(-pane.value if pane.retraction else pane.value for pane in panes)


STORM = FaultSchedule(
    (
        Noise(at_us=0, for_us=100 * SECOND, drop=0.1, duplicate=0.1, delay=0.2, delay_us=SECOND),
        Crash(at_us=30 * SECOND, process="worker-0", restart_after_us=SECOND),
        Pause(at_us=45 * SECOND, process="worker-1", for_us=4 * SECOND),
        Crash(at_us=60 * SECOND, process="worker-2", restart_after_us=SECOND),
    ),
    heal_at_us=100 * SECOND,
)


@pytest.mark.parametrize("windows", [FixedWindows(MINUTE), Sessions(MINUTE)])
@pytest.mark.parametrize("combiner", [EARLIEST, LATEST])
def test_no_pane_is_late_in_smaller_windows(combiner: TimestampCombiner, windows: WindowFn) -> None:
    pipeline = twice(combiner, windows)
    assert total(run_reference(pipeline, feed_of(pipeline)).outputs) == (1 << MANY) - 1


@pytest.mark.parametrize("seed", range(2))
def test_nor_is_one_under_faults(seed: int) -> None:
    pipeline = twice(EARLIEST, FixedWindows(MINUTE))
    outputs = outputs_of(simulate(pipeline, feed_of(pipeline), faults=STORM, seed=seed))
    assert total(outputs) == (1 << MANY) - 1


def test_a_record_is_stamped_after_its_pane() -> None:
    """As with the default, a grouping below n others sees elements before t once the watermark is t + n."""
    pipeline = (
        read("clicks")
        .window_into(FixedWindows(MINUTE))
        .timestamps_of_panes(EARLIEST)
        .sum()
        .to("out")
        .pipeline("one")
    )
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value=5, timestamp=7 * SECOND, key="k")
    (output,) = run_reference(pipeline, builder.build()).outputs
    assert (TypedCodec(Pane).decode(output.value).time, output.timestamp) == (7 * SECOND, 7 * SECOND + 1)


def test_anything_else_is_refused() -> None:
    with pytest.raises(OptionsError, match="expected a TimestampCombiner, such as"):
        read("clicks").timestamps_of_panes("earliest")  # type: ignore[arg-type]
