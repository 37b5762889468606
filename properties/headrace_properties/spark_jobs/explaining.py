"""Compare a job or a sink with and without a fault, step by step, to show where the runs diverge."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, zip_longest
from typing import Any

from headrace_properties.explanation import Explanation, Row, Run, RunStep, StepKind, Tables
from headrace_properties.findings import Finding
from headrace_properties.promises import Promise
from headrace_properties.sinks import OneTrial
from headrace_properties.sinks.baseline import by_pattern
from headrace_properties.sinks.sink_reports import LeftOf
from headrace_properties.sinks.story import OtherRows, shown_items
from headrace_properties.spark_jobs.feeds.versioned_rows import oldest_first
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import place_at, schedule_told
from headrace_properties.spark_jobs.outcomes import without_sink
from headrace_properties.spark_jobs.runs import run_changed, watched_job
from headrace_properties.spark_jobs.smaller_feeds import narrowed
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.spark_jobs.upgrades import Upgrade, from_batch
from headrace_properties.spark_jobs.watching import HandlerCall, journal
from headrace_sim.deliveries import Batches
from headrace_sim.spark.query.schedules import FaultKind, Feed, Schedule
from headrace_sim.spark.query.streaming_query import (
    ATTEMPT,
    REPLACED,
    SINK_CALLED_LATE,
    Checkpoint,
    Event,
    OffsetLogEntry,
    Outcome,
)
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import REPLACED_CHECKPOINTS, SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.trial_contents import Contents
from headrace_sim.spark.spark_job import SparkJob

MOST_ROWS = 6
"""Choice: the number of rows shown of a table."""


def explain_query(
    job: SparkJob, feed: Feed, trial: QueryTrial, promises: Sequence[Promise] = ()
) -> Explanation:
    """Run a trial again, with and without its schedule, and record each step.

    What shows undisturbed, since rows are late or come in another order than their versions, is compared with a run in which
    they do not.

    Args:
        job: The job.
        feed: All rows of its input.
        trial: What to run.
        promises: Its author's promises.

    """
    rows = narrowed(feed, trial.kept)
    schedule = trial.schedule or Schedule()
    calm, calm_journal = _journaled(job, rows, schedule.undisturbed)
    other_rows: Feed = rows
    if trial.schedule is not None:
        title = schedule_told(trial.changed, schedule, rows).capitalize()
    elif calm.late:
        schedule, title = Schedule(cuts=(sum(map(len, rows)),)), "With all rows in one batch"
    elif versioned := rows_by_version(rows, job.input.names, promises, trial.promise):
        other_rows, title = versioned.batches, f"With {versioned.how}"
    else:
        return Explanation((_run("Undisturbed", calm, calm_journal),))
    other, journaled = _journaled(job, other_rows, schedule, trial.changed)
    parting = _parting_told(calm_journal, journaled, "undisturbed:", "then:       ")
    undisturbed = _run("Undisturbed", calm, calm_journal, other)
    struck = _run(title, other, journaled, calm)
    return Explanation((undisturbed, struck), parting, _differing(undisturbed, struck))


def rows_by_version(
    batches: Batches, names: Sequence[str], promises: Sequence[Promise], name: str
) -> OtherRows | None:
    """Return rows of which the older versions come first; ``None``: they do, or the promise is not about versions.

    ``names``: of the rows' columns. ``name``: of the promise that is broken.
    """
    versions = next((promise.versions for promise in promises if promise.name == name), None)
    ordered = batches if versions is None else oldest_first(batches, names, versions)
    same = [*map(list, ordered)] == [*map(list, batches)]
    return None if same else OtherRows("the older versions of each key first", ordered)


def _parting_told(calm: Sequence[Any], other: Sequence[Any], *words: str) -> tuple[str, ...]:
    """Return the lines on the first difference of two runs. ``words``: how each is called."""
    parting = _parting(calm, other)
    lines = (
        f"{word} {'nothing more' if call is None else _call_told(call)}"
        for word, call in zip(words, parting, strict=True)
    )
    return tuple(lines) if any(parting) else ()


def explain_upgrade(upgrade: Upgrade, trial: QueryTrial) -> Explanation:
    """Tell what the checkpoint of the earlier version is; or run the query on its own, and on from that checkpoint."""
    if not trial.upgraded_after:
        steps = tuple(RunStep(change, StepKind.RUN) for change in upgrade.changes)
        return Explanation((Run(f"The checkpoint of {upgrade.earlier.name}", steps, ()),))
    rows, number = narrowed(upgrade.feed, trial.kept), trial.upgraded_after
    outcome, whole = _journaled(upgrade.job, rows, Schedule(), Cause.UPGRADE)
    from_there = dropwhile(lambda entry: not (isinstance(entry, Event) and entry.batch >= number), whole)
    calm_journal, start = [*from_there], upgrade.start(rows, number)
    other, journaled = _journaled(upgrade.job, rows[number:], Schedule(), Cause.UPGRADE, start)
    calm = _run(f"On its own, from batch {number} on", from_batch(outcome, number), calm_journal)
    title = f"From batch {number} on, behind {upgrade.earlier.name}"
    resumed = _run(title, other, journaled)
    parting = _parting_told(calm_journal, journaled, "on its own:", "resumed:   ")
    return Explanation((calm, resumed), parting, _differing(calm, resumed))


def _differing(calm: Run, other: Run) -> tuple[str, ...]:
    """Return the lines of the outcomes that only one of them has."""
    one, two = Counter(calm.outcome), Counter(other.outcome)
    lacking = (f"lacks: {line}" for line in (one - two).elements())
    return (*(f"has: {line}" for line in (two - one).elements()), *lacking)


def placed(job: SparkJob, feed: Feed, finding: Finding) -> Finding:
    """Return the finding with the line of the first state call or output that differs, unless another line is to blame."""
    trial: QueryTrial = finding.trial
    if trial.schedule is None or trial.cause in _PLACED:
        return finding
    rows = narrowed(feed, trial.kept)
    calm = _journaled(job, rows, trial.schedule.undisturbed)[1]
    other = _journaled(job, rows, trial.schedule, trial.changed)[1]
    place = next((call.place for call in reversed(_parting(calm, other)) if call is not None), "")
    return replace(finding, place=place_at(place) or finding.place)


_PLACED = frozenset({Cause.LATE, Cause.MEMORY, Cause.ERROR, Cause.PROMISE, Cause.SWALLOWED})
"""Causes of findings that have the line to blame."""


@dataclass(frozen=True, slots=True)
class _Committed:
    """A batch has been committed."""

    batch: int
    tables: Tables  # what is there then


def _journaled(
    job: SparkJob,
    rows: Feed,
    schedule: Schedule,
    changed: Cause = Cause.FAULTS,
    start: Checkpoint | None = None,
) -> tuple[Outcome, list[Any]]:
    watched, names = watched_job(without_sink(job)), job.output.names
    with journal() as written:

        def committed(batch: OffsetLogEntry, outcome: Outcome) -> None:
            written.append(_Committed(batch.number, _tables_of(outcome, names)))

        outcome = run_changed(watched, rows, schedule, changed, written.append, committed, start=start)
    return outcome, written


def _tables_of(outcome: Outcome, names: Sequence[str]) -> Tables:
    """Return the rows that were given, and what is in the state. ``names``: of the columns of the output."""
    tables: dict[str, list[Row]] = {"output": []}
    for _, rows in sorted(outcome.outputs.items()):
        tables["output"] += [tuple(zip(names, map(repr, row), strict=False)) for row in rows]
    for state in outcome.state.values():
        for (name, key), value in state.items():
            tables.setdefault(f"state: {name}", []).append((("key", repr(key)), ("value", repr(value))))
    return {name: tuple(rows) for name, rows in tables.items()}


def _run(title: str, outcome: Outcome, journaled: Sequence[Any], other: Outcome | None = None) -> Run:
    """Tell of a run. ``other``: with which it is compared; if its batches have other rows, these are shown."""
    steps, tried, driver = list[RunStep](), set[tuple[int, int, int]](), 1
    batches, compared = (
        {batch.number: sorted(batch.rows, key=repr) for batch in each.batches}
        for each in (outcome, other or outcome)
    )
    rows = {batch.number: batch.rows for batch in outcome.batches}
    shown = set(batches) if batches != compared else set[int]()
    for attempt, calls in _attempts(journaled):
        if isinstance(attempt, _Committed):
            text = f"batch {attempt.batch} is committed"
            steps.append(
                RunStep(text, StepKind.WRITE, f"driver {driver}", "output", tables=attempt.tables, quiet=True)
            )
            continue
        if attempt.batch in shown:
            shown.remove(attempt.batch)
            is_other = batches[attempt.batch] != compared.get(attempt.batch, [])
            told = _batch_told(attempt.batch, rows[attempt.batch])
            steps.append(RunStep(told, StepKind.FAULT if is_other else StepKind.INPUT))
        task = attempt.batch, attempt.stage, attempt.partition
        is_fault, is_late = attempt.what not in {ATTEMPT, REPLACED}, attempt.what in _OF_REPLACED
        by = "replaced driver" if is_late else f"driver {driver}"
        if calls or is_fault:
            kind, again = StepKind.FAULT if is_fault else StepKind.RUN, not is_fault and task in tried
            steps.append(RunStep(_event_told(attempt), kind, by, again=again, late=is_late))
        driver += attempt.what.startswith("restart") or attempt.what == FaultKind.CHECKPOINT_RESTORED.value
        tried |= set() if is_fault else {task}
        steps += [_step_of(call, by) for call in calls]
    gives = [f"batch {batch} gives {row}" for batch, rows in sorted(outcome.outputs.items()) for row in rows]
    held = [item for state in outcome.state.values() for item in state.items()]
    state = [f"{name} of {key} is {value}" for (name, key), value in held]
    late = [f"{outcome.late} rows were dropped as late"] if outcome.late else []
    failed = [f"it fails: {type(outcome.failure).__name__}: {outcome.failure}"] if outcome.failure else []
    results = (*(gives or ["no output"]), *state, *late, *failed)
    behind = [entry.tables for entry in journaled if isinstance(entry, _Committed)]
    return Run(title, tuple(steps), results, behind[-1] if behind else {})


_OF_REPLACED = frozenset({FaultKind.ZOMBIE_DRIVER.value, REPLACED, SINK_CALLED_LATE})
"""What a driver does that was replaced."""
_WRITE = re.compile(r"\w*\.(?:update|put|append|clear|remove|set)\w*\(|(?:register|delete)Timer\(")
"""A call that changes the state."""


def _step_of(call: HandlerCall, by: str) -> RunStep:
    told = f"  {_call_told(call)}"
    if call.is_given:
        return RunStep(told, StepKind.INPUT, by)
    to = "output" if call.what.startswith("yields ") else "state" if _WRITE.match(call.what) else ""
    return RunStep(told, StepKind.WRITE if to else StepKind.RUN, by, to)


def _attempts(journaled: Sequence[Any]) -> list[tuple[Any, list[HandlerCall]]]:
    """Each event, or commit, with the calls that follow it."""
    attempts: list[tuple[Any, list[HandlerCall]]] = []
    for entry in journaled:
        if isinstance(entry, HandlerCall):
            if attempts:
                attempts[-1][1].append(entry)
        elif isinstance(entry, _Committed) or entry.what not in {"committed", "sink called"}:
            attempts.append((entry, []))
    return attempts


def _event_told(event: Event) -> str:
    where = f", partition {event.partition}" if event.partition >= 0 else ""
    what = "" if event.what == ATTEMPT else f": {event.what}"
    return f"batch {event.batch}{where}{what}"


def _call_told(call: HandlerCall) -> str:
    result = f" -> {call.result}" if call.result else ""
    place = f"  ({shown_place(call.place)})" if call.place else ""
    return f"{', '.join(map(str, call.key))}: {call.what}{result}{place}"


def _parting(calm: Sequence[Any], other: Sequence[Any]) -> tuple[HandlerCall | None, HandlerCall | None]:
    """Return the first difference in state calls and output, key by key, in the attempts that counted."""
    calls, others = _counted(calm), _counted(other)
    for key in (*calls, *(key for key in others if key not in calls)):
        for one, two in zip_longest(calls.get(key, []), others.get(key, [])):
            if one != two:
                return one, two
    return None, None


def _counted(journaled: Sequence[Any]) -> dict[tuple[Any, ...], list[HandlerCall]]:
    """Return each key's calls in the last attempt of each task, without those of a replaced driver."""
    attempts = [
        (event, calls)
        for event, calls in _attempts(journaled)
        if isinstance(event, Event) and event.what == ATTEMPT
    ]
    last = {(event.batch, event.stage, event.partition): calls for event, calls in attempts}
    by_key: dict[tuple[Any, ...], list[HandlerCall]] = {}
    for call in (call for calls in last.values() for call in calls if not call.is_given):
        by_key.setdefault(call.key, []).append(call)
    return by_key


