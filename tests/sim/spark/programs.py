"""Little programs over state calls, drawn by Hypothesis: one processor runs hundreds of them, each for a key of its own.

So one query on Spark compares them all. A program is plain data: what is done for each row, and what in each timer.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from headrace_sim.spark.spark_job import TimeMode
from tests.sim.spark.processors import Case, Processor, ms

Operation = tuple[Any, ...]
"""The name of a call, and what it is given."""
Program = tuple[list[Operation], list[Operation], list[list[tuple[int, int]]]]
"""What is done for a row; in a timer; and the (event-time second, number) of the rows in each batch."""

RECORDED = Path(__file__).parent / "program_outcomes.json"
"""Programs, and what Spark gave for them."""


class Runs(Processor):
    """Runs each key's program."""

    def __init__(self, programs: dict[str, Program]) -> None:
        self.programs = programs

    def declare(self, handle: Any) -> None:
        """Make one variable of each kind."""
        self.value = handle.getValueState("value", "i INT, s STRING")
        self.list = handle.getListState("list", "i INT")
        self.map = handle.getMapState("map", "k INT", "i INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        """Run the program's part for each row."""
        if key in self.programs:
            for row in sorted(rows, key=lambda row: row.n):
                yield (
                    times.getCurrentWatermarkInMs(),
                    [self._done(ms(row), *operation) for operation in self.programs[key][0]],
                )

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        """Run its part for a timer."""
        yield expiry, [self._done(expiry, *operation) for operation in self.programs[key][1]]

    def _done(self, at_ms: int, name: str, *given: Any) -> Any:
        return OPERATIONS[name](self, at_ms, *given)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "value.get": lambda own, _: own.value.get(),
    "value.exists": lambda own, _: own.value.exists(),
    "value.update": lambda own, _, number, text: own.value.update((number, text)),
    "value.clear": lambda own, _: own.value.clear(),
    "list.get": lambda own, _: list(own.list.get()),
    "list.exists": lambda own, _: own.list.exists(),
    "list.put": lambda own, _, *numbers: own.list.put([(number,) for number in numbers]),
    "list.appendList": lambda own, _, *numbers: own.list.appendList([(number,) for number in numbers]),
    "list.appendValue": lambda own, _, number: own.list.appendValue((number,)),
    "list.clear": lambda own, _: own.list.clear(),
    "map.getValue": lambda own, _, key: own.map.getValue((key,)),
    "map.containsKey": lambda own, _, key: own.map.containsKey((key,)),
    "map.updateValue": lambda own, _, key, number: own.map.updateValue((key,), (number,)),
    "map.removeKey": lambda own, _, key: own.map.removeKey((key,)),
    "map.keys": lambda own, _: list(map(tuple, own.map.keys())),
    "map.iterator": lambda own, _: [(tuple(key), tuple(held)) for key, held in own.map.iterator()],
    "map.clear": lambda own, _: own.map.clear(),
    "registerTimer": lambda own, at_ms, after: own.handle.registerTimer(at_ms + after),
    "deleteTimer": lambda own, at_ms, after: own.handle.deleteTimer(at_ms + after),
    "listTimers": lambda own, _: list(own.handle.listTimers()),
}

_NUMBERS = st.one_of(
    st.integers(-3, 300), st.sampled_from((None, 1 << 31, -(1 << 31), (1 << 63) - 1, True, 1.5, "x"))
)
_TEXTS = st.one_of(st.text(max_size=3), st.sampled_from((None, 7, True, 0.1)))
_KEYS = st.one_of(st.integers(-1, 4), st.sampled_from((None, 256)))
_AFTER = st.sampled_from((-2000, 0, 1, 1000, 2000, 9000))
_GIVEN: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "value.update": (_NUMBERS, _TEXTS),
    "list.put": (_NUMBERS, _NUMBERS),
    "list.appendList": (_NUMBERS, _NUMBERS),
    "list.appendValue": (_NUMBERS,),
    "map.getValue": (_KEYS,),
    "map.containsKey": (_KEYS,),
    "map.updateValue": (_KEYS, _NUMBERS),
    "map.removeKey": (_KEYS,),
    "registerTimer": (_AFTER,),
    "deleteTimer": (_AFTER,),
}
_OPERATION = st.one_of([st.tuples(st.just(name), *_GIVEN.get(name, ())) for name in OPERATIONS])
_BATCH = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), max_size=2, unique_by=lambda row: row[1])
PROGRAMS = st.tuples(
    st.lists(_OPERATION, min_size=1, max_size=8),
    st.lists(_OPERATION, max_size=4),
    st.lists(_BATCH, min_size=4, max_size=4),
)
"""Programs, each with the rows of four batches."""


def case_of(programs: list[Program]) -> Case:
    """Return the case that runs the programs. Its last row carries the watermark past all timers."""
    named = {f"p{number}": program for number, program in enumerate(programs)}
    batches = tuple(
        (
            *((key, float(second), n) for key, (_, _, rows) in named.items() for second, n in rows[batch]),
            ("end", 10.0 * (batch + 1), 0),
        )
        for batch in range(4)
    )
    return Case(lambda: Runs(named), TimeMode.EVENT_TIME, (*batches, (("end", 100, 0),)))


def recorded() -> tuple[list[Program], Any]:
    """Return the programs that are recorded, and what Spark gave."""
    kept = json.loads(RECORDED.read_text())
    return kept["programs"], kept["outcome"]
