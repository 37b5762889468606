"""Days and hours that a calendar has and code forgets: when clocks are put back or forward, and the ends of months.

Rows come at some moments of such a day, and at the same hours of days on which nothing is special. Rules of this file:

* Code that fails on a day that will come, and not on another, is violated.
* If fewer results are apart than on the other day, two times have become one; if more are, one day has become two. It may be
  meant, or what Spark documents, so that is told.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Finding
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import call_time_limited
from headrace_properties.sinks.trial import undisturbed_run
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import finding_of
from headrace_properties.spark_jobs.outcomes import without_sink
from headrace_properties.spark_jobs.runs import place_of_failure, raised_told, run_changed
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_sim.deliveries import at_instant
from headrace_sim.spark.columns.in_force import ZONE
from headrace_sim.spark.columns.zones import at_time, zone_of
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sinks.sink_runs import SinkFailsError
from headrace_sim.spark.spark_job import SparkJob

_HOURS = [datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(366 * 24)]
_HOUR, _HALF, _WEEK = timedelta(hours=1), timedelta(minutes=30), timedelta(days=7)
_ROWS = 3
"""Choice: how many rows of the feed are tried until one has results."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a row comes, and what a clock in the session's zone shows, or should show by what the row says."""

    at: datetime
    wall: datetime

    def __str__(self) -> str:
        return f"{self.wall:%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class _Edge:
    """Moments of days that are special, and the same hours of others, in the same order."""

    moments: Sequence[_Moment]
    others: Sequence[_Moment]
    is_told: Callable[[int, int], bool]  # whether so many results are, instead of so many of the others
    note: str  # what becomes of them, and what to do


@dataclass(frozen=True, slots=True)
class _Left:
    """What comes of rows: the number of results that are apart, or how it fails."""

    results: int = 0
    error: str = ""
    place: str = ""


def by_calendar(target: SparkTarget) -> Iterator[Finding | str]:
    """Yield how the job fails on a future date, and notes on such dates."""
    job = target.job
    zone = job.state.settings.values.get(ZONE, "") if job.state else ""
    clock = zone_of(zone or "UTC")
    edges = [*_month_ends(clock), *(_clock_changes(zone, clock) if zone else ())]
    for row in [*chain.from_iterable(target.feed)][:_ROWS]:
        run = _Runs(target, row, clock)
        usual = run.on([moment for edge in edges for moment in edge.others])
        if usual.error or usual.results < 2:
            continue
        if run.on([moment for edge in edges for moment in edge.moments]) != usual:
            yield from _differing(run, edges)
        return


def _differing(run: "_Runs", edges: Sequence[_Edge]) -> Iterator[Finding | str]:
    place = shown_place(_place(run.target.job))
    while edges:
        edge, *edges = edges
        usual, left = run.on(edge.others), run.on(edge.moments)
        if left.error and not usual.error:
            yield _failing(run, edge)
            return
        if not left.error and edge.is_told(left.results, usual.results):
            yield f"{place}: {edge.note}"
            edges = [other for other in edges if other.is_told is not _is_half]  # the other end says no more


def _failing(run: "_Runs", edge: _Edge) -> Finding:
    """Return the finding that a job fails on a day, and not on another."""
    alone = [(moment, run.on([moment])) for moment in edge.moments]
    moment, left = next(
        ((each, left) for each, left in alone if left.error), (edge.moments[-1], run.on(edge.moments))
    )
    other = edge.others[[*edge.moments].index(moment)]
    message = f"the job takes a row of {other}, and fails on one of {moment}: {left.error}"
    trial = QueryTrial(Cause.CALENDAR, feed_seed=run.target.feed_seed)
    return replace(finding_of(Cause.CALENDAR, left.place, message), trial=trial)


def _clock_changes(zone: str, clock: tzinfo) -> Iterator[_Edge]:
    """Yield what comes of the clock of a zone that is put back, and forward, in 2030."""

    def moments(*times: datetime) -> list[_Moment]:
        return [_Moment(at.astimezone(UTC), at.astimezone(clock).replace(tzinfo=None)) for at in times]

    def a_week_earlier(wanted: Sequence[_Moment]) -> list[_Moment]:
        walls = [moment.wall - _WEEK for moment in wanted]
        return moments(*(wall.replace(tzinfo=clock) for wall in walls))

    fixed = "Is an offset fixed? Take the zone by its name: to_date(), date_trunc(), from_utc_timestamp()"
    if (back := _changed(clock, -_HOUR)) is not None:
        twice = moments(back - _HALF, back + _HALF)
        yield _Edge(
            twice, moments(back - _HALF - _WEEK, back + _HALF - _WEEK), _is_fewer,
            f"when the clock of {zone} is put back, {twice[0].wall:%H:%M} comes twice, and rows of both are taken for one time. "
            "Group by the time itself, F.window or F.date_trunc, or keep UTC",
        )  # fmt: skip
        day = _noon(back, clock)
        one = moments(day, day + _HALF * 23)
        yield _Edge(
            one, a_week_earlier(one), lambda left, usual: left > usual,
            f"behind the day on which the clock of {zone} is put back, {one[0]} and {one[1]} are taken for two days, and a week "
            f"earlier for one. {fixed}",
        )  # fmt: skip
    if (forward := _changed(clock, _HOUR)) is not None:
        day = _noon(forward, clock)
        two = moments(day, day + _HALF * 25)
        yield _Edge(
            two, a_week_earlier(two), _is_fewer,
            f"behind the day on which the clock of {zone} is put forward, {two[0]} and {two[1]} are taken for one day, and a "
            f"week earlier for two. {fixed}",
        )  # fmt: skip
        before, behind = moments(forward - _HALF, forward + _HALF)
        missing = _Moment(before.at, behind.wall - _HOUR)
        yield _Edge(
            (missing, behind), a_week_earlier((missing, behind)), _is_fewer,
            f"when the clock of {zone} is put forward, {missing.wall:%H:%M} does not exist, and its text is taken for "
            f"{behind.wall:%H:%M}: rows of both are taken for one time. Let texts have an offset",
        )  # fmt: skip


