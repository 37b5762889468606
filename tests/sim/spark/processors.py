"""Processors for the comparison with Spark: each with its input, in micro-batches, and how it is run.

Seconds in the feeds are event time. What a processor yields is text, so that all of them have one output schema.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql import types as t

from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.query.streaming_query import OffsetLogEntry, Outcome, run_job
from headrace_sim.spark.spark_job import (
    InitialState,
    OutputMode,
    SparkJob,
    TimeMode,
    TransformWithState,
    WatermarkStep,
)
from tests.stateful import StatefulProcessor

INPUT = parse_schema("k STRING, at TIMESTAMP, n INT")
OUTPUT = parse_schema("k STRING, said STRING, at TIMESTAMP")
Batches = list[list[tuple[str, datetime, int]]]


def ms(row: Any) -> int:
    return int(row.at.timestamp() * 1000)


class Processor(StatefulProcessor):
    """What all here share: ``rows`` is called with each key's rows, ``timer`` with each timer."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.declare(handle)

    def declare(self, handle: Any) -> None:
        """Make state."""

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        """Yield texts."""
        return ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        """Yield texts."""
        return ()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for text in self.rows(key[0], list(rows), timerValues):
            yield Row(k=key[0], said=str(text), at=None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        for text in self.timer(key[0], expiredTimerInfo.getExpiryTimeInMs(), timerValues):
            yield Row(k=key[0], said=str(text), at=None)


class Sums(Processor):
    def declare(self, handle: Any) -> None:
        self.sum = handle.getValueState("sum", "total LONG, rows INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        total, count = self.sum.get() or (0, 0)
        self.sum.update((total + sum(row.n for row in rows), count + len(rows)))
        yield self.sum.get()


class ClearedAtThree(Processor):
    def declare(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for row in rows:
            yield self.seen.exists(), self.seen.get()
            if row.n == 3:
                self.seen.clear()
            else:
                self.seen.update((row.n,))


class WrapsIntegers(Processor):
    def declare(self, handle: Any) -> None:
        self.all = handle.getValueState("all", "b BYTE, s SHORT, i INT, l LONG")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.all.update((128, 1 << 15, 1 << 31, (1 << 62) - 1))
        yield self.all.get()


class WrongTypes(Processor):
    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "i INT, s STRING, d DOUBLE, b BOOLEAN")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for value in [("x", 1, 1, 1), (1.5, 2.5, "1.5", "true"), (True, True, None, None), (None,) * 4]:
            self.value.update(value)
            yield self.value.get()


class NullInNotNull(Processor):
    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "i INT NOT NULL, d DOUBLE NOT NULL")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.value.update((None, None))
        yield self.value.get()


class RichValues(Processor):
    def declare(self, handle: Any) -> None:
        schema = "a ARRAY<INT>, p STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>, d DATE, t TIMESTAMP, c DECIMAL(5, 2)"
        self.value = handle.getValueState("value", schema)

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        when = datetime(2020, 5, 17, 12, 30)
        self.value.update(([1, 2], Row(x=1, y="z"), {"one": 1}, date(2020, 1, 2), when, Decimal("1.25")))
        yield self.value.get()
        self.value.update((None,) * 6)
        yield self.value.get()


class Appends(Processor):
    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield self.list.exists(), list(self.list.get())
        self.list.appendValue((rows[0].n,))
        self.list.appendList([(row.n,) for row in rows])
        yield list(self.list.get())


class Replaces(Processor):
    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT, s STRING")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        before = list(self.list.get())
        self.list.put([(row.n, "x") for row in rows])
        yield before
        if any(row.n == 3 for row in rows):
            self.list.clear()


class ListReadWhileAppended(Processor):
    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.list.appendList([(1,), (2,)])
        reading = self.list.get()
        first = next(reading)
        self.list.appendValue((3,))
        yield first, list(reading)


class WordMap(Processor):
    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "word STRING", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for word in ["b", "aa", "c", "", "zzzzzzzzzzz", "é"]:
            self.map.updateValue((word,), (rows[0].n,))
        yield list(self.map.keys())
        yield [tuple(value) for value in self.map.values()]
        yield [(tuple(word), tuple(value)) for word, value in self.map.iterator()]
        self.map.removeKey(("aa",))
        yield self.map.containsKey(("aa",)), self.map.getValue(("aa",)), self.map.getValue(("b",))


class NumberMap(Processor):
    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "n INT, m LONG", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for number in [3, -1, 256, 1, 2]:
            self.map.updateValue((number, number * 3), (None,))
        yield list(self.map.keys())
        for number in [3, -1, 256, 1]:
            self.map.removeKey((number, number * 3))
        yield self.map.exists(), list(self.map.iterator())
        self.map.clear()
        yield self.map.exists(), list(self.map.keys())


class MapWithNulls(Processor):
    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "k STRING", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.map.updateValue((None,), (1,))
        yield list(self.map.iterator()), self.map.containsKey((None,))


class Deletes(Processor):
    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n INT")
        handle.deleteIfExists("absent")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        before = self.value.get()
        self.value.update((rows[0].n,))
        yield before


class ReadsFirstRowOnly(Processor):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield Row(k=key[0], said=str(next(iter(rows)).n), at=None)


class TellsWhatItIsGiven(Processor):
    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield sorted(map(str, rows)), times.getCurrentWatermarkInMs()


class TellsWatermark(Processor):
    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield (
            sorted(row.n for row in rows),
            times.getCurrentWatermarkInMs(),
            times.getCurrentProcessingTimeInMs() > 0,
        )


class SelfCounts(Processor):
    """Keeps state on itself: it lasts for one task."""

    def declare(self, handle: Any) -> None:
        self.count: dict[str, int] = {}

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.count[key] = self.count.get(key, 0) + len(rows)
        yield self.count[key]


class Sessions(Processor):
    """Ends a session 5 s after its last row."""

    def declare(self, handle: Any) -> None:
        self.end = handle.getValueState("end", "at LONG, rows INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        end, count = self.end.get() or (0, 0)
        if end:
            self.handle.deleteTimer(end)
        end = max(end, *(ms(row) + 5000 for row in rows))
        self.end.update((end, count + len(rows)))
        self.handle.registerTimer(end)
        yield "open"

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry, self.end.get(), times.getCurrentWatermarkInMs()
        self.end.clear()


class ManyTimers(Processor):
    """Timers of several keys at the same times."""

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for row in rows:
            for after in (3000, 1000, 2000, 1000):
                self.handle.registerTimer(ms(row) + after)
        yield list(self.handle.listTimers())

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry, list(self.handle.listTimers())


class TimerAgain(Processor):
    """Registers the timer that is firing again: Spark loses it."""

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.handle.registerTimer(ms(rows[0]) + 1000)
        return ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        self.handle.registerTimer(expiry)
        yield expiry, list(self.handle.listTimers())


class TimerInThePast(Processor):
    """Registers a timer behind the watermark, from its rows and from a timer."""

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.handle.registerTimer(500)
        return ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry, times.getCurrentWatermarkInMs()
        if expiry == 500:
            self.handle.registerTimer(400)


class DeletesADueTimer(Processor):
    """Deletes in a timer another that is due in the same pass."""

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.handle.registerTimer(ms(rows[0]) + 1000)
        self.handle.registerTimer(ms(rows[0]) + 2000)
        return ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        self.handle.deleteTimer(expiry + 1000)
        yield expiry, list(self.handle.listTimers())


class NegativeTimers(Processor):
    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for expiry in (-5, 0, 300, 20):
            self.handle.registerTimer(expiry)
        yield list(self.handle.listTimers())

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry


class Seeded(Processor):
    """Counts on from an initial state."""

    def declare(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n LONG")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.count.update(((self.count.get() or (0,))[0] + initialState.n,))

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.count.update(((self.count.get() or (0,))[0] + len(rows),))
        yield self.count.get()


class YieldsByName(Processor):
    """Yields columns in another order, one too few, and one too many."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield Row(said="order", k=key[0], at=None)
        yield Row(k=key[0], extra=1)
        yield Row(k=key[0], said="at", at=datetime(2020, 1, 1))


class PassesOn(Processor):
    """Yields each row with its time, for a step that follows."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield Row(k=key[0], said=str(row.n), at=row.at)


class CountsTold(Processor):
    """Follows another step, and counts by timer."""

    def declare(self, handle: Any) -> None:
        self.told = handle.getListState("told", "said STRING")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.told.appendList([(row.said,) for row in rows])
        self.handle.registerTimer(ms(rows[0]) + 2000)
        yield len(rows), times.getCurrentWatermarkInMs()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry, sorted(row[0] for row in self.told.get())


class PandasSums(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.sum = handle.getValueState("sum", "total LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        frames = list(rows)
        total = (self.sum.get() or (0,))[0] + sum(int(frame["n"].sum()) for frame in frames)
        self.sum.update((total,))
        shown = [(list(frame.columns), [str(kind) for kind in frame.dtypes]) for frame in frames]
        yield pd.DataFrame({"k": [key[0]], "said": [f"{total} {shown}"], "at": [None]})


class PandasTimers(PandasSums):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        self.handle.registerTimer(2500)
        yield from super().handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield pd.DataFrame(
            {
                "k": [key[0]],
                "said": [f"{expiredTimerInfo.getExpiryTimeInMs()} {self.sum.get()}"],
                "at": [None],
            }
        )


class ValueExpires(Processor):
    """A value that lives 10 s, and reading does not prolong it."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n INT", 10_000)

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield self.value.exists(), self.value.get()
        for row in rows:
            if row.n > 0:
                self.value.update((row.n,))
        yield self.value.exists(), self.value.get()


class ListExpires(Processor):
    """Each element lives 10 s by itself."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT", 10_000)

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield self.list.exists(), list(self.list.get())
        for row in rows:
            if row.n > 9:
                self.list.put([(row.n,), (row.n + 1,)])
            elif row.n > 0:
                self.list.appendValue((row.n,))
        yield self.list.exists(), list(self.list.get())


class MapExpires(Processor):
    """Each key of the map lives 10 s by itself."""

    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "n INT", "n INT", 10_000)

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield self.map.exists(), [(tuple(key), tuple(held)) for key, held in self.map.iterator()]
        for row in rows:
            if row.n > 0:
                self.map.updateValue((row.n % 3,), (row.n,))
        yield (
            [self.map.containsKey((number,)) for number in range(3)],
            list(self.map.keys()),
            [tuple(held) for held in self.map.values()],
        )


class ExpiresAndStays(Processor):
    """One variable expires, the other does not."""

    def declare(self, handle: Any) -> None:
        self.short = handle.getValueState("short", "n INT", 10_000)
        self.long = handle.getValueState("long", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        yield self.short.get(), self.long.get()
        if rows[0].n > 0:
            self.short.update((rows[0].n,))
            self.long.update((rows[0].n,))


class ClockTimers(Processor):
    """Timers by processing time: one that is due at once, and one that is due later."""

    def declare(self, handle: Any) -> None:
        self.begun = handle.getValueState("begun", "at LONG")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        now = times.getCurrentProcessingTimeInMs()
        begun = (self.begun.get() or (now,))[0]
        self.begun.update((begun,))
        for wait in (0, -1, 8_000, 600_000):
            self.handle.registerTimer(now + wait)
        yield sorted(expiry - now for expiry in self.handle.listTimers() if expiry >= now - 1)

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        now = times.getCurrentProcessingTimeInMs()
        yield expiry - self.begun.get()[0], expiry <= now, times.getCurrentWatermarkInMs()


class ClockTimersAndTtl(Processor):
    """A timer finds the value expired, or not."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n INT", 10_000)

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.value.update((rows[0].n,))
        self.handle.registerTimer(times.getCurrentProcessingTimeInMs() + 3_000 * rows[0].n)
        return ()

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield self.value.exists(), self.value.get()
        self.value.update((-1,))


class LongLists(Processor):
    """More elements, and more keys of a map, than one message of Spark's has."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT")
        self.map = handle.getMapState("map", "n INT", "s STRING")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.list.appendList([(number,) for number in range(2500)])
        for number in range(0, 3000, 17):
            self.map.updateValue((number,), ("x" * 50,))
        found = [row[0] for row in self.list.get()]
        yield found == [*range(2500)]
        keys = self.map.keys()
        yield [number for (number,) in keys][:20], len(list(self.map.values()))
        self.list.clear()
        self.map.clear()


class ChangesWhileRead(Processor):
    """Changes a map and a list while an iterator reads them."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT")
        self.map = handle.getMapState("map", "n INT", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for number in range(3):
            self.map.updateValue((number,), (number,))
        seen = []
        for map_key, _ in self.map.iterator():
            self.map.removeKey(map_key)
            self.map.updateValue((map_key[0] + 10,), (1,))
            seen.append(map_key[0])
        keys = self.map.keys()
        yield seen, sorted(number for (number,) in keys)
        self.list.put([(1,), (2,)])
        reading = self.list.get()
        first = next(reading)
        self.list.clear()
        yield first, list(reading), self.list.exists()


class NullElements(Processor):
    """Nulls as elements, values, keys of maps; and a struct of nulls."""

    def declare(self, handle: Any) -> None:
        self.list = handle.getListState("list", "n INT, s STRING")
        self.value = handle.getValueState("value", "p STRUCT<x: INT, y: ARRAY<INT>>")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.list.appendList([(None, None), (1, None)])
        yield list(self.list.get())
        for held in ((None,), (Row(x=None, y=[None, 1]),), (Row(x=1, y=None),)):
            self.value.update(held)
            yield self.value.get()


class KeysOfManyTypes(Processor):
    """A map whose keys are dates, floats, and nested."""

    def declare(self, handle: Any) -> None:
        self.dates = handle.getMapState("dates", "d DATE, x DOUBLE", "n INT")
        self.nested = handle.getMapState("nested", "p STRUCT<x: INT, y: STRING>", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for day, x in ((1, 1.5), (2, -1.5), (1, 0.0), (3, float("nan")), (3, float("nan"))):
            self.dates.updateValue((date(2020, 1, day), x), (day,))
        yield list(self.dates.keys())
        for x, y in ((2, "b"), (1, "a"), (1, None)):
            self.nested.updateValue((Row(x=x, y=y),), (x,))
        yield list(self.nested.keys()), self.nested.containsKey((Row(x=1, y=None),))


class BothZeros(Processor):
    """A map in which 0.0 and -0.0 are two keys, though they are equal."""

    def declare(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "x DOUBLE", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        self.map.updateValue((0.0,), (1,))
        yield self.map.containsKey((-0.0,))
        self.map.updateValue((-0.0,), (2,))
        yield self.map.getValue((0.0,)), self.map.getValue((-0.0,)), sorted(map(str, self.map.keys()))
        self.map.removeKey((0.0,))


class Forgotten(Processor):
    """Values that are cleared twice, put after clear, and removed without being there."""

    def declare(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n INT")
        self.list = handle.getListState("list", "n INT")
        self.map = handle.getMapState("map", "n INT", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        for variable in (self.value, self.list, self.map):
            variable.clear()
            variable.clear()
        self.map.removeKey((1,))
        yield self.value.get(), list(self.list.get()), self.map.getValue((1,)), self.map.exists()
        self.list.appendValue((1,))
        self.list.clear()
        self.list.appendValue((2,))
        self.value.update((1,))
        self.value.clear()
        yield list(self.list.get()), self.value.exists()


class PandasSeeded(PandasSums):
    """Begins with an initial state, given as a frame."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.sum.update(
            ((self.sum.get() or (0,))[0] + int(initialState["n"].sum()) * 1000 + len(initialState),)
        )


class SeededWithTimers(Seeded):
    """Registers a timer for a key that has no rows yet."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        super().handleInitialState(key, initialState, timerValues)
        self.handle.registerTimer(2000 + initialState.n)

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        yield expiry, self.count.get()


@dataclass(frozen=True, slots=True)
class Case:
    """A processor, how it is run, and its batches. ``waits_s``: how long before each batch, where the clock matters."""

    processor: Callable[[], StatefulProcessor]
    mode: TimeMode = TimeMode.NONE
    batches: tuple[tuple[tuple[str, float, int | None], ...], ...] = (
        (("a", 1, 1), ("b", 2, 2), ("a", 3, 3)),
        (("b", 4, 3), ("c", 5, 1), ("a", 5, 2)),
        (("a", 9, 1),),
    )
    initial: InitialState | None = None
    then: Callable[[], StatefulProcessor] | None = None
    watermark_ms: int | None = None
    output_mode: OutputMode = OutputMode.APPEND
    waits_s: tuple[float, ...] = ()

    def job(self) -> SparkJob:
        """Return the job."""
        job = SparkJob(INPUT)
        if self.mode is TimeMode.EVENT_TIME:
            job = job.then(WatermarkStep("at", (self.watermark_ms or 0) * 1000, INPUT))
        made = self.processor()
        pandas = isinstance(made, PandasSums)
        job = job.then(
            TransformWithState(
                made,
                ("k",),
                OUTPUT,
                self.output_mode,
                self.mode,
                pandas,
                self.initial,
                "at" if self.then else "",
            )
        )
        if self.then is not None:
            job = job.then(TransformWithState(self.then(), ("k",), OUTPUT, OutputMode.APPEND, self.mode))
        return job

    def feed(self) -> list[list[tuple[Any, ...]]]:
        """Return the rows."""
        return [[(k, datetime.fromtimestamp(second), n) for k, second, n in batch] for batch in self.batches]


_LATE = (
    (("a", 10, 1), ("b", 0, 2)),
    (("a", 5, 2), ("b", 12, 3), ("c", 10, 3)),
    (("a", 10, 4), ("b", 11, 5), ("c", 12, 6), ("d", 13, 7)),
    (("a", 30, 8),),
)
_SEEDS = InitialState(
    t.StructType(INPUT.fields),
    ("k",),
    (("a", datetime(1970, 1, 2), 10), ("a", datetime(1970, 1, 2), 5), ("z", datetime(1970, 1, 2), 7)),
)

_ODD_KEYS: Any = (((None, 1, 1), ("", 2, 2), (None, 3, 3)), (("", 4, 3), (None, 5, 1), (" ", 5, 2)))
_CLOCK = (
    (("a", 1, 1), ("b", 1, 2), ("c", 1, 12)),
    (("a", 2, 0), ("b", 2, 4), ("c", 2, 5)),
    (("a", 3, 0), ("b", 3, 0), ("c", 3, 0)),
    (("b", 4, 1), ("a", 4, 7)),
    (("c", 5, 3), ("a", 5, 0)),
)

CASES: dict[str, Case] = {
    **{
        made.__name__: Case(made)
        for made in (
            Sums, ClearedAtThree, WrapsIntegers, WrongTypes, NullInNotNull, RichValues, Appends, Replaces,
            ListReadWhileAppended, WordMap, NumberMap, MapWithNulls, Deletes, ReadsFirstRowOnly, TellsWhatItIsGiven,
            SelfCounts, YieldsByName, PandasSums, LongLists, ChangesWhileRead, NullElements, KeysOfManyTypes, Forgotten,
            BothZeros,
        )
    },
    **{
        made.__name__: Case(made, TimeMode.EVENT_TIME)
        for made in (
            TellsWatermark, Sessions, ManyTimers, TimerAgain, TimerInThePast, DeletesADueTimer, NegativeTimers, PandasTimers,
        )
    },
    "TellsWatermark, late rows": Case(TellsWatermark, TimeMode.EVENT_TIME, _LATE),
    "TellsWatermark, late rows, delay": Case(TellsWatermark, TimeMode.EVENT_TIME, _LATE, watermark_ms=1500),
    "Sessions, late rows": Case(Sessions, TimeMode.EVENT_TIME, _LATE, watermark_ms=500),
    "Seeded": Case(Seeded, initial=_SEEDS),
    "PandasSeeded": Case(PandasSeeded, initial=_SEEDS),
    "SeededWithTimers": Case(SeededWithTimers, TimeMode.EVENT_TIME, initial=_SEEDS),
    "Sums, output mode Update": Case(Sums, output_mode=OutputMode.UPDATE),
    "ManyTimers, output mode Update": Case(ManyTimers, TimeMode.EVENT_TIME, output_mode=OutputMode.UPDATE),
    "Sums, keys that are null or empty": Case(Sums, batches=_ODD_KEYS),
    "Appends, keys that are null or empty": Case(Appends, batches=_ODD_KEYS),
    "PassesOn, then CountsTold": Case(PassesOn, TimeMode.EVENT_TIME, then=CountsTold),
    "PassesOn, then CountsTold, late rows": Case(PassesOn, TimeMode.EVENT_TIME, _LATE, then=CountsTold),
}  # fmt: skip

CLOCKED = {
    made.__name__: Case(made, TimeMode.PROCESSING_TIME, _CLOCK, waits_s=(0, 0, 0, 4, 9))
    for made in (ValueExpires, ListExpires, MapExpires, ExpiresAndStays, ClockTimers, ClockTimersAndTtl)
}
"""Cases whose outcome depends on when each batch ran: the times are recorded with it."""

CLOCKED_OUTCOMES = Path(__file__).parent / "clocked_outcomes.json"
OUTCOMES = Path(__file__).parent / "stateful_outcomes.json"
"""What Spark gave for each case. Written by tests/spark/recorded/test_stateful_conformance.py."""


def told(outputs: dict[int, list[Any]], state: list[str], timers: list[str]) -> dict[str, Any]:
    """Return what a case came to in the form in which it is kept."""
    rows = {str(batch): sorted(map(_text, rows)) for batch, rows in outputs.items()}
    return {"outputs": rows, "state": sorted(state), "timers": sorted(timers)}


def _text(row: Any) -> str:
    k, said, at = row
    return f"{k}: {said}" if at is None else f"{k}: {said} at {at}"


def simulated(case: Case, clock: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """Return what the simulated Spark gives. ``clock``: of each batch, its time in ms and its number of rows."""
    feed, outcome = case.feed(), Outcome()
    if not clock:
        outcome = run_job(case.job(), feed)
    else:
        times = [at for at, _ in clock]
        steps = tuple(after - before for before, after in pairwise(times))
        schedule = Schedule(tuple(rows for _, rows in clock), start_ms=times[0], steps_ms=steps)

        def take(batch: OffsetLogEntry, found: Outcome) -> None:
            nonlocal outcome
            if batch.number == len(clock) - 1:
                outcome = copy.deepcopy(found)  # what follows, Spark did not get to do

        run_job(case.job(), feed, schedule, after_batch=take)
    found = as_text(outcome)
    return found | {"clock": [list(reading) for reading in clock]} if clock else found


def as_text(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome in the form in which it is kept. Raise what ended the query, if anything did."""
    if outcome.failure is not None:
        raise outcome.failure
    state = [
        f"{name} {key} {row}"
        for held in outcome.state.values()
        for (name, key), whole in held.items()
        for row in _flat(whole)
    ]
    timers = [f"{key} {expiry}" for found in outcome.timers.values() for key, expiry in found]
    watermarks = [batch.watermark_ms for batch in outcome.batches]
    return told(outcome.outputs, state, timers) | {"watermarks": watermarks, "late": outcome.late}


def _flat(held: Any) -> list[Any]:
    return held if isinstance(held, list) else [*held.items()] if isinstance(held, dict) else [held]
