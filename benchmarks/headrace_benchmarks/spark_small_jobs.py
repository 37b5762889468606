"""Small Spark jobs for the benchmark: a running total, sums by minute, and sessions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.tws_tester import TwsTester

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.spark_job import OutputMode, SparkJob, TimeMode, TransformWithState, WatermarkStep

INPUT = parse_schema("word STRING, at TIMESTAMP, n INT")
OUTPUT = parse_schema("word STRING, n LONG")
_BEGIN = datetime(2030, 1, 1)  # noqa: DTZ001  Spark's timestamps are naive
_MINUTE_MS = 60_000

FEED = [
    [(word, _BEGIN + timedelta(seconds=40 * batch + second), second) for second, word in enumerate("abca")]
    for batch in range(4)
] + [[("z", _BEGIN + timedelta(hours=1), 0)]]
"""17 rows of four keys in five batches."""


class KeyTotal(StatefulProcessor):
    """A key's total after each batch."""

    def init(self, handle: Any) -> None:
        """Make the total."""
        self._handle = handle
        self._total = handle.getValueState("total", "n LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803  Spark's names
        """Add."""
        total = sum(row.n for row in rows) + (self._total.get() or (0,))[0]
        self._total.update((total,))
        yield Row(word=key[0], n=total)


class Minutes(StatefulProcessor):
    """Each minute's sum, once event time has passed it."""

    def init(self, handle: Any) -> None:
        """Make the sums."""
        self._handle = handle
        self._sums = handle.getMapState("sums", "minute LONG", "n LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Add to the minute of each row."""
        for row in rows:
            minute = int(row.at.timestamp() * 1000) // _MINUTE_MS
            held = self._sums.getValue((minute,)) or (0,)
            self._sums.updateValue((minute,), (held[0] + row.n,))
            self._handle.registerTimer((minute + 1) * _MINUTE_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Output a minute's sum."""
        minute = expiredTimerInfo.getExpiryTimeInMs() // _MINUTE_MS - 1
        yield Row(word=key[0], n=self._sums.getValue((minute,))[0])
        self._sums.removeKey((minute,))


class SessionCount(StatefulProcessor):
    """The number of rows that a key had, once it has had none for a minute."""

    def init(self, handle: Any) -> None:
        """Make the list of times."""
        self._handle = handle
        self._times = handle.getListState("times", "at LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Put the timer off."""
        for expiry in self._handle.listTimers():
            self._handle.deleteTimer(expiry)
        self._times.appendList([(int(row.at.timestamp() * 1000),) for row in rows])
        self._handle.registerTimer(max(at for (at,) in self._times.get()) + _MINUTE_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Output the number, and forget."""
        yield Row(word=key[0], n=len(list(self._times.get())))
        self._times.clear()


@dataclass(frozen=True, slots=True)
class SmallJob:
    """A processor, and how its time passes."""

    processor: type[StatefulProcessor]
    mode: TimeMode

    def spark_job(self) -> SparkJob:
        """Return the job."""
        step = TransformWithState(self.processor(), ("word",), OUTPUT, OutputMode.APPEND, self.mode)
        return SparkJob(INPUT).then(WatermarkStep("at", 0, INPUT)).then(step)


JOBS = {
    "running total": SmallJob(KeyTotal, TimeMode.NONE),
    "sums by minute": SmallJob(Minutes, TimeMode.EVENT_TIME),
    "sessions": SmallJob(SessionCount, TimeMode.EVENT_TIME),
}


def checked(job: SmallJob, schedules: int, seed: int) -> None:
    """Run and judge this number of schedules, each to its end: all that the outcome depends on is allowed."""
    report = check_job(job.spark_job(), FEED, schedules=schedules, seed=seed, allow=tuple(Cause))
    assert report.schedules == schedules


def tested(job: SmallJob) -> int:
    """Give the rows to a ``TwsTester``, batch by batch and key by key, and set its watermark after each. Return the calls."""
    tester = TwsTester(
        job.processor(),
        timeMode={TimeMode.NONE: "None", TimeMode.EVENT_TIME: "EventTime"}[job.mode],
        eventTimeExtractor=None if job.mode is TimeMode.NONE else _event_time_ms,
    )
    calls = 0
    for batch in FEED:
        for key in sorted({row[0] for row in batch}):
            tester.test(key, [Row(word=word, at=at, n=n) for word, at, n in batch if word == key])
            calls += 1
        if job.mode is TimeMode.EVENT_TIME:
            tester.setWatermark(max(int(at.timestamp() * 1000) for _, at, _ in batch))
            calls += 1
    return calls


def _event_time_ms(row: Any) -> int:
    return int(row.at.timestamp() * 1000)
