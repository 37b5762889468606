"""Jobs on the events of users, as people write them, without a word about what is meant; each with one realistic mistake."""

import time
import uuid
from collections.abc import Iterator
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
    by_frames,
    by_function,
    by_rows,
    ms,
)

# Sessions: as in the example of Spark, a row when a user has been quiet for a minute.


def close_sessions(key: Any, frames: Frames, state: Any) -> Frames:
    if state.hasTimedOut:
        count, first_ms, last_ms = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "events": [count], "lasted": [last_ms - first_ms]})
        return
    count, first_ms, last_ms = state.get if state.exists else (0, 2**62, 0)
    for frame in frames:
        times = [ms(time_of_row) for time_of_row in frame["at"]]
        count, first_ms, last_ms = count + len(times), min(first_ms, *times), max(last_ms, *times)
    state.update((count, first_ms, last_ms))
    state.setTimeoutTimestamp(max(last_ms + MINUTE_MS, state.getCurrentWatermarkMs() + 1))


_counts: dict[str, int] = {}


def sessions_counted_in_module(key: Any, frames: Frames, state: Any) -> Frames:
    for frame in close_sessions(key, frames, state):
        _counts[key[0]] = _counts.get(key[0], 0) + 1
        yield frame.assign(events=_counts[key[0]])


# A funnel: view, cart, buy within an hour.

STEPS = ("view", "cart", "buy")


