"""Functions for ``applyInPandasWithState``, and the batches on which the simulated and the real Spark are compared."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

INPUT = "k STRING, at TIMESTAMP, n INT"
OUTPUT = "k STRING, n INT"
STATE = "n INT"
OUTCOMES = Path(__file__).parent / "group_outcomes.json"
"""What they came to on Spark 4.3 (local[2]): see tests/spark/recorded/test_group_conformance.py."""


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second)


def timed(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """When a key sets its timeout, and when it removes its state, is in its name."""
    name = key[0]
    before = state.getOption[0] if state.exists else 0
    if state.hasTimedOut:
        yield pd.DataFrame({"k": [name], "n": [before + 1000]})
        if name == "again":
            state.update((before,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 20_000)
        elif name != "stays":
            state.remove()
        return
    total = before + sum(int(frame["n"].sum()) for frame in frames)
    if name.startswith("removes") and before:
        state.remove()
        if name == "removes, waits":
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 5_000)
    else:
        state.update((total,))
    if not (name == "once" and before) and not name.startswith("removes"):
        state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 0) + 10_000)
    yield pd.DataFrame({"k": [name], "n": [total]})


def plain(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Keep a sum."""
    total = sum(int(frame["n"].sum()) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def _rows(second: float, *names: str) -> list[tuple[Any, ...]]:
    return [(name, at(second), 1) for name in names]


_ALL = ("each", "once", "removes", "removes, waits", "again", "stays")
FEED = [
    _rows(10, *_ALL),
    _rows(15, *_ALL),
    _rows(21, "each", "z"),
    _rows(30, "z"),
    _rows(31, "stays", "removes"),
    _rows(5, "each") + _rows(60, "z"),  # late
    _rows(61, "z"),
    _rows(120, "z", "again"),
    _rows(150, "z"),
]
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "timed": (timed, "EventTimeTimeout"),
    "plain": (plain, "NoTimeout"),
}


def grouped(events: Any, name: str) -> Any:
    """The query up to its sink."""
    function, timeout = CASES[name]
    groups = events.withWatermark("at", "0 seconds").groupBy("k")
    return groups.applyInPandasWithState(function, OUTPUT, STATE, "append", timeout)
