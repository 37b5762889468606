"""More everyday jobs: alerts, windows, joins, gaps, experiments; each with one realistic mistake."""

import hashlib
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row

from tests.properties.spark_jobs.everyday_jobs import (
    FEED,
    MINUTE_MS,
    Frames,
    Stateful,
    at,
    by_function,
    by_rows,
    ms,
)

# Heartbeats: a device that was quiet for five minutes is offline.


class Heartbeat(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.due = handle.getValueState("due", "ms LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        held = self.due.get()
        due_ms = max(ms(row["at"]) for row in rows) + 5 * MINUTE_MS
        if held is None or due_ms > held[0]:
            if held is not None:
                self.handle.deleteTimer(held[0])
            self.due.update((due_ms,))
            self.handle.registerTimer(due_ms)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.due.clear()
        yield Row(user=key[0], since=expiredTimerInfo.getExpiryTimeInMs())


class HeartbeatByClock(Heartbeat):
    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.due.clear()
        yield Row(user=key[0], since=int(datetime.now().timestamp() * 1000))


# The three highest amounts.


def keep_top(key: Any, frames: Frames, state: Any) -> Frames:
    best = [n for n in state.get if n is not None] if state.exists else []
    for frame in frames:
        best += [int(n) for n in frame["amount"]]
    best = sorted(best, reverse=True)[:3]
    state.update(tuple(best + [None] * (3 - len(best))))
    yield pd.DataFrame({"user": [key[0]], "best": [",".join(map(str, best))]})


class TopOfClass:
    best: dict[str, list[int]] = {}  # noqa: RUF012  the mistake


def top_in_class(key: Any, frames: Frames, state: Any) -> Frames:
    best = TopOfClass.best.setdefault(key[0], [])
    for frame in frames:
        best += [int(n) for n in frame["amount"]]
    yield pd.DataFrame({"user": [key[0]], "best": [",".join(map(str, sorted(best, reverse=True)[:3]))]})


# Counts of each minute, told when it is over.


class WindowedCount(Stateful):
    column = "n INT"

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.counts = handle.getMapState("counts", "window LONG", self.column)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            end_ms = (ms(row["at"]) // MINUTE_MS + 1) * MINUTE_MS
            if end_ms <= timerValues.getCurrentWatermarkInMs():
                continue
            n = self.counts.getValue((end_ms,))[0] if self.counts.containsKey((end_ms,)) else 0
            self.counts.updateValue((end_ms,), (n + self.weight(row),))
            self.handle.registerTimer(end_ms)
        yield from ()

    def weight(self, row: Any) -> int:
        return 1

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        end_ms = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(user=key[0], window=end_ms, n=self.counts.getValue((end_ms,))[0])
        self.counts.removeKey((end_ms,))


class SmallCount(WindowedCount):
    column = "n BYTE"

    def weight(self, row: Any) -> int:
        return 100


# Clicks joined with the impression that they follow, which may come later.


class Join(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.views = handle.getListState("views", "id STRING, at TIMESTAMP")
        self.carts = handle.getListState("carts", "id STRING, at TIMESTAMP")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            sides = {"view": (self.views, self.carts), "cart": (self.carts, self.views)}
            if row["kind"] not in sides:
                continue
            mine, others = sides[row["kind"]]
            mine.appendValue((row["id"], row["at"]))
            self.handle.registerTimer(ms(row["at"]) + 60 * MINUTE_MS)
            for other in others.get():
                pair = (other[0], row["id"]) if row["kind"] == "cart" else (row["id"], other[0])
                yield Row(user=key[0], view=pair[0], cart=pair[1])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        over_ms = expiredTimerInfo.getExpiryTimeInMs() - 60 * MINUTE_MS
        for side in (self.views, self.carts):
            kept = [row for row in side.get() if ms(row[1]) > over_ms]
            side.put(kept) if kept else side.clear()
        yield from ()


class JoinLogged(Join):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            Path("/tmp/joined.log").open("a").write(f"{row}\n")  # noqa: S108, SIM115  the mistake
            yield row


# Gaps in the numbers of messages: out of order ones wait.

MESSAGES = [
    [("m1", "ann", at(1), "m", 1), ("m2", "ann", at(2), "m", 2), ("m1", "bob", at(2), "m", 1)],
    [("m4", "ann", at(5), "m", 4), ("m5", "ann", at(6), "m", 5)],
    [("m3", "ann", at(7), "m", 3), ("m3", "bob", at(8), "m", 3)],
    [("m1", "zoe", at(900), "m", 1)],
    [("m2", "zoe", at(2_000), "m", 2)],
]


class Gaps(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.next = handle.getValueState("next", "n INT")
        self.waiting = handle.getMapState("waiting", "n INT", "id STRING")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        expected = (self.next.get() or (1,))[0]
        for row in rows:
            if row["amount"] >= expected:
                self.waiting.updateValue((row["amount"],), (row["id"],))
        while self.waiting.containsKey((expected,)):
            yield Row(user=key[0], n=expected, missing=False)
            self.waiting.removeKey((expected,))
            expected += 1
        self.next.update((expected,))
        if self.waiting.exists():
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 5 * MINUTE_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        expected = (self.next.get() or (1,))[0]
        if self.waiting.exists() and not self.waiting.containsKey((expected,)):
            first = min(n for (n,) in self.waiting.keys())  # noqa: SIM118  a map state is no dict
            for n in range(expected, first):
                yield Row(user=key[0], n=n, missing=True)
            self.next.update((first,))


def _expected(user: str, n: int, known: dict[str, int] = {}) -> int:  # noqa: B006  the mistake
    before = known.get(user, 0)
    known[user] = n
    return before + 1


class GapsInDefault(Stateful):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows, key=lambda row: row["amount"]):
            expected = _expected(key[0], row["amount"])
            if expected != row["amount"]:
                yield Row(user=key[0], n=expected, missing=True)


# An experiment: a user's variant is fixed by the first exposure; buys count for it.


class Experiment(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.exposed = handle.getValueState("exposed", "variant STRING, at TIMESTAMP")
        self.bought = handle.getValueState("bought", "amount INT")

    def variant(self, user: str) -> str:
        return "ab"[hashlib.md5(user.encode()).digest()[0] % 2]  # noqa: S324  no secret

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows, key=lambda row: row["at"]):
            exposed = self.exposed.get()
            if row["kind"] == "view" and exposed is None:
                self.exposed.update((self.variant(key[0]), row["at"]))
            elif row["kind"] == "buy" and exposed is not None:
                bought = (self.bought.get() or (0,))[0] + row["amount"]
                self.bought.update((bought,))
                yield Row(user=key[0], variant=exposed[0], bought=bought)


class ExperimentByLot(Experiment):
    def variant(self, user: str) -> str:
        return random.choice("ab")


heartbeat = by_rows(Heartbeat(), "user STRING, since LONG")
planted_heartbeat = by_rows(HeartbeatByClock(), "user STRING, since LONG")
top = by_function(keep_top, "user STRING, best STRING", "a INT, b INT, c INT")
planted_top = by_function(top_in_class, "user STRING, best STRING", "a INT, b INT, c INT")
windowed = by_rows(WindowedCount(), "user STRING, window LONG, n INT")
planted_windowed = by_rows(SmallCount(), "user STRING, window LONG, n INT")
join = by_rows(Join(), "user STRING, view STRING, cart STRING")
planted_join = by_rows(JoinLogged(), "user STRING, view STRING, cart STRING")
gaps = by_rows(Gaps(), "user STRING, n INT, missing BOOLEAN")
planted_gaps = by_rows(GapsInDefault(), "user STRING, n INT, missing BOOLEAN")
experiment = by_rows(Experiment(), "user STRING, variant STRING, bought INT")
planted_experiment = by_rows(ExperimentByLot(), "user STRING, variant STRING, bought INT")

feed, messages = FEED, MESSAGES
