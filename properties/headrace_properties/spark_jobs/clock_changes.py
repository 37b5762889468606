"""The hour that a clock shows twice, when summer time ends: texts and local times of its two halves are the same.

One row comes half an hour before the clock is put back, and half an hour behind that; and a week earlier, where nothing is put
back. If fewer results are apart than a week earlier, two hours have become one. Spark does what is documented, so that is told.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import call_time_limited
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.outcomes import without_sink
from headrace_properties.spark_jobs.runs import run_changed
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.zones import at_time, zone_of
from headrace_sim.spark.job import SparkJob
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.refusals import shown_place

_HOURS = [datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(366 * 24)]
_HALF, _WEEK = timedelta(minutes=30), timedelta(days=7)


def told_of_double_hour(target: SparkTarget) -> Iterator[str]:
    """Yield what becomes of the hour that comes twice in the session's zone."""
    job, row = target.job, next((row for batch in target.feed for row in batch), None)
    zone = job.state.settings.values.get(ZONE, "") if job.state else ""
    back = _put_back(zone) if zone and row is not None else None
    if back is None:
        return
    twice, apart = (_results(target, row, (at - _HALF, at + _HALF)) for at in (back, back - _WEEK))
    shown = f"{(back - _HALF).astimezone(zone_of(zone)):%H:%M}"
    if 0 < twice < apart:
        yield (
            f"{shown_place(_place(job))}: when the clock of {zone} is put back, {shown} comes twice, and rows of "
            "both are taken for one time. Group by the time itself, F.window or F.date_trunc, or keep UTC"
        )


def _place(job: SparkJob) -> str:
    return next((step.place for step in (*job.stateful, *job.steps) if step.place), job.sink.place)


def _put_back(zone: str) -> datetime | None:
    """Return when the clock of a zone is put back by an hour, in 2030; ``None``: never."""
    clock = zone_of(zone)
    offsets = [hour.astimezone(clock).utcoffset() or timedelta() for hour in _HOURS]
    changes = zip(_HOURS[1:], offsets, offsets[1:], strict=False)
    return next((hour for hour, before, after in changes if before - after == 2 * _HALF), None)


def _results(target: SparkTarget, row: Any, times: Sequence[datetime]) -> int:
    """Return how many results are apart, given out or kept, of a row that comes at these times; 0: it cannot be told."""
    job = without_sink(target.job)
    batch = [at_time(row, job.input, at) for at in times]
    try:
        with guarded(), call_time_limited(target.limits):
            outcome = run_changed(job, [batch], Schedule(), Cause.FAULTS)
    except HeadraceError:
        return 0
    given = {repr(result) for rows in outcome.outputs.values() for result in rows}
    return 0 if outcome.failure else len(given) + sum(map(len, outcome.state.values()))
