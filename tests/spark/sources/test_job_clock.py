"""The clock for wall timers: when it ticks, and that waiting for a job with a clock ends."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace import SECOND, Computation, Context, OptionsError, Pipeline, Record, Timer
from headrace.spark import Input, deploy
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.sources.job_clock import WallTimerCheck, clock_reader
from headrace_sim import FeedBuilder
from tests.spark.microbatches import Query, query

NO_LIMIT = ReadAllAvailable()


class Times:
    """Wall and monotonic time that stand still, microseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = 1_000 * SECOND
        for name in ("time_ns", "monotonic_ns"):
            monkeypatch.setattr(f"headrace.spark.sources.job_clock.time.{name}", lambda: self.now_us * 1_000)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


class Alarm(Computation):
    """Sets a wall timer."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_wall_timer("alarm", record.value)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("rung", timer.tag)


def alarms() -> Pipeline:
    pipeline = Pipeline("alarms")
    pipeline.injector("mail")
    pipeline.add(Alarm(), name="alarm", inputs=["mail"], outputs=["rung"])
    return pipeline


class Source:
    """A clock as Spark asks it: offsets, and the ticks between them."""

    def __init__(self, clock: WallTimerCheck) -> None:
        self.reader = clock_reader(clock)
        self.offset = self.reader.initialOffset()

    def ticks(self) -> bool:
        start, self.offset = self.offset, self.reader.latestOffset(self.offset, NO_LIMIT)
        rows = [row for part in self.reader.partitions(start, self.offset) for row in self.reader.read(part)]
        assert len(rows) == (start != self.offset)
        return start != self.offset


def test_a_clock_without_a_driver_ticks_at_each_look_also_above_a_second(times: Times) -> None:
    source = Source(WallTimerCheck(60 * SECOND))
    assert [source.ticks(), source.ticks()] == [True, False]
    times.now_us += 60 * SECOND - 1
    assert not source.ticks()
    times.now_us += 1
    assert [source.ticks(), source.ticks()] == [True, False]


def test_a_driven_clock_ticks_at_the_start_and_then_only_if_a_wall_timer_is_due(times: Times) -> None:
    """Intervals set a timer for second 1010. It is looked at every second; when it has fired, nothing is pending."""
    driven = DrivenClock(SECOND)
    source = Source(driven.clock)
    running = query(alarms())
    assert [source.ticks(), source.ticks()] == [True, False]
    _look(times, running, driven, record_due_us=1_010 * SECOND)
    seen = []
    for _ in range(20):
        times.now_us += SECOND // 2
        if ticks := source.ticks():
            _look(times, running, driven)
        seen.append((times.now_us, ticks))
    assert [at for at, ticks in seen if ticks] == [1_010 * SECOND]
    assert not source.ticks()


def _look(times: Times, running: Query, driven: DrivenClock, record_due_us: int | None = None) -> None:
    """A micro-batch with a tick, and what its intervals tell."""
    running.now_us = times.now_us
    feed = FeedBuilder(running.plan.pipeline)
    if record_due_us is not None:
        feed.record(at_us=1, value=record_due_us, timestamp=1, key="anna")
    running.batch(feed.build().entries[: 1 if record_due_us is not None else 0], tick=True)
    running.now_us = times.now_us
    driven.take(running.tallies)


def test_a_tick_that_is_asked_for_comes_at_once_and_shows_in_all_later_offsets(times: Times) -> None:
    driven = DrivenClock(SECOND)
    source = Source(driven.clock)
    assert source.ticks()
    asked = driven.ask()
    assert [source.ticks(), source.ticks()] == [True, False]
    assert asked in json.dumps(source.offset)


def test_a_clock_needs_time_between_two_looks() -> None:
    with pytest.raises(OptionsError, match="clock_us=0: expected at least 1"):
        WallTimerCheck(0)


# On Spark


class Waking(Computation):
    """Hands letters on, and wakes itself again and again: in each micro-batch a timer is due."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("seen", record.value)
        context.set_wall_timer("again", context.wall_time + SECOND // 5)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("woken", timer.tag)
        context.set_wall_timer("again", context.wall_time + SECOND // 5)


def waking() -> Pipeline:
    pipeline = Pipeline("waking")
    pipeline.injector("mail")
    pipeline.add(Waking(), name="waking", inputs=["mail"], outputs=["seen", "woken"])
    return pipeline


@pytest.mark.nightly
@pytest.mark.spark
def test_waiting_for_a_job_ends_although_its_clock_always_has_news(
    spark: SparkSession, tmp_path: Path
) -> None:
    letters, values = tmp_path / "letters", dict[str, list[object]]()
    letters.mkdir()

    def sink(stream: str) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, _batch: int) -> None:
            values.setdefault(stream, []).extend(row["value"] for row in frame.select("value").collect())
            time.sleep(1.5)  # so the clock has news before the micro-batch ends

        return take

    stream = spark.readStream.schema("key string, ts long").json(str(letters))
    given = {"mail": Input(stream, key="key", timestamp="ts", value="ts")}
    with deploy(
        waking(), given, directory=tmp_path / "job", sinks={name: sink(name) for name in ("seen", "woken")},
        intervals=1, clock_us=SECOND // 20,
    ) as job:  # fmt: skip
        for number in range(2):
            draft = letters / f".{number}"
            draft.write_text(json.dumps({"key": "anna", "ts": number * SECOND}))
            draft.rename(letters / f"{number}.json")
            job.await_idle()
            assert values["seen"] == [str(one * SECOND) for one in range(number + 1)]
        while "woken" not in values:
            job.await_termination(0.1)