def explain_sink(trial: OneTrial, rows: OtherRows | None = None) -> Explanation:
    """Record the effects of a sink, with and without the fault: where it strikes, and what is there then and in the end.

    ``rows``: those that it compares with the given ones, if no fault shows what is wrong.
    """
    if rows is not None and trial.compared is not None:
        return _on_other_rows(rows.how, *trial.compared)
    own = _effect_steps(trial.undisturbed, trial.calm_steps)
    calm = Run("Undisturbed", tuple(own), tuple(_tables_told(trial.calm)), _tables(trial.calm))
    if trial.fault is None:
        return Explanation((calm,))
    at = _strikes_at(trial.effects, trial.fault)
    back = _goes_on_at(trial.effects, at)
    done = {(effect.batch, effect.action, effect.target) for effect in trial.effects[:at]}
    steps = list[RunStep]()
    for place, (effect, step) in enumerate(
        zip(trial.effects, _effect_steps(trial.effects, trial.steps), strict=True)
    ):
        again = place >= at and (effect.batch, effect.action, effect.target) in done
        steps.append(replace(step, again=again, late=back is not None and place >= back))
    if back is not None:
        steps.insert(back, RunStep("driver 1 goes on", StepKind.FAULT, "driver 1", late=True))
    by = "operator" if trial.fault.kind in REPLACED_CHECKPOINTS else "driver 1"
    then = tuple(f"  then {line}" for line in _tables_told(trial.struck or {}))
    steps.insert(
        at,
        RunStep(
            trial.what,
            StepKind.FAULT,
            by,
            details=then,
            tables=None if trial.struck is None else _tables(trial.struck),
        ),
    )
    struck = Run("Under the fault", tuple(steps), tuple(_tables_told(trial.left)), _tables(trial.left))
    wrong = {"once_more": " once more than it should", "new": ", which it should not have"}
    return Explanation((calm, struck), (), tuple(_contents_differing(trial.calm, trial.left, **wrong)))


