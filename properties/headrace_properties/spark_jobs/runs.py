"""Run a Spark job once: its code watched, on a given day, and with given random numbers."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import patch

import time_machine

from headrace_properties.search.guard import EndsProcessError
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.watching import (
    LeakedState,
    Lifetime,
    Noted,
    WatchedFunction,
    WatchedProcessor,
    outside_of,
    watched_run,
)
from headrace_properties.spark_jobs.worker_modules import WorkerModules
from headrace_properties.user_code.tracing import Trace, tracing
from headrace_sim.spark.columns.drawn_values import START
from headrace_sim.spark.columns.expressions import columns_at
from headrace_sim.spark.columns.zones import machines_clock
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.query.streaming_query import Checkpoint, Event, OffsetLogEntry, Outcome, run_job
from headrace_sim.spark.refusals import place_of_error
from headrace_sim.spark.spark_job import ApplyWithState, SparkJob, Step, TransformWithState


def watched_calmly(job: SparkJob, feed: Feed) -> tuple[Outcome, Noted]:
    """Run a job undisturbed; return the outcome, and what was noted of its code."""
    trace, outside, held = Trace(), outside_of(job), list[LeakedState]()

    def at_end_of_batch(_batch: OffsetLogEntry, _outcome: Outcome) -> None:
        held.extend(outside.kept())  # in the end, all may be taken out again

    with _chance(0), tracing(trace):
        outcome, noted = watched_run(
            lambda: _ended(lambda: run_job(watched_job(job), feed, after_batch=at_end_of_batch))
        )
    known = {kept.what for kept in noted.kept}
    noted.kept += [kept for kept in dict.fromkeys([*held, *outside.kept()]) if kept.what not in known]
    outside.restore()
    noted.effects = [(what, f"{place.file}:{place.line}") for what, place in trace.effects]
    return outcome, noted


def watched_job(job: SparkJob, memory: Lifetime = Lifetime.TASK) -> SparkJob:
    """Return the job with its processors watched."""

    def watched(step: Step) -> Step:
        if isinstance(step, TransformWithState):
            return replace(step, processor=WatchedProcessor(step.processor, memory))
        if isinstance(step, ApplyWithState):
            return replace(step, function=WatchedFunction(step.function, memory))
        return step

    return replace(job, steps=tuple(map(watched, job.steps)))


def run_changed(
    job: SparkJob,
    feed: Feed,
    schedule: Schedule,
    changed: Cause,
    watch: Callable[[Event], None] | None = None,
    after_batch: Callable[[OffsetLogEntry, Outcome], None] | None = None,
    *,
    lasts: bool = False,
    start: Checkpoint | None = None,
) -> Outcome:
    """Run a job under a schedule; with another date and random numbers, if that is what changes.

    What is outside state lasts for the run. Under faults and at other times it lasts for a task or a batch, as in new processes,
    or as long as the schedule's workers; unless ``lasts``. ``start``: as in `run_job`.
    """
    outside = outside_of(job)
    kept = replace(schedule, workers=()) if lasts else schedule
    renewed = not lasts and (changed is Cause.CHANCE or bool(schedule.faults))
    modules = WorkerModules(outside, kept, renewed=renewed)

    def at_event(event: Event) -> None:
        modules.at_event(event)
        if watch is not None:
            watch(event)

    def at_end_of_batch(batch: OffsetLogEntry, outcome: Outcome) -> None:
        modules.at_end_of_batch()
        if after_batch is not None:
            after_batch(batch, outcome)

    with _chance(1 if changed is Cause.CHANCE else 0), columns_at(machines_clock(START).replace(tzinfo=None)):
        try:
            return _ended(
                lambda: run_job(
                    job,
                    feed,
                    schedule,
                    watch=at_event,
                    after_batch=at_end_of_batch,
                    streams_go_on=True,
                    start=start,
                )
            )
        finally:
            outside.restore()


class StoppedError(Exception):
    """The code of a job does not end, or ends its process. Fields: told (how, and where), place (``file:line``, or "")."""

    def __init__(self, why: str, place: str) -> None:
        super().__init__(why, place)
        self.why, self.place = why, place

    def __str__(self) -> str:
        """Say what it does."""
        return self.why


def place_of_failure(failure: BaseException, otherwise: str = "") -> str:
    """Return ``file:line`` of the user's code at which a job fails."""
    if isinstance(failure, StoppedError):
        return failure.place or otherwise
    return place_of_error(failure, otherwise)


def raised_told(error: Exception) -> str:
    """Return the class and the message of an error that ends a job; of its code's end, what it did."""
    text = str(error) if isinstance(error, StoppedError) else f"{type(error).__name__}: {error}"
    return text.rstrip(".")


def _ended(run: Callable[[], Outcome]) -> Outcome:
    """Run a job; a call of its code that does not end, or that ends the process, is how the job fails."""
    try:
        return run()
    except (CodeOverrunError, EndsProcessError) as end:
        place = end.place
        return Outcome(failure=StoppedError(str(end), "" if place is None else f"{place.file}:{place.line}"))
    except SystemExit as end:
        return Outcome(failure=StoppedError(f"its code raises SystemExit({end})", place_of_error(end)))


class _chance:  # noqa: N801  a context
    """Set the date and the random numbers of a run."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        day = datetime(2030 + seed, 1 + seed, 1 + seed, 7 * seed, tzinfo=UTC)
        self._day = time_machine.travel(machines_clock(day), tick=False)
        self._entropy = patch.object(os, "urandom", self._dice.randbytes)

    def __enter__(self) -> None:
        self._state = random.getstate()
        random.seed(self._dice.random())
        self._day.start()
        self._entropy.start()

    def __exit__(self, *_: object) -> None:
        self._entropy.stop()
        os.environ.setdefault("TZ", "")  # the job may have emptied the environment; the clock takes it back
        self._day.stop()
        random.setstate(self._state)
