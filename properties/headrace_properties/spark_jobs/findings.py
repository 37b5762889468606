"""What is found in a Spark job: its causes, and how they are told."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.swallowed import Raised
from headrace_properties.spark_jobs.watching import ExpiredState, LostTimer
from headrace_sim.spark.queries import Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.schedules import Feed, Schedule
from headrace_sim.spark.values import Altered

LEADING = (Cause.SWALLOWED, Cause.VALUE, Cause.TIMER, Cause.TTL, Cause.MEMORY, Cause.CHANCE)
"""Causes that name a mistake in the code: what else a job gets wrong may follow from it."""


NO_OUTPUT = (
    "the job gave no output. Give it a feed for which it has some: feed = [[row, ...], ...] in its module"
)
ANY_TIMING = "Let the code accept these rows at any time: Spark promises neither batches nor their times"
SEVERAL_WINDOWS = (
    "A call may have rows of several windows or sessions, whose timers fire only after it: keep state for each of them, and "
    "tell it when its timer fires; or allow it, if a running result is meant"
)
"""What to do if a job with timers of event time depends on batching."""
TOLD = {
    Cause.FAULTS: (
        "depends on faults",
        "Keep everything in state, and do nothing outside it: a task that died runs again",
    ),
    Cause.PARTITIONS: (
        "depends on the number of partitions",
        "Count by key, not by task: a task has some of the keys only",
    ),
    Cause.DUPLICATES: (
        "changes when the source delivers a row twice",
        "Keep the ids of rows that have been counted in state, or dropDuplicatesWithinWatermark() before",
    ),
    Cause.ORDER: (
        "depends on the order of rows",
        "Compare event times instead of relying on arrival",
    ),
    Cause.BATCHING: (
        "depends on how the input is cut into batches",
        "Tell results when a timer fires, not once for each call; or allow it, if a running result is meant",
    ),
    Cause.FRAMES: (
        "depends on how a key's rows are cut into pandas frames",
        "Read every frame of the iterator, `for frame in rows`: Spark cuts at spark.sql.execution.arrow.maxRecordsPerBatch",
    ),
    Cause.CHANCE: (
        "depends on the clock or on chance",
        "Take times from the rows or the watermark, and ids from the key",
    ),
    Cause.LATE: (
        "loses rows that come behind the watermark",
        "Allow them more time in withWatermark(), or send them elsewhere before; or allow it, if the loss is meant",
    ),
    Cause.MEMORY: (
        "depends on what is kept outside state",
        "Keep it in a state variable: an object lasts for a task, a module for a worker, and any worker may run the next task",
    ),
}
"""What to say of a cause, and what to do."""


@dataclass(frozen=True, slots=True)
class JobFinding:
    """Something that a job gets wrong.

    Attributes:
        cause: What it depends on.
        place: ``file:line`` of the code to look at.
        told: What is wrong, in a sentence or two. remedy: What to do.
        feed: The smallest feed found that shows it.
        schedule: The schedule that does, or None if the feed alone does.
        schedules: The number of schedules in which it showed.
        changed: What the schedule changes: `Cause.CHANCE` for another day and other random numbers.
        kept: Which rows of the whole feed are left, numbered from 0 over all batches.
        promise: The name of the promise that is broken, or "".

    """

    cause: Cause
    place: str
    told: str
    remedy: str
    feed: Feed
    schedule: Schedule | None = None
    schedules: int = 1
    changed: Cause = Cause.FAULTS
    kept: tuple[int, ...] = ()
    promise: str = ""

    @property
    def name(self) -> str:
        """What is broken."""
        if self.promise:
            return f"the promise {self.promise}"
        return f"the same outcome always ({self.cause.value})"

    def __str__(self) -> str:
        """Say what is wrong, where, and what to do."""
        return f"{shown_place(self.place)}: {self.told}. {self.remedy}."


@dataclass(frozen=True, slots=True)
class JobReport:
    """The results of a job's schedules.

    Attributes:
        findings: What it gets wrong.
        unknown: What was not judged, each with the reason.
        schedules: How many were run.
        late: The greatest number of late rows in one of them.
        outcome: The run without faults.
        left_out: Which schedules were not tried, and why; "" if all were.

    """

    findings: tuple[JobFinding, ...]
    unknown: tuple[str, ...]
    schedules: int
    late: int
    outcome: Outcome
    left_out: str = ""


class JobFailsError(HeadraceError):
    """A job fails without faults. Fields: error, place."""

    def __init__(self, error: str, place: str) -> None:
        super().__init__(error, place)
        self.error, self.place = error, place

    def __str__(self) -> str:
        """Show the error and its place."""
        return (
            f"{shown_place(self.place)}: the job fails without faults: {self.error.rstrip('.')}. Fix it first"
        )


EFFECT_FIRST = (
    "no schedules: an effect of the job's code outside its process is refused, and the job fails of it"
)
"""Why a job was not tried."""


def difference_told(what: str, surplus: Counter[Any], missing: Counter[Any]) -> str:
    """Describe what one outcome has, and the other one lacks. Items of the state are ((place, name, key), value)."""
    if what == "state":
        found, expected = dict(surplus.elements()), dict(missing.elements())
        for variable in sorted(found.keys() & expected.keys(), key=repr):
            return f"the {_state(variable)} is {found[variable]} instead of {expected[variable]}"
        surplus, missing = (
            Counter({f"{_state(variable)}, {value}": 1 for variable, value in items.items()})
            for items in (found, expected)
        )
        what = "job"
    if not surplus:
        return f"the {what} lacks {_few(missing)}"
    return f"the {what} has {_few(surplus)}" + (f" instead of {_few(missing)}" if missing else " too often")


def _state(variable: tuple[int, str, Any]) -> str:
    _, name, key = variable
    return f"state {name!r} of key {key}"


def _few(items: Counter[Any]) -> str:
    shown = [str(item) for item in sorted(items.elements(), key=repr)]
    return ", ".join(shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")


def effect_told(effect: tuple[str, str]) -> JobFinding:
    """Return the finding that a task has an effect outside its process. ``effect``: what it does, and where."""
    what, place = effect
    remedy = "Yield what is to be written, and write it in foreachBatch"
    told = f"the code of a task {what}, which a task that is run again repeats"
    return JobFinding(Cause.EFFECT, place, told, remedy, ())


def lost_timer_told(lost: LostTimer) -> JobFinding:
    """Return the finding that a timer is lost."""
    told = f"the timer at {lost.expiry_ms} ms is registered again while it fires, and Spark then deletes it"
    return JobFinding(Cause.TIMER, lost.place, told, "Register a later time", ())


def early_told(early: Sequence[Any], rows: int, place: str, when: str = ", undisturbed") -> JobFinding:
    """Return the finding that rows are dropped as late within the delay of their own stream. ``rows``: how many there are."""
    told = (
        f"{len(early)} of {rows} rows {'is' if len(early) == 1 else 'are'} dropped as late, though within the delay of "
        f"its own stream, such as {early[0]}: with the policy max, the stream that is ahead decides for all{when}"
    )
    remedy = "Set spark.sql.streaming.multipleWatermarkPolicy to min; or allow it, if the loss is meant"
    return JobFinding(Cause.LATE, place, told, remedy, ())


def expired_told(expired: ExpiredState) -> JobFinding:
    """Return the finding that state expires before the timer that needs it."""
    told = (
        f"the state {expired.name!r} of key {expired.key} expires before its timer fires: its TTL is {expired.ttl_ms} ms, "
        f"and the timer is registered for {expired.wait_ms} ms later"
    )
    remedy = (
        "Let the TTL outlast the timer, or let the timer alone clear the state; or allow it, if it is meant"
    )
    return JobFinding(Cause.TTL, expired.place, told, remedy, ())


def altered_value(altered: Altered) -> JobFinding:
    """Return the finding that state does not hold what it was given."""
    what = f"the state {altered.variable!r} does not hold {altered.given!r} in its column {altered.column}"
    told = f"{what}: Spark keeps {'null' if altered.kept is None else altered.kept}, and says nothing"
    remedy = "Declare a type that holds it, or convert the value; or allow it, if it is meant"
    return JobFinding(Cause.VALUE, altered.place, told, remedy, ())


def swallowed_call(raised: Raised, feed: Feed) -> JobFinding:
    """Return the finding that the code catches an error of a state call. ``feed``: the rows that show it."""
    rows = [str(row) for batch in feed for row in batch]
    of = f" of {' and '.join(rows)}" if len(rows) <= 2 else ""
    what = (
        "does no more than log it"
        if raised.is_silent
        else "tells of it neither in its output nor in its state"
    )
    told = f"{raised.call} raises {raised.error}, and the code catches it and {what}: what was to be kept{of} is lost"
    remedy = "Fix the call, and let errors of the state end the task, or yield the row to where failed ones are kept"
    return JobFinding(Cause.SWALLOWED, raised.place, told, remedy, feed)


def size_told(feed: Feed) -> str:
    """Describe how many rows there are."""
    rows = sum(map(len, feed))
    sizes = ", ".join(str(len(batch)) for batch in feed if batch)
    return f"{rows} row{'s' * (rows != 1)} in batches of {sizes}"


def schedule_told(cause: Cause, schedule: Schedule, feed: Feed) -> str:
    """Describe what is special about a run."""
    size = size_told(feed)
    if schedule.step_ms == 0:
        size += " at one time"
    if schedule.faults:
        faults = "; ".join(
            f"{fault.kind.value} (batch {fault.batch}, partition {fault.partition})"
            for fault in schedule.faults
        )
        again = (
            ", and what runs again does so in the Python worker that ran it before"
            if schedule.workers
            else ""
        )
        return f"with {size}: {faults}{again}"
    if schedule.workers:
        return f"with {size}, whose tasks run in several Python workers"
    if schedule.delayed or schedule.twice:
        rows_told = [row for batch in feed for row in batch]
        moved = [
            str(rows_told[number]) for number in schedule.delayed or schedule.twice if number < len(rows_told)
        ]
        how = "two batches later" if schedule.delayed else "again two batches later"
        return f"with {size}, of which {' and '.join(moved) or 'none'} comes {how}"
    if schedule.cuts is not None:
        cut = ", ".join(str(len(batch)) for batch in schedule.batches(feed) if batch)
        return f"with {size}, cut into {cut}"
    if schedule.frame_rows is not None:
        return f"with {size}, {schedule.frame_rows} row in each frame"
    if schedule.partitions is not None:
        return f"with {size}, on {schedule.partitions} partition{'s' * (schedule.partitions != 1)}"
    return f"with {size}, {'on another day' if cause is Cause.CHANCE else 'in another order'}"