class Funnel(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.step = handle.getValueState("step", "reached INT, began LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        reached, began = self.step.get() or (0, 0)
        for row in sorted(rows, key=lambda row: row["at"]):
            if reached < len(STEPS) and row["kind"] == STEPS[reached]:
                began = began or ms(row["at"])
                reached += 1
                if reached == 1:
                    self.handle.registerTimer(began + 60 * MINUTE_MS)
                if reached == len(STEPS):
                    yield Row(user=key[0], took=ms(row["at"]) - began)
        if reached:
            self.step.update((reached, began))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.step.clear()
        yield from ()


class FunnelOnSelf(Funnel):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.reached: dict[str, int] = {}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in sorted(rows, key=lambda row: row["at"]):
            reached = self.reached.get(key[0], 0)
            if reached < len(STEPS) and row["kind"] == STEPS[reached]:
                self.reached[key[0]] = reached + 1
                if reached + 1 == len(STEPS):
                    yield Row(user=key[0], took=0)


# A rate limiter: at most two requests a minute.


class RateLimiter(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.used = handle.getMapState("used", "minute LONG", "n INT")

    def minute(self, row: Any) -> int:
        return ms(row["at"]) // MINUTE_MS

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            minute = self.minute(row)
            used = self.used.getValue((minute,))[0] if self.used.containsKey((minute,)) else 0
            self.used.updateValue((minute,), (used + 1,))
            self.handle.registerTimer((minute + 1) * MINUTE_MS)
            if used >= 2:
                yield Row(user=key[0], blocked=row["id"])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.used.removeKey((expiredTimerInfo.getExpiryTimeInMs() // MINUTE_MS - 1,))
        yield from ()


class RateLimiterByClock(RateLimiter):
    def minute(self, row: Any) -> int:
        return int(time.time()) // 60


# Overdrafts: a balance per account, and an alert when it falls below zero.


def find_overdrafts(key: Any, frames: Frames, state: Any) -> Frames:
    balance = state.get[0] if state.exists else 0
    alerts = []
    for frame in frames:
        for row in frame.sort_values("at").itertuples():
            before, balance = balance, balance + row.amount
            if before >= 0 > balance:
                alerts.append((key[0], row.id, balance))
    state.update((balance,))
    yield pd.DataFrame(alerts, columns=["user", "id", "balance"])


def overdraft_mailed(key: Any, frames: Frames, state: Any) -> Frames:
    for frame in find_overdrafts(key, frames, state):
        with Path("alerts.txt").open("a") as file:
            file.writelines(f"{row.user} {row.id}\n" for row in frame.itertuples())
        yield frame


# Orders: a state machine; an order leaves when it is bought, or after a day.


class Orders(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.status = handle.getValueState("status", "status STRING, since TIMESTAMP")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        status = self.status.get()
        known = status[0] if status else None
        for row in sorted(rows, key=lambda row: row["at"]):
            allowed = {None: "view", "view": "cart", "cart": "buy"}
            if allowed.get(known) == row["kind"]:
                yield Row(user=key[0], was=known or "", now=row["kind"])
                known = row["kind"]
                self.status.update((known, row["at"]))
                self.handle.registerTimer(ms(row["at"]) + 24 * 60 * MINUTE_MS)
            if known == "buy":
                known = None
                self.status.clear()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.status.clear()
        yield from ()


class OrdersNumbered(Orders):
    """Numbers its results by a field, which begins anew in each task."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.number = 0

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            self.number += 1
            yield Row(user=f"{row.user} {self.number}", was=row.was, now=row.now)


# Invoices and payments: matched by id; what is not paid in an hour is told.


class Matching(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.invoice = handle.getValueState("invoice", "amount INT, at TIMESTAMP")
        self.paid = handle.getValueState("paid", "amount INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row["kind"] == "invoice":
                self.invoice.update((row["amount"], row["at"]))
                self.handle.registerTimer(ms(row["at"]) + 60 * MINUTE_MS)
            else:
                before = self.paid.get()
                self.paid.update((row["amount"] + (before[0] if before else 0),))
                self.handle.registerTimer(ms(row["at"]) + 60 * MINUTE_MS)
        invoice, paid = self.invoice.get(), self.paid.get()
        if invoice and paid and paid[0] >= invoice[0]:
            self.forget()
            yield Row(id=key[0], result="paid")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if self.invoice.exists():
            yield Row(id=key[0], result="unpaid")
        self.forget()

    def forget(self) -> None:
        self.invoice.clear()
        self.paid.clear()
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)


class MatchingReminds(Matching):
    """Means to remind again, by a timer that Spark deletes."""

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        due_ms = expiredTimerInfo.getExpiryTimeInMs()
        if self.invoice.exists() and not self.paid.exists():
            yield Row(id=key[0], result="reminder")
            self.paid.update((0,))
            self.handle.registerTimer(due_ms)
            return
        yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)


PAYMENTS = [
    [("i1", "ann", at(1), "invoice", 10), ("i2", "bob", at(2), "payment", 5)],
    [("i2", "bob", at(9), "invoice", 5), ("i1", "ann", at(12), "payment", 4)],
    [("i1", "ann", at(15), "payment", 6), ("i3", "eve", at(20), "invoice", 8)],
    [("i9", "zoe", at(9_000), "payment", 1)],
    [("i9", "zoe", at(19_000), "payment", 1)],
]


# Duplicates: the first event of each id, which is known for ten minutes.


class Dedup(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.seen = handle.getValueState("seen", "at TIMESTAMP")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if not self.seen.exists():
                self.seen.update((row["at"],))
                self.handle.registerTimer(ms(row["at"]) + 10 * MINUTE_MS)
                yield Row(id=key[0], user=row["user"], amount=row["amount"])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.seen.clear()
        yield from ()


class DedupByTtl(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.seen = handle.getValueState("seen", "seen BOOLEAN", ttlDurationMs=60 * MINUTE_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if self.seen.exists():
            return
        first = next(iter(rows))
        self.seen.update((True,))
        yield Row(id=key[0], user=first["user"], amount=first["amount"])


_known: set[str] = set()


class DedupInModule(Stateful):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row["id"] not in _known:
                _known.add(row["id"])
                yield Row(id=key[0], user=row["user"], amount=row["amount"])


# Running totals.


class Totals(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.total = handle.getValueState("total", "total LONG, events INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Frames:
        total, events = self.total.get() if self.total.exists() else (0, 0)
        for frame in rows:
            total += int(frame["amount"].sum())
            events += len(frame)
        self.total.update((total, events))
        yield pd.DataFrame({"user": [key[0]], "total": [total], "events": [events]})


class TotalsWithRandomId(Totals):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Frames:
        for frame in super().handleInputRows(key, rows, timerValues):
            yield frame.assign(user=str(uuid.uuid4()))


# The latest value of each device.


class Latest(Stateful):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.latest = handle.getValueState("latest", "at TIMESTAMP, amount INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Frames:
        held = self.latest.get() if self.latest.exists() else None
        for frame in rows:
            row = frame.sort_values("at").iloc[-1]
            if held is None or row["at"].to_pydatetime() >= held[0]:
                held = (row["at"].to_pydatetime(), int(row["amount"]))
        if held is not None:
            self.latest.update(held)
            yield pd.DataFrame({"user": [key[0]], "amount": [held[1]]})


class LatestOfFirstFrame(Latest):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Frames:
        yield from super().handleInputRows(key, iter([next(iter(rows))]), timerValues)


sessions = by_function(
    close_sessions,
    "user STRING, events INT, lasted LONG",
    "n INT, first LONG, last LONG",
    "EventTimeTimeout",
    "append",
)
planted_sessions = by_function(
    sessions_counted_in_module,
    "user STRING, events INT, lasted LONG",
    "n INT, first LONG, last LONG",
    "EventTimeTimeout",
    "append",
)
funnel = by_rows(Funnel(), "user STRING, took LONG")
planted_funnel = by_rows(FunnelOnSelf(), "user STRING, took LONG")
rate = by_rows(RateLimiter(), "user STRING, blocked STRING")
planted_rate = by_rows(RateLimiterByClock(), "user STRING, blocked STRING")
overdraft = by_function(find_overdrafts, "user STRING, id STRING, balance INT", "balance INT", mode="append")
planted_overdraft = by_function(
    overdraft_mailed, "user STRING, id STRING, balance INT", "balance INT", mode="append"
)
orders = by_rows(Orders(), "user STRING, was STRING, now STRING")
planted_orders = by_rows(OrdersNumbered(), "user STRING, was STRING, now STRING")
matching = by_rows(Matching(), "id STRING, result STRING", key="id")
planted_matching = by_rows(MatchingReminds(), "id STRING, result STRING", key="id")
dedup = by_rows(Dedup(), "id STRING, user STRING, amount INT", key="id")
dedup_ttl = by_rows(DedupByTtl(), "id STRING, user STRING, amount INT", clock="ProcessingTime", key="id")
planted_dedup = by_rows(DedupInModule(), "id STRING, user STRING, amount INT", key="id")
totals = by_frames(Totals(), "user STRING, total LONG, events INT")
planted_totals = by_frames(TotalsWithRandomId(), "user STRING, total LONG, events INT")
latest = by_frames(Latest(), "user STRING, amount INT")
latest_append = by_frames(Latest(), "user STRING, amount INT", mode="Append")
planted_latest = by_frames(LatestOfFirstFrame(), "user STRING, amount INT")

feed, payments = FEED, PAYMENTS