def _month_ends(clock: tzinfo) -> Iterator[_Edge]:
    """Yield what comes of a month behind the end of January, and a year behind the leap day."""

    def noons(years: Sequence[int], *days: tuple[int, int]) -> list[_Moment]:
        walls = [datetime(year, month, day, 12) for year in years for month, day in days]  # noqa: DTZ001
        return [_Moment(wall.replace(tzinfo=clock).astimezone(UTC), wall) for wall in walls]

    note = "rows of {} are taken for one time, and those three weeks earlier for two: is the key {} later? If that counts, keep "
    note += "the day itself in it"
    months, leaps = (2029, 2030, 2031), (2028, 2032, 2036)
    yield _Edge(
        noons(months, (1, 28), (1, 31)), noons(months, (1, 7), (1, 10)), _is_half,
        note.format("January 28 and 31", "the day a month"),
    )  # fmt: skip
    yield _Edge(
        noons(leaps, (2, 28), (2, 29)), noons(leaps, (2, 7), (2, 8)), _is_half,
        note.format("February 28 and 29", "the day a year"),
    )  # fmt: skip


def _is_fewer(left: int, usual: int) -> bool:
    return 0 < left < usual


def _is_half(left: int, usual: int) -> bool:
    """Return whether each two have become one: of windows of some days, not in each year."""
    return left * 2 == usual


def _changed(clock: tzinfo, by: timedelta) -> datetime | None:
    """Return when a clock is put forward or back by so much, in 2030; ``None``: never."""
    offsets = [hour.astimezone(clock).utcoffset() or timedelta() for hour in _HOURS]
    changes = zip(_HOURS[1:], offsets, offsets[1:], strict=False)
    return next((hour for hour, before, after in changes if after - before == by), None)


def _noon(change: datetime, clock: tzinfo) -> datetime:
    """Return the noon of the day on which a clock was changed, behind that."""
    wall = change.astimezone(clock).replace(hour=12, minute=0)
    return wall.astimezone(UTC)


def _place(job: SparkJob) -> str:
    code = getattr(job.sink.function, "__code__", None)
    of_sink = job.sink.place or (f"{code.co_filename}:{code.co_firstlineno}" if code else "")
    return next((step.place for step in (*job.stateful, *job.steps) if step.place), of_sink)


@dataclass(slots=True)
class _Runs:
    """Runs a job on a row that comes at several moments."""

    target: SparkTarget
    row: Any
    clock: tzinfo

    def on(self, moments: Sequence[_Moment]) -> _Left:
        """Return what comes of it; nothing if that cannot be followed."""
        kind = self.target.job.input
        batch = [at_time(at_instant(self.row, moment.at, moment.wall), kind, moment.at) for moment in moments]
        try:
            with guarded(), call_time_limited(self.target.limits):
                return self._query(batch) if self.target.job.sink.function is None else self._sink(batch)
        except SinkFailsError as error:
            return _Left(error=f"{error.error}: {error.message}", place=error.place)
        except HeadraceError:
            return _Left()

    def _query(self, batch: Sequence[Any]) -> _Left:
        outcome = run_changed(without_sink(self.target.job), [batch], Schedule(), Cause.FAULTS)
        if outcome.failure is not None:
            return _Left(error=raised_told(outcome.failure), place=place_of_failure(outcome.failure))
        outputs = {repr(result) for rows in outcome.outputs.values() for result in rows}
        return _Left(len(outputs) + sum(map(len, outcome.state.values())))

    def _sink(self, batch: Sequence[Any]) -> _Left:
        query = self._query(batch) if self.target.job.stateful else _Left()
        if query.error:
            return query
        target = replace(self.target, feed=[batch])
        trial = undisturbed_run(*target.sink_call(), target.prepare_call(), target.job.state, target.keys)
        return _Left(query.results + sum(len({*items}) for items in trial.contents.values()))
