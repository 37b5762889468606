"""Compare a job or a sink with and without a fault, step by step, to show where the runs diverge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from headrace_properties.spark_jobs.findings import Cause, JobFinding, schedule_told
from headrace_properties.spark_jobs.outcomes import run_changed, watched_job, without_sink
from headrace_properties.spark_jobs.watching import Call, journal
from headrace_sim.spark.job import SparkJob
from headrace_sim.spark.queries import ATTEMPT, REPLACED, Event, Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.schedules import Schedule
from headrace_sim.spark.sinks import OneTrial
from headrace_sim.spark.sinks.effects import Effect

MOST_LINES = 60
"""Choice: the number of lines shown of a run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared runs.

    Attributes:
        title: What is special about it.
        lines: What happened, in order.
        outcome: What it came to.

    """

    title: str
    lines: tuple[str, ...]
    outcome: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a finding comes about.

    Attributes:
        runs: The undisturbed run, and the one that differs, if there is one.
        parting: The first state call or output that differs, in both runs.

    """

    runs: tuple[Run, ...]
    parting: tuple[str, ...] = ()

    def paragraphs(self) -> Iterator[str]:
        """Yield the text, line by line."""
        for run in self.runs:
            yield run.title
            yield from (f"  {line}" for line in run.lines[:MOST_LINES])
            if len(run.lines) > MOST_LINES:
                yield f"  and {len(run.lines) - MOST_LINES:,} more steps"
            yield from (f"  = {line}" for line in run.outcome)
        if self.parting:
            yield "The first difference"
            yield from (f"  {line}" for line in self.parting)


def explain_job(job: SparkJob, finding: JobFinding) -> Explanation:
    """Rerun the feed of a finding, with and without its schedule, and record each step.

    Args:
        job: The job.
        finding: What was found.

    """
    calm, calm_journal = _journaled(job, finding, Schedule())
    undisturbed = _run("Undisturbed", calm, calm_journal)
    if finding.schedule is None:
        return Explanation((undisturbed,))
    other, journaled = _journaled(job, finding, finding.schedule)
    title = schedule_told(finding.changed, finding.schedule, finding.feed).capitalize()
    parting = _parting(calm_journal, journaled)
    lines = [
        f"{word} {'nothing more' if call is None else _call_told(call)}"
        for word, call in zip(("undisturbed:", "then:       "), parting, strict=True)
    ]
    return Explanation((undisturbed, _run(title, other, journaled)), tuple(lines) if any(parting) else ())


def placed(job: SparkJob, finding: JobFinding) -> JobFinding:
    """Return the finding with the line of the first state call or output that differs, unless another line is to blame."""
    if finding.schedule is None or finding.cause in {Cause.LATE, Cause.MEMORY, Cause.ERROR, Cause.PROMISE}:
        return finding
    journals = [_journaled(job, finding, schedule)[1] for schedule in (Schedule(), finding.schedule)]
    place = next((call.place for call in reversed(_parting(*journals)) if call is not None), "")
    return replace(finding, place=place or finding.place)


def _journaled(job: SparkJob, finding: JobFinding, schedule: Schedule) -> tuple[Outcome, list[Any]]:
    changed = finding.changed if schedule is finding.schedule else Cause.FAULTS
    with journal() as written:
        outcome = run_changed(watched_job(without_sink(job)), finding.feed, schedule, changed, written.append)
    return outcome, written


def _run(title: str, outcome: Outcome, journaled: Sequence[Any]) -> Run:
    lines = []
    for attempt, calls in _attempts(journaled):
        if calls or attempt.what not in {ATTEMPT, REPLACED}:
            lines.append(_event_told(attempt))
        lines += [f"  {_call_told(call)}" for call in calls]
    rows = [f"batch {batch} gives {row}" for batch, rows in sorted(outcome.outputs.items()) for row in rows]
    state = [
        f"{name} of {key} is {value}"
        for held in outcome.state.values()
        for (name, key), value in held.items()
    ]
    late = [f"{outcome.late} rows were dropped as late"] if outcome.late else []
    failed = [f"it fails: {type(outcome.failure).__name__}: {outcome.failure}"] if outcome.failure else []
    return Run(title, tuple(lines), (*(rows or ["no output"]), *state, *late, *failed))


def _attempts(journaled: Sequence[Any]) -> list[tuple[Event, list[Call]]]:
    """Each event with the calls that follow it."""
    found: list[tuple[Event, list[Call]]] = []
    for entry in journaled:
        if isinstance(entry, Call):
            if found:
                found[-1][1].append(entry)
        elif entry.what not in {"committed", "sink called"}:
            found.append((entry, []))
    return found


def _event_told(event: Event) -> str:
    where = f", partition {event.partition}" if event.partition >= 0 else ""
    what = "" if event.what == ATTEMPT else f": {event.what}"
    return f"batch {event.batch}{where}{what}"


def _call_told(call: Call) -> str:
    result = f" -> {call.result}" if call.result else ""
    place = f"  ({shown_place(call.place)})" if call.place else ""
    return f"{', '.join(map(str, call.key))}: {call.what}{result}{place}"


def _parting(calm: Sequence[Any], other: Sequence[Any]) -> tuple[Call | None, Call | None]:
    """Return the first difference in state calls and output, key by key, in the attempts that counted."""
    calls, others = _counted(calm), _counted(other)
    for key in (*calls, *(key for key in others if key not in calls)):
        for one, two in zip_longest(calls.get(key, []), others.get(key, [])):
            if one != two:
                return one, two
    return None, None


def _counted(journaled: Sequence[Any]) -> dict[tuple[Any, ...], list[Call]]:
    """Return each key's calls in the last attempt of each task, without those of a replaced driver."""
    last = {
        (event.batch, event.stage, event.partition): calls
        for event, calls in _attempts(journaled)
        if event.what == ATTEMPT
    }
    found: dict[tuple[Any, ...], list[Call]] = {}
    for calls in last.values():
        for call in calls:
            if not call.what.startswith("row "):
                found.setdefault(call.key, []).append(call)
    return found


def explain_sink(trial: OneTrial) -> Explanation:
    """Record the effects of a sink, with and without the fault."""
    return Explanation(
        (
            Run("Undisturbed", tuple(map(_effect_told, trial.undisturbed)), ()),
            Run("Under the fault", tuple(map(_effect_told, trial.effects)), ()),
        )
    )


def _effect_told(effect: Effect) -> str:
    process = f"driver {effect.attempt + 1}, batch {effect.batch}"
    pending = " (not committed yet)" if effect.pending else ""
    return f"{process}: {effect.action} on {effect.target}{pending}  ({shown_place(effect.place)})"
