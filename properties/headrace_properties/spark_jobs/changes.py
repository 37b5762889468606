"""What the schedules of a job change: one thing each, so that a difference has a name, and what is undeclared hides nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.worker_modules import SAME_WORKER
from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault
from headrace_sim.spark.spark_job import ApplyWithState, Deduplicate, Limit, MapInPandas, SparkJob, TimeMode

_OTHER_START_MS = 1_900_000_000_000
_WITHOUT_DATA = 2
"""Batches without data behind the input, in which the last timers fire."""
BY_CLOCK = (
    "its timers or TTLs follow the clock of batches, so of other times only a rest behind each batch was tried, and other cuts "
    "of the input and delayed rows only while it stands still"
)
"""Which schedules are not tried for a job that follows the clock of batches, and why."""


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """What a schedule changes, and how it is made from a drawn one."""

    cause: Cause
    of: Callable[[Schedule], Schedule]


def changes_of(job: SparkJob, batches: int, *, timed: bool, kept: bool) -> Iterator[ScheduleChange]:
    """Yield what a schedule may change.

    Args:
        job: The job.
        batches: How many its input has.
        timed: Whether the clock of batches decides what becomes of its state. Other times of its rows may then mean another
            outcome, so the clock stands still in both of the runs that are compared.
        kept: Whether its code keeps something outside state.

    """
    still = Schedule(step_ms=0) if timed else Schedule()
    if timed:
        yield ScheduleChange(Cause.CHANCE, lambda _drawn: Schedule())
    else:  # no intended behaviour follows the clock of batches, which may jump
        yield ScheduleChange(
            Cause.CHANCE, lambda drawn: Schedule(start_ms=_OTHER_START_MS, steps_ms=drawn.steps_ms)
        )
    yield ScheduleChange(Cause.FAULTS, lambda drawn: Schedule(faults=drawn.faults))
    if not any(isinstance(step, Limit) for step in job.stateful):
        more = job.partitions + 2
        yield ScheduleChange(Cause.PARTITIONS, lambda drawn: Schedule(partitions=drawn.partitions or more))
    in_any_order = not job.declares.source.ordered and not left_out_of(job)
    if in_any_order:
        yield ScheduleChange(Cause.ORDER, lambda drawn: Schedule(order=drawn.order))
    if job.declares.source.once is False:
        yield ScheduleChange(Cause.DUPLICATES, lambda drawn: Schedule(twice=drawn.twice))
    framed = (MapInPandas, ApplyWithState)
    if any(isinstance(step, framed) or getattr(step, "pandas", False) for step in job.steps):
        yield ScheduleChange(Cause.FRAMES, lambda drawn: _in_frames(drawn, still))
    if in_any_order:
        yield ScheduleChange(Cause.ORDER, lambda drawn: replace(still, delayed=drawn.delayed))
    if not any(isinstance(step, Limit) or getattr(step, "within_watermark", False) for step in job.stateful):
        yield ScheduleChange(
            Cause.BATCHING, lambda drawn: replace(still, cuts=drawn.cuts, idle_after=drawn.idle_after)
        )
    if kept:
        yield ScheduleChange(Cause.MEMORY, lambda drawn: Schedule(workers=drawn.workers))
        every = tuple(
            ScheduledFault(FaultKind.TASK_DIES_BEFORE_COMMIT, batch, partition)
            for batch in range(batches + _WITHOUT_DATA)
            for partition in range(job.partitions)
        )
        yield ScheduleChange(Cause.FAULTS, lambda drawn: _in_one_worker(drawn, every))


def left_out_of(job: SparkJob) -> str:
    """Return which schedules are not tried because Spark's own operators promise nothing about them, and why; "": all are."""
    if any(isinstance(step, Limit) for step in job.stateful):
        return "limit() keeps whichever rows come first, so other orders of rows, cuts and partitions were not tried"
    once = [step for step in job.stateful if isinstance(step, Deduplicate)]
    if any(step.within_watermark for step in once):
        return (
            "dropDuplicatesWithinWatermark() keeps whichever row comes first, and batches decide when its key is forgotten, so "
            "other orders of rows and other cuts of the input were not tried"
        )
    if any(set(step.keys) < set(step.output.names) for step in once):
        return "dropDuplicates() keeps whichever row of a key comes first, so other orders of rows were not tried"
    return ""


def _in_frames(drawn: Schedule, still: Schedule) -> Schedule:
    """Cut frames in the batches of the feed, or in one batch: its calls have more rows."""
    if drawn.order is None or drawn.order % 2:
        return Schedule(frame_rows=1)
    return replace(still, frame_rows=1, cuts=(sum(drawn.cuts or ()),))


def _in_one_worker(drawn: Schedule, every: tuple[ScheduledFault, ...]) -> Schedule:
    """Let tasks run again in the worker that ran them. ``every``: each task once, if no fault that is drawn does."""
    faults = tuple(fault for fault in drawn.faults if fault.kind in SAME_WORKER)
    return Schedule(faults=faults or every, workers=(0,))


def by_clock(job: SparkJob) -> bool:
    """Return whether timers and TTLs of a job, if it has any, follow the clock of batches."""
    return any(step.time_mode is TimeMode.PROCESSING_TIME for step in job.processing)


def cuts_otherwise(schedule: Schedule) -> bool:
    """Return whether the rows of a key come in other batches than in the undisturbed run."""
    return bool(schedule.cuts != schedule.undisturbed.cuts or schedule.delayed or schedule.twice)
