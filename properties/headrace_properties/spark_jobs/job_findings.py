"""Findings of a Spark job and its sink, as reported."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.sinks import SinkFinding, SinkQuestion
from headrace_properties.spark_jobs.job_causes import CAUSES, Cause
from headrace_properties.spark_jobs.swallowed import RaisedCall
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_properties.spark_jobs.watching import ExpiredState, LostTimer
from headrace_properties.user_frames import Place
from headrace_sim.spark.columns.values import Altered
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.refusals import shown_place

NO_OUTPUT = (
    "the job gave no output. Give it a feed for which it has some: feed = [[row, ...], ...] in its module"
)
WAITING = (
    "the job gave no output: append mode gives out a group, or a row without a match, once the watermark passes its time, and "
    "the watermark ends at {end}. Give it a feed whose times go on for longer than the delay and the window"
)
"""Why a job in append mode gave no output though its state is not empty."""
SEVERAL_WINDOWS = (
    "A call may have rows of several windows or sessions, whose timers fire only after it: keep state for each of them, and "
    "tell it when its timer fires"
)
"""What to do if a job with timers of event time depends on batching."""
AFTER_A_FAULT = "Let the code accept what an earlier attempt left behind"
"""What to do if it fails after a fault."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """The results of a job's schedules."""

    findings: tuple[Finding, ...]  # what was found, violated ones first
    unknown: tuple[str, ...]  # what was not judged, each with the reason
    schedules: int  # how many were run
    late: int  # the greatest number of late rows in one of them
    outcome: Outcome  # the run without faults
    left_out: str = ""  # which schedules were not tried, and why; "" if all were
    notes: tuple[str, ...] = ()  # what was declared, and how it shows
    asked: Mapping[str, str] = field(
        default_factory=dict
    )  # why no run tested a promise, by its name; "": one did


def untested(asked: Mapping[str, str], allowed: Collection[str]) -> Iterator[str]:
    """Yield which promises no run has tested, and why. ``allowed``: those that no run needs to test."""
    yield from (f"the promise {name} {why}" for name, why in asked.items() if why and name not in allowed)


class JobFailsError(HeadraceError):
    """A job fails without faults. Fields: error, place."""

    def __init__(self, error: str, place: str) -> None:
        super().__init__(error, place)
        self.error, self.place = error, place

    def __str__(self) -> str:
        """Show the error and its place."""
        error = self.error.rstrip(".")
        remedy = "Fix it first, or give it rows that it takes: --sample FILE"
        return f"{shown_place(self.place)}: the job fails without faults: {error}. {remedy}"


EFFECT_FIRST = (
    "no schedules: an effect of the job's code outside its process is refused, and the job fails of it"
)
"""Why a job was not tried."""


def finding_of(
    cause: Cause, place: str, message: str, remedy: str = "", finding_class: FindingClass | None = None
) -> Finding:
    """Return a finding, with what to do, or how to answer if it is a question.

    Args:
        cause: What is wrong.
        place: ``file:line`` of the code to look at; something else: unknown.
        message: What is wrong, in a sentence or two.
        remedy: What to do, if not what the cause's row says.
        finding_class: What it claims, if not what the cause's row says.

    """
    kind, row = cause.kind(finding_class), CAUSES[cause]
    remedy = remedy or row.remedy
    if kind.finding_class is FindingClass.UNDECLARED:
        declare = f"declare {row.answer}, or " * bool(row.answer)
        meant = f"Is that meant? Then {declare}say --allow {cause.value}"
        remedy = f"{meant}. If not: {remedy[0].lower()}{remedy[1:]}"
    return Finding(kind, message, place_at(place), remedy)


def place_at(text: str) -> Place | None:
    """Return the place that is written as ``file:line``; ``None``: it is written otherwise."""
    file, _, line = text.rpartition(":")
    return Place(file, int(line)) if file and line.isdigit() else None


