"""Jobs through the simulated micro-batch engine."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import Row

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault, draw_schedule
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import OutputMode, SparkJob, TimeMode, TransformWithState, WatermarkStep
from tests.stateful import StatefulProcessor


class Counts(StatefulProcessor):
    """Counts rows of each key, and tells the count once event time has passed the last by 5 s."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n INT, latest LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        count, latest = self.count.get() or (0, 0)
        for row in rows:
            count, latest = count + 1, max(latest, int(row.at.timestamp() * 1000))
        self.count.update((count, latest))
        self.handle.registerTimer(latest + 5000)
        yield Row(word=key[0], count=count, final=False)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        count, latest = self.count.get() or (0, 0)
        if expiredTimerInfo.getExpiryTimeInMs() == latest + 5000:
            self.count.clear()
            yield Row(word=key[0], count=count, final=True)


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second)


INPUT = parse_schema("word STRING, at TIMESTAMP")
OUTPUT = parse_schema("word STRING, count INT, final BOOLEAN")
JOB = (
    SparkJob(INPUT)
    .then(WatermarkStep("at", 1_000_000, INPUT))
    .then(TransformWithState(Counts(), ("word",), OUTPUT, OutputMode.APPEND, TimeMode.EVENT_TIME))
)
FEED = [[("a", at(10)), ("b", at(11))], [("a", at(12)), ("c", at(9))], [("a", at(30)), ("c", at(9))]]


def test_batches_have_the_outputs_state_and_watermark_of_spark() -> None:
    outcome = run_job(JOB, FEED)
    assert outcome.outputs == {
        0: [("a", 1, False), ("b", 1, False)],
        1: [
            ("a", 2, False),
            ("c", 1, False),
        ],  # c is behind the watermark of this batch, not of the one before
        2: [("a", 3, False)],  # c is late
        3: [("c", 1, True), ("b", 1, True)],  # without data, because the watermark has advanced
    }
    assert outcome.state == {1: {("count", ("a",)): (3, 30_000)}}
    assert outcome.timers == {1: [(("a",), 35_000)]}
    assert (outcome.late, outcome.watermark_ms) == (1, 29_000)


def test_no_fault_changes_what_a_sound_job_commits() -> None:
    sound = run_job(JOB, FEED)
    for kind in FaultKind:
        for batch in range(3):
            faults = tuple(ScheduledFault(kind, batch, partition, step=3) for partition in range(2))
            outcome = run_job(JOB, FEED, Schedule(faults=faults))
            assert (outcome.outputs, outcome.state) == (sound.outputs, sound.state), (kind, batch)
            assert len(outcome.events) > len(sound.events), (kind, batch)


def test_the_same_seed_is_the_same_run() -> None:
    one, two = (run_job(JOB, FEED, draw_schedule(7, 2, FEED)) for _ in range(2))
    assert (one.events, one.outputs, one.sink_calls) == (two.events, two.outputs, two.sink_calls)
