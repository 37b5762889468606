"""The skew limit of injectors on Spark (MillWheel 8.4): what waits, where, and until when.

Two processes: one is at its time, and the other gives the next seconds all at once, as in tests/sim/test_event_time.py.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record
from headrace.spark import deploy
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.interval_task import run_interval
from headrace.spark.hosting.layout import BatchContext, JobPlan, limits_of
from headrace.spark.hosting.parcels import Packed, Parcel
from headrace.spark.hosting.waiting_room import RECORDS_IN_CHUNK, WaitingRoom
from headrace.spark.jobs.attach import check_followed
from headrace.spark.jobs.deployment_settings import Shape
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.migration import needs_migration
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.sources.job_clock import JobClock
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.verdict import Holds, Violated
from headrace_sim import Feed, FeedBuilder
from tests.sim.rig import CITIES, Sorter, WindowCounter, city
from tests.spark.microbatches import Query, Store, query

LIMIT_US = 500 * MILLISECOND


def ahead(skew_limit_us: int | None = LIMIT_US, count: int = 30) -> tuple[Pipeline, Feed]:
    pipeline = Pipeline("mail")
    pipeline.injector("mail", processes=2, skew_limit_us=skew_limit_us)
    pipeline.add(Sorter(), name="sorter", inputs=["mail"], outputs=["sorted"])
    pipeline.add(WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"])
    builder = FeedBuilder(pipeline)
    builder.watermark(at_us=SECOND, low_watermark=SECOND, process=1)
    for number in range(count):
        value = {"city": CITIES[number % len(CITIES)], "number": number}
        at_us = SECOND + number * 100 * MILLISECOND
        builder.record(at_us=at_us, value=value, timestamp=at_us, key="anna")
        builder.watermark(at_us=at_us, low_watermark=at_us)
        builder.record(at_us=SECOND, value=value, timestamp=at_us + 10 * MILLISECOND, key="bruno", process=1)
        builder.watermark(at_us=SECOND, low_watermark=at_us, process=1)
    return pipeline, builder.build()


def drive(pipeline: Pipeline, feed: Feed, size: int, *, history: bool = False, fused: bool = False) -> Query:
    """Feed it in micro-batches of this size, with the clock of the driver, until nothing more is let in."""
    running, clock = query(pipeline, history=history, fused=fused), DrivenClock(SECOND, pipeline)
    looks, entries, quiet = JobClock(clock.clock), list(feed.entries), 0
    while quiet < 2:  # the second one has the watermark of the first
        slowest, before = looks.note().slowest, len(running.tallies)
        is_told = slowest > running.slowest
        quiet = 0 if entries or is_told else quiet + 1
        running.slowest = max(slowest, running.slowest)
        running.batch(entries[:size], tick=is_told)
        entries = entries[size:]
        clock.take(running.tallies[before:])
    return running


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("size", [3, 10, 200])
def test_the_outputs_are_the_references_and_no_record_passes_the_limit(size: int, *, fused: bool) -> None:
    pipeline, feed = ahead()
    running = drive(pipeline, feed, size, history=True, fused=fused)
    assert running.outputs == run_reference(pipeline, feed).outputs
    verdicts = judge(history_of(pipeline, running.events), [pipeline])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert isinstance(verdicts["S18"], Holds)


def test_a_record_that_does_not_wait_is_found() -> None:
    pipeline, feed = ahead()
    with patch.object(WaitingRoom, "_may_enter", lambda *_: True):
        running = drive(pipeline, feed, 10, history=True)
    verdict = judge(history_of(pipeline, running.events), [pipeline])["S18"]
    assert isinstance(verdict, Violated)


class Count(Computation):
    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + 1
        context.produce("counted", context.state)


class Interval:
    """One key interval, which is told of everything by hand."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("mail")
        self.pipeline.injector("mail", skew_limit_us=SECOND)
        self.pipeline.add(Count(), name="count", inputs=["mail"], outputs=["counted"])
        mail = frozenset({"mail"})
        limits = limits_of(self.pipeline)
        self.plan = JobPlan(
            self.pipeline, intervals=1, with_ids=mail, timed_by_source=mail, limits=limits, progress=True
        )
        self.store, self.number = Store(), 0

    def run(
        self, *records: Packed, low_us: int = SECOND, slowest: int | None = None, horizon: int = 0
    ) -> int:
        """A micro-batch; returns how many records came out."""
        parcel = Parcel(
            limited=[("mail", record) for record in records], slowest=slowest, horizons=[("mail", horizon)]
        )
        batch = BatchContext(self.number, 0, low_us)
        self.number += 1
        self.store.reads = 0
        post = run_interval(self.plan, "count/0", batch, [parcel], self.store)
        return sum(len(found.records) for group, found in post.parcels.items() if group.startswith("/"))


