"""Rows for a schema, drawn from a seed: the default input of a job or a sink."""

import random
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import Any, TypeVar

from headrace_sim.spark.columns.ddl import Schema
from headrace_sim.spark.columns.drawn_values import START, value_of

_Row = TypeVar("_Row")

BATCHES = 3
ROWS = 2
"""Choice: rows per batch. A sink is tried at each of its effects, so a few rows make many trials."""
ROWS_WITH_STATE = 5
"""Choice: the same for a job that keeps state, whose keys need a few rows each."""

GAPS_S = (1, 5, 10, 20, 60, 600, 3_600)
"""Choice: in seconds, from row to row. Timeouts and windows of every length have rows on both sides."""
_LONG_GAP_S = 3 * 86_400
"""Choice: with state, before the third batch and before a last row: the watermark then ends a day's window, and its like."""
_NO_ROWS: tuple[list[Any], ...] = ([], [])
"""Batches before each long gap, so that a row that comes two batches later does not come behind it."""
_AGAIN = 0.25
"""Choice: the share of rows that have the values of an earlier one, but for times."""


def drawn_batches(
    schema: Schema, seed: int, *, with_state: bool = False, waited_for: int = 0
) -> list[list[tuple[Any, ...]]]:
    """Return rows of a few micro-batches. Keys repeat, time advances from row to row, and nothing is null.

    ``seed``: they follow from it. ``with_state``: whether they are for a job that keeps state. ``waited_for``: one row comes more
    often than this. Raise `UndrawableError` if the schema has a type that cannot be drawn.
    """
    more = -(-2 * waited_for // BATCHES)
    rows = (ROWS_WITH_STATE if with_state else ROWS) + more
    chance, again = random.Random(seed), random.Random(f"{seed}/again")
    drawn: list[tuple[Any, ...]] = []
    for number, at in enumerate(times := drawn_times(seed, rows, with_state=with_state), 1):
        row = tuple(value_of(field.dataType, chance, at) for field in schema.fields)
        is_repeated = drawn and again.random() < _AGAIN
        if not with_state and number == len(
            times
        ):  # else a sink that remembers rows in memory may never see one again
            is_repeated, row = False, _at_times_of(row, again.choice(drawn[:-1]))
        if waited_for and number % 3:
            is_repeated, row = False, _at_times_of(row, drawn[0] if drawn else row)
        drawn.append(_at_times_of(row, again.choice(drawn)) if is_repeated else row)
    return in_batches(drawn, rows, with_state=with_state)


def drawn_times(
    seed: int, rows: int, *, with_state: bool, gaps_s: Sequence[float] = GAPS_S
) -> list[datetime]:
    """Return the time of each row.

    Args:
        seed: They follow from it.
        rows: Of each batch.
        with_state: Whether they are for a job that keeps state: with long gaps, and one row more.
        gaps_s: Those that are drawn from, in seconds.

    """
    gaps = random.Random(f"{seed}/gaps").choices(gaps_s, k=BATCHES * rows + with_state)
    if with_state:
        gaps[-1] = gaps[-1 - rows] = max(_LONG_GAP_S, 3 * max(gaps_s))
    return [START + timedelta(seconds=at) for at in accumulate(gaps)]


def in_batches(drawn: list[_Row], rows: int, *, with_state: bool) -> list[list[_Row]]:
    """Return rows that were drawn, in batches."""
    first, second, *rest = (drawn[start : start + rows] for start in range(0, len(drawn), rows))
    return [first, second, *(batch for late in rest for batch in (*(_NO_ROWS if with_state else ()), late))]


def _at_times_of(row: Any, earlier: Any) -> Any:
    """Return the values of an earlier row with the times of this one."""
    if isinstance(row, tuple):
        return tuple(map(_at_times_of, row, earlier))
    return row if isinstance(row, date) else earlier
