"""A query whose TTLs, timers and timeouts follow the clock of batches, and nothing comes for longer than each of them.

Rules of this file:

* After a rest, its code must take what comes: that it fails is violated.
* What differs between a query that was stopped for the rest and one that ran on, whose timers fired meanwhile, is told.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import schedule_told
from headrace_properties.spark_jobs.runs import run_changed
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.query.streaming_query import OffsetLogEntry, Outcome
from headrace_sim.spark.refusals import shown_place

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.query_probe import QueryProbe

_PAST_MS = 1_000
"""Choice: how much longer than a TTL, a timer or a timeout a rest is, in milliseconds."""
_MOST = 4
"""Choice: the number of lengths of rests."""


def rests(probe: "QueryProbe") -> Iterator[QueryTrial]:
    """Yield the trials in which a query rests; none if it does not follow the clock of batches."""
    lengths = _lengths(probe) if probe.follows_the_clock else ()
    batches = len(probe.feed)
    for rest_ms in lengths:
        for place in range(batches - 1):
            steps = (*(Schedule().step_ms,) * place, rest_ms)
            yield QueryTrial(Cause.ERROR, schedule=Schedule(steps_ms=steps))
        yield QueryTrial(Cause.ERROR, schedule=Schedule(steps_ms=(rest_ms,) * (batches - 1)))


def told_of_stops(probe: "QueryProbe") -> Iterator[str]:
    """Yield what a stop changes: in the first batch behind it, rows come before the timers that are due."""
    for trial in rests(probe):
        schedule = trial.schedule
        assert schedule is not None
        calm, other = (
            run_changed(probe.job, probe.feed, replace(schedule, idle_after=idle), Cause.FAULTS)
            for idle in (frozenset({len(schedule.steps_ms) - 1}), frozenset[int]())
        )
        differs = probe.difference(calm, other, schedule) if calm.failure is other.failure is None else None
        if differs is not None:
            place = shown_place(probe.job.processing[0].place)
            shown = f"{schedule_told(trial.changed, schedule, probe.feed)}: {differs}"
            yield (
                f"{place}: in the first batch after a stop, rows come before the timers and timeouts that are due, which fire "
                f"before them if the query runs on; {shown}. If that counts, compare the time that the state waits for with the "
                "clock when rows come, and end what is over first"
            )
            return


def _lengths(probe: "QueryProbe") -> list[int]:
    """Return how long rests are: past each TTL, and each time that a timer or a timeout waits, the shortest first."""
    waits = dict[Any, int]()

    def after_batch(batch: OffsetLogEntry, outcome: Outcome) -> None:
        for key, expiry in chain.from_iterable(outcome.timers.values()):
            waits.setdefault((key, expiry), expiry - batch.now_ms)

    run_changed(probe.job, probe.feed, Schedule(), Cause.FAULTS, after_batch=after_batch)
    lengths = {*probe.watched[1].expiring.values(), *waits.values()}
    return [wait_ms + _PAST_MS for wait_ms in sorted(lengths) if wait_ms > 0][:_MOST]