def difference_told(what: str, surplus: Counter[Any], missing: Counter[Any]) -> str:
    """Describe what one outcome has, and the other one lacks. Items of the state are ((place, name, key), value)."""
    if what == "state":
        values, expected = dict(surplus.elements()), dict(missing.elements())
        for variable in sorted(values.keys() & expected.keys(), key=repr):
            return f"the {_state(variable)} is {values[variable]} instead of {expected[variable]}"
        surplus, missing = (
            Counter({f"{_state(variable)}, {value}": 1 for variable, value in items.items()})
            for items in (values, expected)
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


def effect_told(effect: tuple[str, str]) -> Finding:
    """Return the finding that a task has an effect outside its process. ``effect``: what it does, and where."""
    what, place = effect
    message = f"the code of a task {what}, which a task that is run again repeats"
    return finding_of(Cause.EFFECT, place, message)


def lost_timer_told(lost: LostTimer) -> Finding:
    """Return the finding that a timer is lost."""
    message = (
        f"the timer at {lost.expiry_ms} ms is registered again while it fires, and Spark then deletes it"
    )
    return finding_of(Cause.TIMER, lost.place, message)


def early_told(early: Sequence[Any], rows: int, place: str, when: str, claim: FindingClass) -> Finding:
    """Return the finding that rows are dropped as late within the delay of their own stream. ``rows``: how many there are."""
    message = (
        f"{len(early)} of {rows} rows {'is' if len(early) == 1 else 'are'} dropped as late, though within the delay of "
        f"its own stream, such as {early[0]}: with the policy max, the stream that is ahead decides for all{when}"
    )
    remedy = "Set spark.sql.streaming.multipleWatermarkPolicy to min"
    if claim is FindingClass.VIOLATED:
        remedy += f"; or declare {CAUSES[Cause.LATE].answer}, if the loss is meant"
    return finding_of(Cause.LATE, place, message, remedy, claim)


def expired_told(expired: ExpiredState) -> Finding:
    """Return the finding that state expires before the timer that needs it."""
    message = (
        f"the state {expired.name!r} of key {expired.key} expires before its timer fires: its TTL is {expired.ttl_ms} ms, "
        f"and the timer is registered for {expired.wait_ms} ms later"
    )
    return finding_of(Cause.TTL, expired.place, message)


def altered_value(altered: Altered) -> Finding:
    """Return the finding that state does not hold what it was given."""
    what = f"the state {altered.variable!r} does not hold {altered.given!r} in its column {altered.column}"
    kept = "null" if altered.kept is None else altered.kept
    return finding_of(Cause.VALUE, altered.place, f"{what}: Spark keeps {kept}, and says nothing")


def swallowed_call(raised: RaisedCall, feed: Feed) -> Finding:
    """Return the finding that the code catches an error of a state call. ``feed``: the rows that show it."""
    rows = [str(row) for batch in feed for row in batch]
    of = f" of {' and '.join(rows)}" if len(rows) <= 2 else ""
    loud = "tells of it neither in its output nor in its state"
    what = "does no more than log it" if raised.is_silent else loud
    message = f"{raised.call} raises {raised.error}, and the code catches it and {what}: what was to be kept{of} is lost"
    return finding_of(Cause.SWALLOWED, raised.place, message)


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
        places = [f"(batch {fault.batch}, partition {fault.partition})" for fault in schedule.faults]
        faults = [f"{fault.kind.value} {place}" for fault, place in zip(schedule.faults, places, strict=True)]
        again = ", and what runs again does so in the Python worker that ran it before" * bool(
            schedule.workers
        )
        return f"with {size}: {'; '.join(faults)}{again}"
    if schedule.workers:
        return f"with {size}, whose tasks run in several Python workers"
    if schedule.delayed or schedule.twice:
        rows = [str(row) for batch in feed for row in batch]
        moved = [rows[number] for number in schedule.delayed or schedule.twice if number < len(rows)]
        how = "two batches later" if schedule.delayed else "again two batches later"
        how += f", {round(schedule.step_ms / 500):,} s after the first time" * (cause is Cause.FORGOTTEN)
        return f"with {size}, of which {' and '.join(moved) or 'none'} comes {how}"
    if schedule.steps_ms and cause is not Cause.CHANCE:
        rest = max(schedule.steps_ms)
        behind = schedule.steps_ms.index(rest)
        return f"with {size}, and a rest of {timedelta(milliseconds=rest)} (h:min:s) behind batch {behind}"
    if schedule.cuts is not None:
        size += f", cut into {', '.join(str(len(batch)) for batch in schedule.batches(feed) if batch)}"
    if schedule.frame_rows is not None:
        return f"with {size}, {schedule.frame_rows} row in each frame"
    if schedule.cuts is not None:
        return f"with {size}"
    if schedule.partitions is not None:
        return f"with {size}, on {schedule.partitions} partition{'s' * (schedule.partitions != 1)}"
    return f"with {size}, {'on another day' if cause is Cause.CHANCE else 'in another order'}"


def finding_of_sink(
    finding: SinkFinding, feed_seed: int, kept: tuple[int, ...] | None, spark: str = ""
) -> Finding:
    """Return what a fault shows: something is lost, doubled or stuck, which is violated whatever else is meant.

    ``finding``: of the sink. ``feed_seed``: seed of the rows. ``kept``: which of the rows are left; ``None``: all.
    ``spark``: as in `SinkTrial`.
    """
    return Finding(
        Kind(Family.SINK, finding.wrong.value, FindingClass.VIOLATED, len(CAUSES)), finding.story, place_at(finding.place),
        finding.remedy, (f"{finding.effect} on {finding.destination}",), SinkTrial(finding.fault, feed_seed, kept, spark),
        finding.trials,
    )  # fmt: skip


def question_of_sink(
    asked: SinkQuestion, feed_seed: int, kept: tuple[int, ...] | None, spark: str = ""
) -> Finding:
    """Return what only the author of a sink can mean, as a finding. The arguments are those of `finding_of_sink`."""
    return Finding(
        Kind(Family.SINK, asked.about.value, FindingClass.UNDECLARED, len(CAUSES)), asked.message, place_at(asked.place),
        asked.answer, trial=SinkTrial(asked.fault, feed_seed, kept, spark),
    )  # fmt: skip


def finding_of_pair(
    name: str, message: str, place: str, remedy: str, claim: FindingClass = FindingClass.VIOLATED
) -> Finding:
    """Return what two queries of one program do to each other, which the second one's start at ``file:line`` shows."""
    return Finding(Kind(Family.SINK, name, claim), message, place_at(place), remedy)
