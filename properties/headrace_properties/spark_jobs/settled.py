"""The settled outcome of a run: all output, and the state that is left. It must be the same in each run."""

import math
from collections import Counter
from enum import Enum
from itertools import chain
from typing import Any

from headrace_properties.spark_jobs.job_findings import difference_told
from headrace_properties.user_code.comparison import DIGITS
from headrace_sim.spark.query.streaming_query import Outcome, hashable
from headrace_sim.spark.spark_job import Aggregate, Columns, OutputMode, SparkJob


class Updates(Enum):
    """Which rows of a key count, where rows are updates."""

    LAST = "the last one"
    LAST_OF_BATCH = "the last one of each batch"
    ALL = "all"


def difference(
    job: SparkJob,
    expected: Outcome,
    actual: Outcome,
    *,
    last_only: bool = False,
    updates: Updates = Updates.LAST,
) -> str | None:
    """Describe what differs in the settled outcomes of two runs; ``None``: nothing.

    Args:
        job: What was run.
        expected: The outcome of the undisturbed run.
        actual: The outcome of the other one.
        last_only: Whether rows that are appended are updates, too.
        updates: Which of them count. All, if both runs have the same rows in the same order in each batch.

    """
    for what, one, other in zip(
        ("output", "state"),
        _settled(job, expected, last_only=last_only, updates=updates),
        _settled(job, actual, last_only=last_only, updates=updates),
        strict=True,
    ):
        if one != other:
            return difference_told(what, other - one, one - other)
    return None


def has_more(job: SparkJob, outcome: Outcome, other: Outcome) -> bool:
    """Return whether an outcome has output or state that the other one lacks."""
    settled = zip(_settled(job, outcome), _settled(job, other), strict=True)
    return any(one - two for one, two in settled)


def _settled(
    job: SparkJob, outcome: Outcome, *, last_only: bool = False, updates: Updates = Updates.LAST
) -> tuple[Counter[Any], Counter[Any]]:
    last = job.stateful[-1] if job.stateful else None
    if isinstance(last, Aggregate) and last.output_mode is OutputMode.COMPLETE:
        # Each batch has the whole result.
        whole = outcome.outputs[max(outcome.outputs)] if outcome.outputs else []
        rows = Counter(hashable(_leveled(row)) for row in whole)
    elif (
        last is not None
        and updates is not Updates.ALL
        and (last_only or last.output_mode is not OutputMode.APPEND)
    ):
        keyed = _keyed(job, outcome, last.keys)
        batches = [keyed[number] for number in sorted(keyed)]
        parts = batches if updates is Updates.LAST_OF_BATCH else [list(chain.from_iterable(batches))]
        rows = Counter(
            row for part in parts for row in {key: hashable(_leveled(row)) for key, row in part}.values()
        )
    else:
        rows = Counter(hashable(_leveled(row)) for row in outcome.rows().elements())
    held = {
        (place, *key): hashable(_leveled(value, in_any_order=True))
        for place, state in outcome.state.items()
        for key, value in state.items()
    }
    return rows, Counter((hashable(key), value) for key, value in held.items())


def _keyed(job: SparkJob, outcome: Outcome, keys: tuple[str, ...]) -> dict[int, list[tuple[Any, Any]]]:
    """Return the rows of each batch, with their keys.

    Where the output lacks them, those are taken that the user's own operator has made, unless a filter follows. The rows of
    Spark's operators follow from their state, which is compared, too.
    """
    columns = job.output.names
    places = [columns.index(name) for name in keys if name in columns]
    if len(places) == len(keys):
        return {
            number: [(tuple(hashable(row[place]) for place in places), row) for row in rows]
            for number, rows in outcome.outputs.items()
        }
    behind = job.steps[job.steps.index(job.stateful[-1]) + 1 :] if job.stateful[-1] in job.steps else ()
    if not all(isinstance(step, Columns) and step.call in _EACH_ROW for step in behind):
        return {}
    return {
        number: [(hashable(key), row) for key, row in rows if key is not None]
        for number, rows in outcome.keyed.items()
    }


_EACH_ROW = {
    "select",
    "selectExpr",
    "withColumn",
    "withColumns",
    "withColumnRenamed",
    "drop",
    "alias",
    "toDF",
}
"""Calls that leave each row there."""


def _leveled(value: Any, *, in_any_order: bool = False) -> Any:
    """Return what is equal for values that count as equal: the last digits of a sum of floats depend on the order of its rows.

    ``value``: of a row, or of state. ``in_any_order``: whether the order of lists does not count, as in state: what was
    appended may be sorted later; if it is not, output shows it.
    """
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}") if value == value else math.nan  # noqa: PLR0124  one NaN for all
        case list() if in_any_order:
            return sorted((_leveled(part, in_any_order=True) for part in value), key=repr)
        case list() | tuple():
            return tuple(_leveled(part, in_any_order=in_any_order) for part in value)
        case dict():
            return {key: _leveled(part, in_any_order=in_any_order) for key, part in value.items()}
        case _:
            return value