def _on_other_rows(how: str, usual: LeftOf, other: LeftOf) -> Explanation:
    """Compare what a sink does with its rows, and with rows that come otherwise. ``how``: they come."""
    is_numbered = usual.contents.keys() != other.contents.keys()  # files of other batches
    contents = [by_pattern(left.contents) if is_numbered else left.contents for left in (usual, other)]
    runs = tuple(
        _run_on(title, left, held, usual.batches)
        for title, left, held in zip(("Undisturbed", f"With {how}"), (usual, other), contents, strict=True)
    )
    return Explanation(runs, (), tuple([other.failure] if other.failure else _contents_differing(*contents)))


def _run_on(title: str, left: LeftOf, contents: Contents, usual: Batches) -> Run:
    """Tell what a sink does with each batch. ``given``: the batches with which these are compared."""
    steps = list[RunStep]()
    for number, batch in enumerate(left.batches):
        is_other = [*batch] != [*next(iter(usual[number : number + 1]), ())]
        steps.append(RunStep(_batch_told(number, batch), StepKind.FAULT if is_other else StepKind.INPUT))
        own = zip(left.effects, _effect_steps(left.effects, left.steps), strict=True)
        steps += [replace(step, text=f"  {step.text}") for effect, step in own if effect.batch == number]
    outcome = [left.failure] if left.failure else _tables_told(contents)
    return Run(title, tuple(steps), tuple(outcome), _tables(contents))


