"""Bad inputs: what users get wrong in a job's schemas, modes, handlers and values, each with the place where it is fixed.

Each function builds a query, on Spark as well as on the stand-ins. The line with ``# here`` is the one to fix.
"""

import inspect
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql import functions as F

from tests.stateful import StatefulProcessor

SCHEMA = "word STRING, at TIMESTAMP, n INT"
ROWS = [("a", datetime(2020, 1, 1), 1), ("a", datetime(2020, 1, 1, 0, 0, 1), 2)]
REFUSALS = Path(__file__).parent / "bad_inputs.json"
"""For each, the error that Spark gave: its condition, or its class. Written by ``python -m tests.spark.recorded.bad_inputs``."""


class Quiet(StatefulProcessor):
    """What all here share: it has a value, a list and a map, and yields nothing."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n INT")
        self.list = handle.getListState("list", "n INT")
        self.map = handle.getMapState("map", "k INT", "n INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.given(list(rows))
        yield from ()

    def given(self, rows: list[Any]) -> None:
        """Do something wrong."""


def counted(df: Any, processor: Any, output: Any = "word STRING, n INT", *modes: Any, **more: Any) -> Any:
    return df.groupBy("word").transformWithState(processor, output, *(modes or ("append", "none")), **more)


def started(frame: Any) -> Any:
    return frame.writeStream.foreachBatch(lambda batch, _: batch.collect())


class DeclaresLate(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.handle.getValueState("late", "n INT")  # here


class DeclaresTwice(Quiet):
    def init(self, handle: Any) -> None:
        handle.getValueState("value", "n INT")
        handle.getValueState("value", "n INT")  # here


class DeclaresBadSchema(Quiet):
    def init(self, handle: Any) -> None:
        handle.getValueState("value", "n INTT")  # here


class DeclaresTtl(Quiet):
    def init(self, handle: Any) -> None:
        handle.getValueState("value", "n INT", 1000)  # here


class DeclaresNegativeTtl(Quiet):
    def init(self, handle: Any) -> None:
        handle.getValueState("value", "n INT", -1)  # here


class DeletesLate(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.handle.deleteIfExists("value")  # here


class FailsInInit(Quiet):
    def init(self, handle: Any) -> None:
        raise ValueError("no such table")  # here


class TimesWithoutMode(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.handle.registerTimer(1)  # here


class ListsWithoutMode(Quiet):
    def given(self, rows: list[Any]) -> None:
        list(self.handle.listTimers())  # here


class ReadsInInit(Quiet):
    def init(self, handle: Any) -> None:
        super().init(handle)
        self.value.get()  # here


class ReadsInClose(Quiet):
    def close(self) -> None:
        self.value.get()  # here


class WrongArity(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.value.update((1, 2))  # here


class CatchesTheError(Quiet):
    """Spark has closed the connection to the state by then."""

    def given(self, rows: list[Any]) -> None:
        try:
            self.value.update((1, 2))  # here
        except Exception:  # noqa: BLE001
            self.value.update((1,))


class NoTuple(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.value.update(1)  # here


class EmptyPut(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.list.put([])  # here


class EmptyAppend(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.list.appendList([])  # here


class KeyNoTuple(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.map.getValue(1)  # here


class UpdatesToNone(Quiet):
    def given(self, rows: list[Any]) -> None:
        self.value.update(None)  # here


class TellsTuple(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield ("a", 1)


class TellsDict(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield {"word": "a", "n": 1}


class TellsText(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield Row(word="a", n="one")


class TellsTooMuch(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield Row(word="a", n=1 << 31)


class TellsNumberForText(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield Row(word=1, n=1)


class ReturnsNothing(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        return None


class RaisesItself(Quiet):
    def given(self, rows: list[Any]) -> None:
        rows[0].missing  # here  # noqa: B018


class Unpicklable(Quiet):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class TellsRowsInPandas(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield Row(word="a", n=1)


class TellsFrameWithTextForNumber(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield pd.DataFrame({"word": ["a"], "n": ["one"]})


class TellsFrameWithoutColumn(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # here
        yield pd.DataFrame({"word": ["a"]})


class WrongParameters(Quiet):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.handle.registerTimer(0)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, info: Any) -> Any:  # the error names it
        return iter(())


class Keeps(Quiet):
    """Keeps a value of a type."""

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.kept = kind, value

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", f"x {self.kind}")

    def given(self, rows: list[Any]) -> None:
        self.value.update((self.kept,))


class KeysByMap(Quiet):
    def init(self, handle: Any) -> None:
        self.map = handle.getMapState("map", "k MAP<STRING, INT>", "n INT")

    def given(self, rows: list[Any]) -> None:
        self.map.updateValue(({"a": 1},), (1,))


class Nothing:
    """It extends nothing: Spark calls its methods by name."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", "n INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.value.update((sum(row.n for row in rows),))
        yield Row(word=key[0], n=self.value.get()[0])

    def close(self) -> None:
        pass


