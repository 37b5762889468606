"""Mistakes that people make in stateful jobs, each with its mended twin."""

import random
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from headrace_sim.spark.ddl import parse_schema
from headrace_sim.spark.job import OutputMode, SparkJob, TimeMode, TransformWithState, Watermark

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
    [("z", at(400), 7)],
]
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
        for row in rows:
            if not self.sum.containsKey((0,)):
                self.sum.updateValue((0,), (row.n,))
                yield Row(k=key[0], n=0)


def job(processor: StatefulProcessor) -> SparkJob:
    watched = SparkJob(INPUT).then(Watermark("at", 10_000_000, INPUT, "here:1"))
    return watched.then(
        TransformWithState(processor, ("k",), OUTPUT, OutputMode.APPEND, TimeMode.EVENT_TIME, place="here:2")
    )


MENDED = job(SumByMinute())
PLANTED = {
    "state on self": (SumOnSelf(), FEED, "memory"),
    "state in a module": (SumInModule(), FEED, "memory"),
    "timer registered in its own handler": (TimerAgain(), FEED, "timer"),
    "time in a decision": (WallClock(), FEED, "chance"),
    "random numbers": (Dice(), FEED, "chance"),
    "output that depends on batching": (SumOfCall(), FEED, "batching"),
    "harmless memory, and output that depends on batching": (SumOfCallWithMetrics(), FEED, "batching"),
    "order within a batch": (LastOfCall(), TOGETHER, "order"),
    "key without clean-up": (NeverCleaned(), FEED, "growth"),
    "late rows assumed to come": (SumByMinute(), UNORDERED, "late"),
}