def _batch_told(number: int, batch: Sequence[Any]) -> str:
    return f"batch {number} has {shown_items(map(str, batch), MOST_ROWS)}"


def _strikes_at(effects: Sequence[Effect], fault: SinkFault) -> int:
    """Return how many effects come before the fault."""
    if fault.kind in REPLACED_CHECKPOINTS:
        return next((place for place, effect in enumerate(effects) if effect.attempt), len(effects))
    first = fault.effect + (fault.kind in {SinkFaultKind.LOSE_REPLY, SinkFaultKind.TEAR})
    number = 0
    for place, effect in enumerate(effects):
        if effect.attempt or effect.batch > fault.batch or (effect.batch == fault.batch and number >= first):
            return place
        number += effect.batch == fault.batch
    return len(effects)


def _goes_on_at(effects: Sequence[Effect], struck: int) -> int | None:
    """Return the place of the first effect of a driver that was replaced, after those of its successor."""
    attempts = [effect.attempt for effect in effects]
    replaced = next((place for place in range(struck, len(attempts)) if attempts[place]), len(attempts))
    return next((place for place in range(replaced, len(attempts)) if not attempts[place]), None)


def _tables_told(contents: Contents) -> Iterator[str]:
    for destination, rows in sorted(contents.items()):
        what = f"has {shown_items(rows.elements(), MOST_ROWS)}" if rows else "is empty"
        yield f"{destination} {what}"


