"""Pairs of versions of a query, and what the second one is given of the first one's checkpoint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql import functions as F

UPGRADES = Path(__file__).parent / "upgrade_outcomes.json"
"""By case: what the second version refuses with, or the rows that it gives out."""
SCHEMA = "user STRING, country STRING, amount LONG, at TIMESTAMP, n INT"
FIRST = [("a", "b", 1, "2024-01-01T00:00:00", 1), ("b", "c", 2, "2024-01-01T00:00:01", 2)]
"""What the first version has, as the files of its source say it."""
SECOND = [("a", "b", 10, "2024-01-01T01:00:00", 3)]
"""What the second one has."""
Build = Callable[[Any], Any]


class Counting:
    """Counts a key's rows in each of its state variables."""

    def __init__(self, **variables: str) -> None:
        self.declared = variables

    def init(self, handle: Any) -> None:
        self.held = {name: handle.getValueState(name, schema) for name, schema in self.declared.items()}

    def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Row]:
        count, told = sum(1 for _ in rows), []
        for name, state in self.held.items():
            old = state.get()[0] if state.exists() else 0
            state.update((old + count,))
            told.append(f"{name}={old + count}")
        yield Row(user=key[0], told=", ".join(told))

    def handleExpiredTimer(self, key: Any, timers: Any, expired: Any) -> Iterator[Row]:
        return iter(())

    def close(self) -> None:
        pass


def _processed(key: str = "user", mode: str = "update", time: str = "none", **variables: str) -> Build:
    def build(frame: Any) -> Any:
        grouped = frame.withWatermark("at", "1 minute").groupBy(key)
        return grouped.transformWithState(Counting(**variables), "user STRING, told STRING", mode, time)

    return build


def _applied(state: str, timeout: str = "NoTimeout") -> Build:
    def count(key: Any, frames: Iterator[Any], held: Any) -> Iterator[Any]:
        total = sum(map(len, frames)) + (held.get[0] if held.exists else 0)
        held.update((int(total),))
        yield pd.DataFrame({"user": [key[0]], "n": [int(total)]})

    output = "user STRING, n LONG"
    return lambda frame: frame.groupBy("user").applyInPandasWithState(count, output, state, "update", timeout)


def _summed(*values: str, key: str = "user") -> Build:
    return lambda frame: frame.groupBy(F.expr(key)).agg(*map(F.expr, values))


def _windows(length: str, delay: str = "1 minute") -> Build:
    return lambda frame: frame.withWatermark("at", delay).groupBy(F.window("at", length)).count()


def _joined(key: str = "user", *columns: str, hours: int = 1) -> Build:
    def build(frame: Any) -> Any:
        its = frame.selectExpr("user AS its_user", "country AS its_country", "n", "at AS its_at")
        its = its.withWatermark("its_at", "1 day")
        near = f"{key} = its_{key} AND its_at BETWEEN at AND at + INTERVAL {hours} HOURS"
        return frame.withWatermark("at", "1 day").drop("n").join(its, F.expr(near)).select("user", *columns)

    return build


def _timed(frame: Any) -> Any:
    return frame.withWatermark("at", "1 minute")


@dataclass(frozen=True, slots=True)
class Upgraded:
    """Two versions of a query, and their output modes."""

    old: Build
    new: Build
    mode: str = "update"
    new_mode: str = ""  # "": the same

    def version(self, number: int) -> tuple[Build, str]:
        """Return a version (0 or 1) with its output mode."""
        return (self.new, self.new_mode or self.mode) if number else (self.old, self.mode)