def record(number: int, timestamp: int) -> Packed:
    return ("mail", f"mail/0:{number}", f"key {number}", b"1", timestamp, number)


def test_a_record_that_waited_is_no_remnant() -> None:
    """The source is read on, and its horizon passes the record while it waits."""
    interval = Interval()
    assert interval.run(record(1, 5 * SECOND), slowest=SECOND) == 0
    assert interval.run(horizon=1_000) == 0
    assert interval.run(slowest=4 * SECOND) == 1


def test_a_record_that_is_late_does_not_wait() -> None:
    """Behind the watermark of the sources, although somebody is even slower."""
    assert Interval().run(record(1, 5 * SECOND), low_us=6 * SECOND, slowest=SECOND) == 1


def test_only_chunks_that_may_have_an_entering_record_are_read() -> None:
    interval, count = Interval(), 2 * RECORDS_IN_CHUNK + 10
    assert (
        interval.run(*[record(number, (10 + number) * SECOND) for number in range(count)], slowest=SECOND)
        == 0
    )
    assert len(interval.store.chunks) == 3
    assert interval.run(slowest=2 * SECOND) == 0
    assert interval.store.reads == 0
    assert interval.run(slowest=10 * SECOND) == 2
    assert interval.store.reads <= 2 + 2  # the first chunk, the last, and those of the two rows
    assert interval.run(slowest=count * SECOND * 2) == count - 2
    assert [number for number in interval.store.chunks if number < 0] == []


def test_what_waits_holds_the_watermark_and_wakes_its_interval() -> None:
    interval = Interval()
    interval.run(record(1, 5 * SECOND), slowest=SECOND)
    assert interval.store.timer_ms == 4_000
    post = run_interval(interval.plan, "count/0", BatchContext(1, 0, 9 * SECOND), [], interval.store)
    (tally,) = [tally for _, tally in post.tallies]
    assert (tally.held, tally.enters_at, tally.input_watermark) == (5 * SECOND, 4 * SECOND, 9 * SECOND)


def test_a_limit_is_refused_where_nobody_knows_the_slowest() -> None:
    with pytest.raises(SparkHostError, match=r"'mail' has a skew limit, but in your own query"):
        check_followed(ahead()[0], {}, "your own query")


def test_a_job_that_gets_a_limit_later_needs_a_clock_and_so_a_new_checkpoint() -> None:
    own: list[list[str]] = [[], ["clock"]]
    shapes = [Shape("mail", 1, ["mail"], [["count"]], own_sources=sources) for sources in own]
    assert needs_migration(*shapes)


@pytest.mark.nightly
@pytest.mark.spark
def test_a_job_on_spark_lets_in_what_waits(spark: SparkSession, tmp_path: Path) -> None:
    """Two restarts: before anything is let in, and before all is."""
    pipeline, feed = ahead(count=20)
    landing, found = Landing(pipeline, tmp_path / "landing"), dict[tuple[str, int], list[Emitted]]()
    events: dict[int, list[bytes]] = {}

    def take(stream: str) -> object:
        def sink(frame: DataFrame, number: int) -> None:
            rows = frame.selectExpr("key", "value", "unix_micros(timestamp)").collect()
            found[stream, number] = [Emitted(stream, row[0], row[1].encode(), row[2]) for row in rows]

        return sink

    def keep(frame: DataFrame, number: int) -> None:
        events[number] = [bytes(row[0]) for row in frame.collect()]

    entries = [(entry.address, entry.event) for entry in feed.entries]
    for at in range(0, len(entries), 30):
        landing.put(entries[at : at + 30])
        inputs: Mapping[str, DataFrame] = landed(spark, pipeline, tmp_path / "landing")
        sinks = {stream: take(stream) for stream in pipeline.output_streams}
        with deploy(
            pipeline, inputs, directory=tmp_path / "job", sinks=sinks, intervals=2, history=keep  # type: ignore[arg-type]
        ) as job:  # fmt: skip
            job.await_idle()
    outputs = [one for rows in found.values() for one in rows]
    assert Counter(outputs) == run_reference(pipeline, feed).outputs
    history = history_of(pipeline, [event for batch in events.values() for event in batch])
    verdicts = judge(history, [pipeline])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert isinstance(verdicts["S18"], Holds)