def _contents_differing(
    calm: Contents, left: Contents, *, once_more: str = " once more", new: str = ""
) -> Iterator[str]:
    """Yield what is there besides, or missing. ``once_more``, ``new``: what is said of what is known, or not known, there."""
    for destination in sorted({*calm, *left}):
        usual, items = calm.get(destination, Counter()), left.get(destination, Counter())
        if surplus := items - usual:
            yield f"{destination} has {shown_items(surplus.elements())}{once_more if surplus.keys() <= usual.keys() else new}"
        if missing := usual - items:
            yield f"{destination} lacks {shown_items(missing.elements())}"


def _effect_steps(effects: Sequence[Effect], behind: Sequence[Contents | None]) -> Iterator[RunStep]:
    """Yield effects as steps. ``behind``: what was there behind each of them; empty: nobody looked."""
    for effect, contents in zip_longest(effects, behind):
        by = f"driver {effect.attempt + 1}"
        pending = " (not committed yet)" if effect.pending else ""
        what = f"{effect.action} on {effect.target}{pending}  ({shown_place(effect.place)})"
        tables = None if contents is None else _tables(contents)
        yield RunStep(f"{by}, batch {effect.batch}: {what}", StepKind.WRITE, by, effect.target, tables=tables)


def _tables(contents: Contents) -> Tables:
    return {name: tuple(rows.elements()) for name, rows in sorted(contents.items())}