class WithoutClose:
    def init(self, handle: Any) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter(())


class WithoutHandler:
    def init(self, handle: Any) -> None:
        pass

    def close(self) -> None:
        pass


class OfItsClass:
    """A class whose methods need no instance."""

    @staticmethod
    def init(handle: Any) -> None:
        pass

    @staticmethod
    def handleInputRows(key: Any, rows: Any, timerValues: Any) -> Any:
        return iter(())

    @staticmethod
    def close() -> None:
        pass


def keeping(kind: str, *value: Any) -> Callable[[Any], Any]:
    """Keep a row in the state of ``applyInPandasWithState``."""

    def keep(key: Any, frames: Any, state: Any) -> Any:
        state.update(value)
        yield from ()

    return lambda df: started(
        df.groupBy("word").applyInPandasWithState(keep, "n INT", f"x {kind}", "append", "NoTimeout")
    )


def by_time(df: Any, processor: Any) -> Any:
    return counted(
        df.withWatermark("at", "0 seconds"), processor, "word STRING, n INT", "append", "eventtime"
    )


def in_pandas(df: Any, processor: Any) -> Any:
    return df.groupBy("word").transformWithStateInPandas(processor, "word STRING, n INT", "append", "none")


def _with(
    processor: Callable[[], StatefulProcessor], how: Callable[..., Any] = counted
) -> Callable[[Any], Any]:
    def build(df: Any) -> Any:
        return started(how(df, processor()))

    return build


