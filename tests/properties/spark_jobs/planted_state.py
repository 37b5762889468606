"""More mistakes in stateful jobs: modules of Python workers, and the clock of batches. Each has a sound twin."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from pyspark.sql import Row

from headrace_sim.spark.spark_job import OutputMode, SparkJob
from tests.properties.spark_jobs.planted import (
    MINUTE_MS,
    TOGETHER,
    Planted,
    Processor,
    at,
    by_clock,
    job,
    minute_of,
)

END = [[("z", at(900), 0)], [("z", at(2_000), 0)]]
FEED = [
    [("a", at(1), 1), ("b", at(2), 2)],
    [("a", at(3), 3)],
    [("a", at(4), 5), ("b", at(5), 7)],
    [("a", at(6), 11)],
    *END,
]


class Totals(Processor):
    """Tells a key's total when event time has passed its first minute."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n INT, version INT")
        self.cache: dict[str, int] = {}

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        rows = list(rows)
        _, version = self.total.get() or (0, 0)
        self.total.update((self.before(key[0]) + sum(row.n for row in rows), version + 1))
        self.handle.registerTimer(minute_of(rows[0]) + MINUTE_MS)
        self.after(key[0])
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=self.total.get()[0])
        self.total.clear()

    def before(self, key: str) -> int:
        return (self.total.get() or (0, 0))[0]

    def after(self, key: str) -> None:
        """Remember what has been written."""


_totals: dict[str, int] = {}
_versions: dict[str, tuple[int, int]] = {}
_days: dict[int, str] = {}
_told: dict[str, int] = {}
_counted: dict[str, int] = {}


class CacheBeforeState(Totals):
    """Trusts what a worker's module has of a key."""

    def before(self, key: str) -> int:
        return _totals[key] if key in _totals else super().before(key)

    def after(self, key: str) -> None:
        _totals[key] = self.total.get()[0]


class CacheOfClass(CacheBeforeState):
    known: dict[str, int] = {}  # noqa: RUF012  the mistake

    def before(self, key: str) -> int:
        return self.known.get(key) or Totals.before(self, key)

    def after(self, key: str) -> None:
        self.known[key] = self.total.get()[0]


class CacheWithVersion(Totals):
    """Trusts the module only if it has the version that the state has."""

    def before(self, key: str) -> int:
        n, version = self.total.get() or (0, 0)
        return _versions[key][0] if _versions.get(key, (0, -1))[1] == version else n

    def after(self, key: str) -> None:
        _versions[key] = self.total.get()


class CacheOnSelf(Totals):
    """What is on self begins anew in each task, and has what the task has written."""

    def before(self, key: str) -> int:
        return self.cache.get(key) or super().before(key)

    def after(self, key: str) -> None:
        self.cache[key] = self.total.get()[0]


@cache
def _squared(n: int) -> int:
    return n * n


class CachesWhatIsAlwaysTheSame(Totals):
    """Keeps in its module what a function makes of its arguments, and counts its calls for a log."""

    calls = 0

    def before(self, key: str) -> int:
        n = super().before(key)
        type(self).calls += 1
        _days.setdefault(n, str(_squared(n)))
        return int(int(_days[n]) ** 0.5 + 0.5)


class CountsByClock(Processor):
    """Tells how many rows came within a minute of the first one, by the clock of batches."""

    ttl_ms: int | None = None

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n INT", ttlDurationMs=self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        held = self.count.get()
        if held is None:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + MINUTE_MS)
        self.count.update((self.counted(held[0] if held else 0, len(list(rows))),))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=self.count.get()[0])
        self.count.clear()

    def counted(self, before: int, more: int) -> int:
        return before + more


class CountsInModule(CountsByClock):
    """Counts in the module of its worker, from which the timer takes what it tells: in the end, nothing is there."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        rows = list(rows)
        _counted[key[0]] = _counted.get(key[0], 0) + len(rows)
        yield from super().handleInputRows(key, iter(rows), timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=_counted.pop(key[0], 0))
        self.count.clear()


class CountsTheLastCall(CountsByClock):
    """Forgets what it had counted."""

    def counted(self, before: int, more: int) -> int:
        return more


class FirstOfKey(Processor):
    """Passes a key's first row on, within the TTL."""

    ttl_ms: int | None = None

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n INT", ttlDurationMs=self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if not self.seen.exists():
            self.seen.update((1,))
            yield Row(k=key[0], n=1)


