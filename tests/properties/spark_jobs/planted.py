"""Mistakes that people make in stateful jobs, each with its fixed twin."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

import pandas as pd
from pyspark.sql import Row

from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_sim.deliveries import FeedSource
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.spark_job import (
    InitialState,
    MapInPandas,
    OutputMode,
    SparkJob,
    SparkSink,
    TimeMode,
    TransformWithState,
    WatermarkStep,
)
from tests.stateful import StatefulProcessor

INPUT = parse_schema("k STRING, at TIMESTAMP, n INT")
OUTPUT = parse_schema("k STRING, n INT")
MINUTE_MS = 60_000


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1_000_000_000 + second)


FEED = [
    [("a", at(1), 1), ("b", at(2), 2), ("a", at(5), 3)],
    [("c", at(70), 4), ("b", at(75), 5)],
    [("a", at(200), 6), ("z", at(400), 7)],
]
UNORDERED = [
    [("a", at(1), 1), ("z", at(300), 2), ("b", at(2), 2), ("b", at(3), 4), ("a", at(3), 3)],
    [("z", at(900), 7)],
]
ONCE_EACH = [[("a", at(1), 1)], [("b", at(2), 2)], [("a", at(3), 3)]]
TOGETHER = [[("a", at(1), 1), ("a", at(2), 2), ("a", at(3), 3)], [("z", at(400), 7)]]


def minute_of(row: Any) -> int:
    return int(row.at.timestamp() * 1000) // MINUTE_MS * MINUTE_MS


class Processor(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.handle = handle
        self.sum = handle.getMapState("sum", "minute LONG", "n INT")


class SumByMinute(Processor):
    """Tells each minute's sum once event time has passed it."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            minute = (minute_of(row),)
            held = self.sum.getValue(minute)
            self.sum.updateValue(minute, ((held[0] if held else 0) + row.n,))
            self.handle.registerTimer(minute[0] + MINUTE_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        minute = (expiredTimerInfo.getExpiryTimeInMs() - MINUTE_MS,)
        yield Row(k=key[0], n=self.sum.getValue(minute)[0])
        self.sum.removeKey(minute)


class SumOnSelf(Processor):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        totals = self.__dict__.setdefault("totals", {})
        totals["all"] = totals.get("all", 0) + sum(row.n for row in rows)
        yield Row(k=key[0], n=totals["all"])


_seen: dict[str, int] = {}


class SumInModule(Processor):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        _seen[key[0]] = _seen.get(key[0], 0) + sum(row.n for row in rows)
        yield Row(k=key[0], n=_seen[key[0]])


def _all_so_far(n: int, numbers: list[int] = []) -> int:  # noqa: B006  the mistake
    numbers.append(n)
    return sum(numbers)


class DefaultArgument(SumByMinute):
    """Adds up in a default argument what it should in state."""

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield Row(k=key[0], n=_all_so_far(row.n))


@cache
def _rate(_key: str) -> int:
    return int(time.time()) // 86_400


class CachedClock(SumByMinute):
    """Asks the clock only once for each process."""

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield Row(k=key[0], n=row.n * _rate(key[0]))


@cache
def _doubled(n: int) -> int:
    return 2 * n


class CachedFunction(SumByMinute):
    """Caches what is always the same."""

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield Row(k=key[0], n=_doubled(row.n))


_told_before: set[str] = set()


def once_each(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Keep the first row of each key that this process has seen."""
    for frame in frames:
        yield frame[[key not in _told_before for key in frame["k"]]]
        _told_before.update(frame["k"])


class SmallNumber(SumByMinute):
    """Keeps hundreds in a column of eight bits."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.sum = handle.getMapState("sum", "minute LONG", "n BYTE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield from super().handleInputRows(key, (Row(at=row.at, n=100 * row.n) for row in rows), timerValues)


class WholeNumber(SumByMinute):
    """Gives a whole number to a column of doubles, which makes it null."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.last = handle.getValueState("last", "n DOUBLE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.last.update((1,))
        yield from super().handleInputRows(key, rows, timerValues)


class TimerAgain(SumByMinute):
    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)
        self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs())


class WallClock(SumByMinute):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=int(time.time()) // 86_400)


class Dice(SumByMinute):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=random.randrange(1_000_000))


class SumOfCall(Processor):
    """Tells a sum for each call, which is as long as a batch happens to be."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=sum(row.n for row in rows))


class SumOfCallWithMetrics(SumOfCall):
    """Counts its calls besides, which does no harm."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.calls = getattr(self, "calls", 0) + 1
        yield from super().handleInputRows(key, rows, timerValues)


class LastOfCall(Processor):
    """Keeps the last row of a call, and not the latest, until a timer clears it."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        *_, last = rows
        self.sum.updateValue((0,), (last.n,))
        self.handle.registerTimer(10**13)
        yield from ()


class NeverCleaned(Processor):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for _row in rows:
            if not self.sum.containsKey((0,)):
                self.sum.updateValue((0,), (1,))
                yield Row(k=key[0], n=0)


class TimerLater(TimerAgain):
    """Looks again a minute later."""

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if self.sum.containsKey((expiredTimerInfo.getExpiryTimeInMs() - MINUTE_MS,)):
            yield from SumByMinute.handleExpiredTimer(self, key, timerValues, expiredTimerInfo)
            self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + MINUTE_MS)


class SumOfFirstFrame(Processor):
    """Tells each row that is above 1, but reads one frame only."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield self.told(key, next(rows))

    def told(self, key: Any, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["n"] > 1].assign(k=key[0])[["k", "n"]]


class SumOfFrames(SumOfFirstFrame):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            yield self.told(key, frame)


class ShortTtl(StatefulProcessor):
    """Tells the sum five minutes after the first row, of which the state has forgotten all by then."""

    TTL_MS = MINUTE_MS

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.sum = handle.getValueState("sum", "n INT", self.TTL_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if not self.sum.exists():
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 5 * MINUTE_MS)
        before = self.sum.get() or (0,)
        self.sum.update((before[0] + sum(row.n for row in rows),))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        found = self.sum.get()
        if found is not None:
            yield Row(k=key[0], n=found[0])
        self.sum.clear()
        yield Row(k="done", n=None)


class LongTtl(ShortTtl):
    TTL_MS = 60 * MINUTE_MS


class NumbersItsRows(Processor):
    """Numbers what it tells, with a counter that each task begins anew."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.told = 0

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for _ in rows:
            self.told += 1
            yield Row(k=key[0], n=self.told)


def numbers_of_partition(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Number the rows of a partition."""
    begun = 0
    for frame in frames:
        yield frame.assign(n=range(begun, begun + len(frame)))[["k", "n"]]
        begun += len(frame)


def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Compute each row by itself."""
    for frame in frames:
        yield frame.assign(n=frame["n"] * 2)[["k", "n"]]


class CleanedUp(NeverCleaned):
    """Forgets a key an hour after its first row; a later batch has nothing of it."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.handle.registerTimer(minute_of(row) + 60 * MINUTE_MS)
            if not self.sum.containsKey((0,)):
                self.sum.updateValue((0,), (1,))
                yield Row(k=key[0], n=0)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.sum.clear()
        yield from ()


OPENING = {"a": 100, "b": 200}


class OpeningTwice(SumByMinute):
    """Adds a key's opening balance to its first minute, and takes each task's first row of a key for its first."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.opened: set[str] = set()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        rows = list(rows)
        if key[0] not in self.opened:
            self.opened.add(key[0])
            minute = (minute_of(rows[0]),)
            self.sum.updateValue(minute, (OPENING.get(key[0], 0),))
        yield from super().handleInputRows(key, iter(rows), timerValues)


class OpeningOnce(SumByMinute):
    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.sum.updateValue((0,), (initialState.n,))
        self.handle.registerTimer(MINUTE_MS)


def job(processor: StatefulProcessor, *, delay_s: int = 10, pandas: bool = False) -> SparkJob:
    watched = SparkJob(INPUT).then(WatermarkStep("at", delay_s * 1_000_000, INPUT, "here:1"))
    return watched.then(
        TransformWithState(
            processor, ("k",), OUTPUT, OutputMode.APPEND, TimeMode.EVENT_TIME, pandas, place="here:2"
        )
    )


def again(job: SparkJob) -> SparkJob:
    """Return a job whose source may repeat its rows."""
    return replace(job, declares=job.declares | Declares(source=FeedSource(once=False)))


def by_clock(processor: Any) -> SparkJob:
    step = TransformWithState(
        processor, ("k",), OUTPUT, OutputMode.APPEND, TimeMode.PROCESSING_TIME, place="here:2"
    )
    return SparkJob(INPUT).then(step)


def mapped(function: Callable[..., Any]) -> SparkJob:
    return SparkJob(INPUT).then(MapInPandas(function, OUTPUT, "here:1"))


def opened(processor: StatefulProcessor) -> SparkJob:
    made = job(processor)
    watermark, step = made.steps
    assert isinstance(step, TransformWithState)
    initial = InitialState(OUTPUT, ("k",), tuple(OPENING.items()))
    return replace(made, steps=(watermark, replace(step, initial=initial)))


def prepare() -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("CREATE TABLE payments (batch INT, k TEXT, n INT)")
        db.execute("CREATE TABLE batches (id INT PRIMARY KEY)")


def _rows(df: Any, batch_id: int) -> list[tuple[Any, ...]]:
    return [(batch_id, row.k, row.n) for row in df.collect()]


def two_writes(df: Any, batch_id: int) -> None:
    db = sqlite3.connect("bank.db")
    if db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
        return
    with db:
        db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
    with db:
        db.executemany("INSERT INTO payments VALUES (?, ?, ?)", _rows(df, batch_id))


def append(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.executemany("INSERT INTO payments VALUES (0, ?, ?)", [row[1:] for row in _rows(df, batch_id)])


def one_transaction(df: Any, batch_id: int) -> None:
    with sqlite3.connect("bank.db") as db:
        db.execute("BEGIN IMMEDIATE")
        if not db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
            db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
            db.executemany("INSERT INTO payments VALUES (?, ?, ?)", _rows(df, batch_id))


def sink(function: Callable[..., Any]) -> SparkJob:
    return replace(MENDED, sink=SparkSink(function))


@dataclass(frozen=True, slots=True)
class Planted:
    """A mistake.

    Attributes:
        job: With it.
        mended: The same job without it.
        feed: What both are given.
        cause: What the first finding is.
        words: Those that its first three sentences have.

    """

    job: SparkJob
    mended: SparkJob
    feed: list[list[tuple[Any, ...]]]
    cause: str
    words: tuple[str, ...]

    def target(self, *, mended: bool = False) -> SparkTarget:
        """What is verified."""
        return SparkTarget("planted", self.mended if mended else self.job, self.feed, prepare)


MENDED = job(SumByMinute())
PLANTED = {
    "state on self": Planted(job(SumOnSelf()), MENDED, FEED, "memory", ("self.totals", "outside state")),
    "timer registered in its own handler": Planted(
        job(TimerAgain()), job(TimerLater()), FEED, "timer", ("registered again while it fires", "deletes it")
    ),
    "time.time() in a decision": Planted(job(WallClock()), MENDED, FEED, "chance", ("the clock",)),
    "reading only the first frame": Planted(
        job(SumOfFirstFrame(), pandas=True),
        job(SumOfFrames(), pandas=True),
        TOGETHER,
        "frames",
        ("pandas frames", "every frame of the iterator"),
    ),
    "sink with two non-atomic writes": Planted(
        sink(two_writes), sink(one_transaction), TOGETHER, "missing", ("the driver died", "payments")
    ),
    "append sink without batch id": Planted(
        sink(append),
        sink(one_transaction),
        FEED,
        "twice",
        ("the driver died", "bank.db: payments", "Keep the batch id"),
    ),
    "late rows assumed to come": Planted(
        MENDED,
        job(SumByMinute(), delay_s=400),
        UNORDERED,
        "late",
        ("behind the watermark", "withWatermark()"),
    ),
    "TTL shorter than the window": Planted(
        by_clock(ShortTtl()),
        by_clock(LongTtl()),
        FEED,
        "ttl",
        ("'sum'", "before its timer fires", "TTL is 60000 ms"),
    ),
    "counting per partition": Planted(
        mapped(numbers_of_partition), mapped(doubled), FEED, "partitions", ("number of partitions",)
    ),
    "key without clean-up": Planted(
        job(NeverCleaned()), job(CleanedUp()), FEED, "growth", ("nothing will ever remove", "'sum'")
    ),
    "output that depends on batching": Planted(
        job(SumOfCall()), MENDED, FEED, "batching", ("how the input is cut into batches",)
    ),
    "initial state applied twice": Planted(
        job(OpeningTwice()), opened(OpeningOnce()), FEED, "memory", ("self.opened", "outside state")
    ),
}
"""The mistakes that people make."""

MORE = {
    "state in a module": (job(SumInModule()), FEED, "memory"),
    "random numbers": (job(Dice()), FEED, "chance"),
    "harmless memory, and output that depends on batching": (job(SumOfCallWithMetrics()), FEED, "batching"),
    "order within a batch": (job(LastOfCall()), TOGETHER, "order"),
    "counting per task, in a processor": (job(NumbersItsRows()), FEED, "memory"),
    "a default argument that grows": (job(DefaultArgument()), FEED, "memory"),
    "a number that wraps": (job(SmallNumber()), FEED, "value"),
    "a whole number for a double": (job(WholeNumber()), FEED, "value"),
    "the clock, cached": (job(CachedClock()), FEED, "chance"),
    "a set of the module, in mapInPandas": (
        SparkJob(INPUT).then(MapInPandas(once_each, INPUT, "here:3")),
        ONCE_EACH,
        "memory",
    ),
}
"""Others of their kind, without a twin."""