BUILDS: dict[str, Callable[[Any], Any]] = {
    "processor is a class": lambda df: started(counted(df, Quiet)),
    "processor is no StatefulProcessor": lambda df: started(counted(df, object())),
    "output schema does not parse": lambda df: started(counted(df, Quiet(), "word STRING n INT")),
    "output schema has an unknown type": lambda df: started(counted(df, Quiet(), "n INTT")),
    "output mode unknown": lambda df: started(counted(df, Quiet(), "n INT", "upsert", "none")),
    "output mode Complete": lambda df: started(counted(df, Quiet(), "n INT", "complete", "none")),
    "output mode differs from the query's": lambda df: started(
        counted(df, Quiet(), "n INT", "update", "none")
    ),
    "time mode unknown": lambda df: started(counted(df, Quiet(), "n INT", "append", "now")),
    "EventTime without a watermark": lambda df: started(counted(df, Quiet(), "n INT", "append", "eventtime")),
    "eventTimeColumnName not in the output": lambda df: started(
        counted(
            df.withWatermark("at", "1 second"),
            Quiet(),
            "n INT",
            "append",
            "eventtime",
            eventTimeColumnName="at",
        )
    ),
    "grouped by an unknown column": lambda df: started(
        df.groupBy("wort").transformWithState(Quiet(), "n INT", "append", "none")
    ),
    "watermark on text": lambda df: started(counted(df.withWatermark("word", "1 second"), Quiet())),
    "watermark with a bad delay": lambda df: started(counted(df.withWatermark("at", "soon"), Quiet())),
    "watermark with a negative delay": lambda df: started(
        counted(df.withWatermark("at", "-1 second"), Quiet())
    ),
    "union of a stream and a frame of rows": lambda df: started(
        counted(df.union(df.sparkSession.createDataFrame(ROWS, SCHEMA)), Quiet())
    ),
    "union of other numbers of columns": lambda df: started(counted(df.union(df.drop("n")), Quiet())),
    "processor extends nothing": lambda df: started(counted(df, Nothing())),
    "processor without close": lambda df: started(counted(df, WithoutClose())),
    "processor without handleInputRows": lambda df: started(counted(df, WithoutHandler())),
    "processor is a class of static methods": lambda df: started(counted(df, OfItsClass)),
    "array in group state": keeping("ARRAY<INT>", [1]),
    "map in group state": keeping("MAP<STRING, INT>", {"a": 1}),
    "decimal out of range in group state": keeping("DECIMAL(4, 2)", Decimal("123.4")),
    "text for a time in group state": keeping("TIMESTAMP", "2026-01-01"),
    "row too short in group state": keeping("INT, y INT", 1),
    "row too long in group state": keeping("INT", 1, 2),
    **{
        f"{name} in value state": _with(partial(Keeps, kind, value))
        for name, kind, value in (
            ("decimal out of range", "DECIMAL(4, 2)", Decimal("123.4")),
            ("text for a time", "TIMESTAMP", "2026-01-01"),
            ("interval", "INTERVAL DAY TO SECOND", timedelta(1)),
            ("interval of months", "INTERVAL YEAR TO MONTH", None),
            ("map by dates", "MAP<DATE, INT>", {}),
            ("void", "VOID", None),
            ("variant", "VARIANT", None),
            ("varchar", "VARCHAR(3)", "abcd"),
            ("char", "CHAR(3)", "a"),
        )
    },
    "map for a key of a map": lambda df: started(counted(df, KeysByMap())),
    "array for a key": lambda df: started(
        df.withColumn("word", F.array("word"))
        .groupBy("word")
        .transformWithState(Quiet(), "n INT", "append", "none")
    ),
    "processor cannot be pickled": lambda df: started(counted(df, Unpicklable())),
    **{
        name: _with(processor, how)
        for name, processor, how in (
            ("init fails", FailsInInit, counted),
            ("state declared in a handler", DeclaresLate, counted),
            ("state declared twice", DeclaresTwice, counted),
            ("state schema has an unknown type", DeclaresBadSchema, counted),
            ("TTL without processing time", DeclaresTtl, counted),
            (
                "TTL negative",
                DeclaresNegativeTtl,
                lambda df, p: counted(df, p, "n INT", "append", "processingtime"),
            ),
            ("deleteIfExists in a handler", DeletesLate, counted),
            ("timer in time mode None", TimesWithoutMode, counted),
            ("listTimers in time mode None", ListsWithoutMode, counted),
            ("state read in init", ReadsInInit, counted),
            ("state read in close", ReadsInClose, counted),
            ("value of wrong arity", WrongArity, counted),
            ("value of wrong arity is caught", CatchesTheError, counted),
            ("value no tuple", NoTuple, counted),
            ("value None", UpdatesToNone, counted),
            ("empty list put", EmptyPut, counted),
            ("empty list appended", EmptyAppend, counted),
            ("map key no tuple", KeyNoTuple, counted),
            ("yields a tuple", TellsTuple, counted),
            ("yields a dict", TellsDict, counted),
            ("yields text for a number", TellsText, counted),
            ("yields a number for text", TellsNumberForText, counted),
            ("yields an int out of range", TellsTooMuch, counted),
            ("handler returns None", ReturnsNothing, counted),
            ("handler raises", RaisesItself, counted),
            ("yields rows in pandas", TellsRowsInPandas, in_pandas),
            ("yields a frame with text for a number", TellsFrameWithTextForNumber, in_pandas),
            ("yields a frame without a column", TellsFrameWithoutColumn, in_pandas),
            ("handleExpiredTimer with another parameter", WrongParameters, by_time),
        )
    },
}
"""What is wrong, and a function that builds the query, but does not start it."""


def line_to_fix(name: str) -> int | None:
    """Return the line with ``# here`` of the processor, or the first of the function that builds the query."""
    build = BUILDS[name]
    processor = inspect.getclosurevars(build).nonlocals.get("processor")
    lines, first = inspect.getsourcelines(processor if isinstance(processor, type) else build)
    marked = [first + place for place, line in enumerate(lines) if "# here" in line]
    return marked[0] if marked else None