class FirstOfKeyForAnHour(FirstOfKey):
    ttl_ms = 60 * MINUTE_MS


class RowOfEachCall(FirstOfKeyForAnHour):
    """Takes whatever comes in a call for one."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.seen.update((1,))
        yield Row(k=key[0], n=1)


class TellsAndEnds(FirstOfKeyForAnHour):
    """Tells of each call how many rows the key had, and then that it is at its end."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        before = (self.seen.get() or (0,))[0]
        self.seen.update((self.counted(key[0], before) + len(list(rows)),))
        yield Row(k=key[0], n=self.seen.get()[0])
        yield Row(k=key[0], n=0)
        self.after(key[0])

    def counted(self, key: str, before: int) -> int:
        return before

    def after(self, key: str) -> None:
        """Remember what has been written."""


class TellsOfTheModule(TellsAndEnds):
    """The last row of each batch hides what is lost with a worker."""

    def counted(self, key: str, before: int) -> int:
        return _told.get(key, 0)

    def after(self, key: str) -> None:
        _told[key] = self.seen.get()[0]
        self.seen.update((1,))


class Forgets(FirstOfKey):
    """Counts a call's rows, not the key's: it never reads its state."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.seen.update((len(list(rows)),))
        yield Row(k=key[0], n=self.seen.get()[0])


class Counts(FirstOfKey):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        self.seen.update(((self.seen.get() or (0,))[0] + len(list(rows)),))
        yield Row(k=key[0], n=self.seen.get()[0])


def _updating(processor: Processor) -> SparkJob:
    made = by_clock(processor)
    return replace(made, steps=(replace(made.steps[0], output_mode=OutputMode.UPDATE),))  # type: ignore[arg-type]


class InSlots:
    """Extends nothing, and keeps its state in a slot."""

    __slots__ = ("seen", "total")

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n INT", ttlDurationMs=60 * MINUTE_MS)
        self.total = 0

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if not self.seen.exists():
            self.seen.update((1,))
            yield Row(k=key[0], n=1)

    def close(self) -> None:
        pass


class TotalInSlot(InSlots):
    """Numbers the keys of a task."""

    __slots__ = ()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in super().handleInputRows(key, rows, timerValues):
            self.total += 1
            yield Row(k=row.k, n=self.total)


PLANTED_STATE = {
    "a cache of the module before the state": Planted(
        job(CacheBeforeState()), job(CacheWithVersion()), FEED, "memory", ("_totals", "outside state")
    ),
    "a cache of the class before the state": Planted(
        job(CacheOfClass()), job(CacheOnSelf()), FEED, "memory", ("known", "outside state")
    ),
    "counts by the clock in the module, until a timer takes them": Planted(
        by_clock(CountsInModule()), by_clock(CountsByClock()), FEED, "memory", ("_counted", "outside state")
    ),
    "counts by the clock, each call for itself": Planted(
        by_clock(CountsTheLastCall()),
        by_clock(CountsByClock()),
        FEED,
        "batching",
        ("at one time", "cut into"),
    ),
    "numbers in a slot of a processor that extends nothing": Planted(
        by_clock(TotalInSlot()), by_clock(InSlots()), FEED, "memory", ("self.total", "outside state")
    ),
    "a count of the module, in rows that a later one of the batch replaces": Planted(
        _updating(TellsOfTheModule()), _updating(TellsAndEnds()), FEED, "memory", ("_told", "outside state")
    ),
    "a row of each call, with a TTL": Planted(
        by_clock(RowOfEachCall()), by_clock(FirstOfKeyForAnHour()), TOGETHER, "batching", ("at one time",)
    ),
}
"""Mistakes with their twins; the first finding names the cause."""
SOUND = {
    "a function's results in a module": (job(CachesWhatIsAlwaysTheSame()), ()),
    "a running count, by no clock": (_updating(Counts()), ("growth",)),
}
"""Others that hold, with what is allowed of them."""