_total, _most = "sum(amount) AS x", "max(amount) AS x"
CASES = {
    "the same": Upgraded(_summed(_total), _summed(_total)),
    "another key of the same type": Upgraded(_summed(_total), _summed(_total, key="country")),
    "a key of another type": Upgraded(_summed(_total), _summed(_total, key="n")),
    "a key renamed": Upgraded(_summed(_total), _summed(_total, key="user AS who")),
    "one more key": Upgraded(_summed(_total), lambda frame: frame.groupBy("user", "country").agg(F.expr(_total))),
    "a sum becomes a count": Upgraded(_summed(_total), _summed("count(amount) AS x")),
    "a sum becomes a maximum": Upgraded(_summed(_total), _summed(_most)),
    "an average becomes a sum": Upgraded(_summed("avg(amount) AS x"), _summed(_total)),
    "a first value becomes a maximum": Upgraded(_summed("first(amount) AS x"), _summed(_most)),
    "one more aggregate": Upgraded(_summed(_total), _summed(_total, "max(amount) AS y")),
    "an aggregate renamed": Upgraded(_summed(_total), _summed("sum(amount) AS y")),
    "a filter before": Upgraded(_summed(_total), lambda frame: frame.filter("amount > 5").groupBy("user").agg(F.expr(_total))),
    "a watermark before": Upgraded(_summed(_total), lambda frame: _timed(frame).groupBy("user").agg(F.expr(_total))),
    "windows of another length": Upgraded(_windows("1 minute"), _windows("1 hour")),
    "a longer watermark": Upgraded(_windows("1 minute"), _windows("1 minute", "3 hours"), "append"),
    "sessions of another gap": Upgraded(
        lambda frame: _timed(frame).groupBy(F.session_window("at", "5 minutes"), "user").count(),
        lambda frame: _timed(frame).groupBy(F.session_window("at", "1 minute"), "user").count(), "append",
    ),
    "complete mode": Upgraded(_summed(_total), _summed(_total), "update", "complete"),
    "duplicates by another column": Upgraded(
        lambda frame: frame.dropDuplicates(["user"]), lambda frame: frame.dropDuplicates(["country"]), "append"
    ),
    "duplicates by one more column": Upgraded(
        lambda frame: frame.dropDuplicates(["user"]), lambda frame: frame.dropDuplicates(["user", "country"]), "append"
    ),
    "duplicates within the watermark": Upgraded(
        lambda frame: _timed(frame).dropDuplicates(["user"]),
        lambda frame: _timed(frame).dropDuplicatesWithinWatermark(["user"]), "append",
    ),
    "duplicates before": Upgraded(
        _summed(_total), lambda frame: frame.dropDuplicates(["user", "n"]).groupBy("user").agg(F.expr(_total))
    ),
    "duplicates become an aggregate": Upgraded(
        lambda frame: frame.dropDuplicates(["user"]), _summed(_total), "append", "update"
    ),
    "state where there was none": Upgraded(lambda frame: frame.select("user"), _summed(_total)),
    "no state where there was some": Upgraded(_summed(_total), lambda frame: frame.select("user")),
    "the same join of streams": Upgraded(_joined(), _joined(), "append"),
    "a join of streams by another key": Upgraded(_joined(), _joined("country"), "append"),
    "a join of streams within another time": Upgraded(_joined(), _joined(hours=2), "append"),
    "one more column behind a join of streams": Upgraded(_joined(), _joined("user", "amount"), "append"),
    "a state variable renamed": Upgraded(_processed(n="n INT"), _processed(m="n INT")),
    "one more state variable": Upgraded(_processed(n="n INT"), _processed(n="n INT", m="n INT")),
    "one state variable less": Upgraded(_processed(n="n INT", m="n INT"), _processed(n="n INT")),
    "a state variable of a wider type": Upgraded(_processed(n="n INT"), _processed(n="n LONG")),
    "a state variable's column renamed": Upgraded(_processed(n="n INT"), _processed(n="count INT")),
    "a processor by another key": Upgraded(_processed(n="n INT"), _processed("country", n="n INT")),
    "a processor in another output mode": Upgraded(
        _processed(n="n INT"), _processed(mode="append", n="n INT"), "update", "append"
    ),
    "a processor in another time mode": Upgraded(_processed(n="n INT"), _processed(time="eventtime", n="n INT")),
    "a function's state renamed": Upgraded(_applied("n LONG"), _applied("m LONG")),
    "a function's state of another type": Upgraded(_applied("n LONG"), _applied("n INT")),
    "a function gets a timeout": Upgraded(_applied("n LONG"), _applied("n LONG", "ProcessingTimeTimeout")),
    "a function becomes a processor": Upgraded(_applied("n LONG"), _processed(n="n INT")),
}  # fmt: skip
