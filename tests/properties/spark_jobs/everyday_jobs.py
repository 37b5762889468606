"""What the everyday jobs share: columns, input, and how each style of job is started."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pandas as pd

from tests.stateful import StatefulProcessor

SCHEMA = "id STRING, user STRING, at TIMESTAMP, kind STRING, amount INT"
MINUTE_MS = 60_000


def at(second: int) -> datetime:
    return datetime.fromtimestamp(1_900_000_000 + second)


FEED = [
    [("e1", "ann", at(1), "view", 5), ("e2", "bob", at(2), "view", 7), ("e3", "ann", at(4), "cart", -9)],
    [("e4", "bob", at(9), "cart", 3), ("e3", "ann", at(4), "cart", -9), ("e5", "ann", at(12), "buy", 2)],
    [("e6", "bob", at(75), "buy", -30), ("e7", "ann", at(76), "view", 8)],
    [("e8", "ann", at(80), "cart", 1), ("e9", "ann", at(81), "cart", 6), ("f1", "ann", at(82), "buy", 4)],
    [("f2", "eve", at(400), "view", 1), ("f3", "ann", at(401), "view", 3)],
    [("f4", "eve", at(9_000), "view", 1)],
]

Frames = Iterator[pd.DataFrame]


def ms(time_of_row: Any) -> int:
    return int(time_of_row.timestamp() * 1000)


def by_rows(
    processor: StatefulProcessor,
    output: str,
    *,
    mode: str = "Append",
    clock: str = "EventTime",
    key: str = "user",
) -> Callable[[Any], Any]:
    def build(events: Any) -> Any:
        groups = events.withWatermark("at", "10 seconds").groupBy(key)
        made = groups.transformWithState(processor, output, mode, clock)
        return made.writeStream.outputMode(mode).format("memory").queryName("q").start()

    return build


def by_frames(processor: StatefulProcessor, output: str, *, mode: str = "Update") -> Callable[[Any], Any]:
    def build(events: Any) -> Any:
        made = events.groupBy("user").transformWithStateInPandas(processor, output, mode, "None")
        return made.writeStream.outputMode(mode).format("memory").queryName("q").start()

    return build


def by_function(
    function: Any, output: str, state: str, timeout: str = "NoTimeout", mode: str = "update"
) -> Callable[[Any], Any]:
    def build(events: Any) -> Any:
        groups = events.withWatermark("at", "10 seconds").groupBy("user")
        made = groups.applyInPandasWithState(function, output, state, mode, timeout)
        return made.writeStream.outputMode(mode).format("memory").queryName("q").start()

    return build


class Stateful(StatefulProcessor):
    """What all processors here have in common."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def close(self) -> None:
        """Nothing to close."""
