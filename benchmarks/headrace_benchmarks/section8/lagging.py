"""Figure 15's pipeline: three stages, whose low watermarks are polled once a second (MillWheel 8.2).

The lag is real time minus the low watermark that the authority last broadcast.
"""

import random
from bisect import bisect_right

from headrace import MIN_TIME, SECOND, Computation, Context, Pipeline, Record
from headrace.history import History, Published
from headrace_benchmarks.section8.calibration import Calibration
from headrace_benchmarks.section8.sorting import boundaries, injectors, key_of
from headrace_sim import Feed, FeedBuilder, start

STAGES = ("stage 1", "stage 2", "stage 3")
CPUS = 200
_BEGIN_US = 2 * SECOND
_SETTLED_US = 4 * SECOND
"""Time after the first record by which watermarks have passed through all stages."""
_RECORDS_A_SECOND = 200
"""Choice: far fewer than in Figure 13. The lag comes from reports and broadcasts, whatever the number of records."""


class _Relay(Computation):
    """Sends each number on under another key. ``following``: number of the next stage; ``keys``: number of keys."""

    def __init__(self, following: int, keys: int) -> None:
        self._following, self._keys = following, keys

    def process_record(self, context: Context, record: Record) -> None:
        """Send the number to the next stage, or outside."""
        following = self._following
        context.produce(
            f"numbers {following}", record.value, key=key_of(record.value // following, self._keys)
        )


def lags_us(calibration: Calibration, seed: int, *, polls: int) -> dict[str, list[int]]:
    """Run the pipeline, and return the polled lags of each stage, microseconds."""
    pipeline = _pipeline(calibration.keys)
    first_us = _BEGIN_US + _SETTLED_US + random.Random(f"{seed}/polls").randrange(SECOND)
    end_us = first_us + polls * SECOND
    feed = _feed(pipeline, calibration, seed, end_us)
    cluster = start(pipeline, feed, options=calibration.cluster(CPUS), seed=seed)
    cluster.run_until(end_us)
    times = [first_us + number * SECOND for number in range(polls)]
    return {stage: _polled(cluster.history, stage, times) for stage in STAGES}


def _pipeline(keys: int) -> Pipeline:
    pipeline = Pipeline("three stages")
    pipeline.injector("source", outputs=["numbers 1"], processes=injectors(CPUS))
    for number, name in enumerate(STAGES, 1):
        pipeline.add(
            _Relay(number + 1, keys),
            name=name,
            inputs=[f"numbers {number}"],
            outputs=[f"numbers {number + 1}"],
            split_at=boundaries(CPUS // len(STAGES), keys),
        )
    return pipeline


def _feed(pipeline: Pipeline, calibration: Calibration, seed: int, end_us: int) -> Feed:
    builder, draw = FeedBuilder(pipeline), random.Random(f"{seed}/lagging")
    processes = injectors(CPUS)
    for process in range(processes):
        at = _BEGIN_US + draw.expovariate(1 / calibration.promise_us)
        while at < end_us:
            promised = int(at) - calibration.source_lag_us
            builder.watermark(at_us=int(at), low_watermark=promised, process=process)
            at += draw.expovariate(1 / calibration.promise_us)
    at, number = float(_BEGIN_US), 0
    while at < end_us:
        key = key_of(draw.randrange(calibration.keys), calibration.keys)
        value = draw.randrange(1 << 30)
        builder.record(at_us=int(at), value=value, timestamp=int(at), key=key, process=number % processes)
        at += draw.expovariate(_RECORDS_A_SECOND / SECOND)
        number += 1
    return builder.build()


def _polled(history: History, stage: str, times: list[int]) -> list[int]:
    known = [
        (event.at_us, progress.low_watermark)
        for event in history
        if isinstance(event, Published)
        for name, progress in event.values
        if name == stage and progress.low_watermark > MIN_TIME
    ]
    changes = [at_us for at_us, _ in known]
    return [at_us - known[bisect_right(changes, at_us) - 1][1] for at_us in times]
