"""A query that goes on from the checkpoint of an earlier version of it, compared with each version alone.

What Spark refuses, and what fails, is violated. So is what both versions alone agree on, and the upgrade does not. Everything
else that state of the earlier version makes differ is asked: only the author knows what the new version makes of the old one's.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import structs

from headrace_properties.findings import Finding, FindingClass
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import finding_of, size_told
from headrace_properties.spark_jobs.runs import place_of_failure, raised_told, run_changed
from headrace_properties.spark_jobs.settled import Updates, difference
from headrace_properties.spark_jobs.smaller_feeds import narrowed, shrunk
from headrace_properties.spark_jobs.together import labels_of
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.target import TargetError
from headrace_sim.spark.client.scripts import Script, run_script, surroundings
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.query.state_changes import StateFate, changes_between, handed_over
from headrace_sim.spark.query.streaming_query import Checkpoint, OffsetLogEntry, Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.spark_job import SparkJob

TRIES = 40
"""Choice: the number of smaller feeds that are tried for a finding."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier version of a query."""

    name: str  # as the user wrote it
    job: SparkJob
    around: Callable[[], AbstractContextManager[Any]]  # in which its code must be called


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """What comes of an upgrade."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def earlier_of_program(name: str, script: Script, label: str) -> Earlier:
    """Run an earlier version of a program, and return its query of the same label; or the only one.

    ``name``: of its file or its module; it is run with the arguments and the environment of ``script``, the later one. Raise
    `TargetError` if it has no such query, `HeadraceError` if it cannot be run.
    """

    @contextmanager
    def around() -> Iterator[Any]:
        with surroundings(replace(script, name=name)) as module:
            for imported in _beside(script):  # the earlier version has its own; leaving brings them back
                del sys.modules[imported]
            yield module

    with around() as module:
        queries = run_script(replace(script, name=name), module).queries
    labels = labels_of(queries)
    jobs = dict(zip(labels, queries, strict=True))
    job = jobs.get(label, queries[0] if len(queries) == 1 else None)
    if job is None:
        raise TargetError(name, f"it starts no query {label!r}", f"Its queries are: {'; '.join(labels)}")
    return Earlier(name, job, around)


def _beside(script: Script) -> list[str]:
    """Return the names of the imported modules that lie beside a program's file."""
    if script.file is None:
        return []
    folder = script.file.resolve().parent
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return [
        name
        for name, file in files.items()
        if file and name != "__main__" and Path(file).is_relative_to(folder) and "site-packages" not in file
    ]


@dataclass(frozen=True)
class Upgrade:
    """A query, its earlier version, and the rows that both are given."""

    earlier: Earlier
    job: SparkJob  # the later version, without its sink
    feed: Feed
    limits: CodeLimits = CodeLimits()  # noqa: RUF009  it is frozen

    def check(self, *, allowed: bool = False) -> UpgradeReport:
        """Let the query go on from the checkpoint of its earlier version after each batch, and compare.

        ``allowed``: whether what is asked is meant. Raise `SparkJobError` if Spark refuses one of the versions by itself, or
        `CannotFollowError` if one of them does something that is not simulated.
        """
        changes = changes_between(self.earlier.job, self.job)
        notes = tuple(
            f"upgraded from {self.earlier.name}, {part.what}"
            for part in changes
            if part.fate is StateFate.KEPT
        )
        finding = self.find(QueryTrial(Cause.UPGRADE))
        unknown = [part.what for part in changes if part.fate is StateFate.UNKNOWN]
        if not any(part.fate in _NOT_RUN for part in changes):
            try:
                finding = self._smallest() or finding
            except _OtherInputError as other:
                unknown.append(str(other))
        not_run = tuple(f"the upgrade from {self.earlier.name} was not run: {why}" for why in unknown)
        if finding is None or (allowed and finding.finding_class is FindingClass.UNDECLARED):
            return UpgradeReport((), not_run, notes)
        return UpgradeReport((finding,), not_run, notes)

    def find(self, trial: QueryTrial) -> Finding | None:
        """Return what a trial shows: what a checkpoint of the earlier version is, or what comes of going on from it."""
        changes = [
            part for part in changes_between(self.earlier.job, self.job) if part.fate is not StateFate.KEPT
        ]
        if trial.upgraded_after:
            if any(part.fate in _NOT_RUN for part in changes):
                return None
            with guarded(), call_time_limited(self.limits):
                return self._gone_on(trial)
        changes = [part for part in changes if part.fate is not StateFate.UNKNOWN]
        if not changes:
            return None
        worst = min((part.fate for part in changes), key=list(StateFate).index)
        what = "; ".join(part.what for part in changes if part.fate is worst)
        claim = FindingClass.VIOLATED if worst is StateFate.REFUSED else FindingClass.UNDECLARED
        begin = (
            "Spark refuses the checkpoint of"
            if worst is StateFate.REFUSED
            else "resumed from the checkpoint of"
        )
        message = f"{begin} {self.earlier.name}: {what}"
        return replace(finding_of(Cause.UPGRADE, changes[0].place, message, finding_class=claim), trial=trial)

    @property
    def changes(self) -> tuple[str, ...]:
        """What becomes of each part of the checkpoint that is not kept as it is."""
        parts = changes_between(self.earlier.job, self.job)
        return tuple(
            f"{part.what}  ({shown_place(part.place)})" for part in parts if part.fate is not StateFate.KEPT
        )

    def start(self, feed: Feed, number: int) -> Checkpoint:
        """Return the checkpoint that the earlier version leaves behind this many batches, as the query finds it."""
        return handed_over(self._before(feed)[1][number - 1], self.earlier.job, self.job)

    def _smallest(self) -> Finding | None:
        """Return what going on from the earliest batch that shows something shows, with as few rows as show it."""
        whole = range(1, len(self.feed))
        trials = (QueryTrial(Cause.UPGRADE, upgraded_after=number) for number in whole)
        first = next((trial for trial in trials if self.find(trial) is not None), None)
        if first is None:
            return None

        def smaller(kept: tuple[int, ...]) -> Finding | None:
            return self.find(structs.replace(first, kept=kept))

        kept, _ = shrunk(
            sum(map(len, self.feed)), Schedule(), lambda kept, _: smaller(kept) is not None, TRIES
        )
        return smaller(kept) or self.find(first)

    def _gone_on(self, trial: QueryTrial) -> Finding | None:
        feed, number = narrowed(self.feed, trial.kept), trial.upgraded_after
        old, checkpoints = self._before(feed)
        new = run_changed(self.job, feed, Schedule(), Cause.UPGRADE)
        if old.failure is not None or new.failure is not None or number > len(checkpoints):
            return None
        start = handed_over(checkpoints[number - 1], self.earlier.job, self.job)
        later = run_changed(self.job, feed[number:], Schedule(), Cause.UPGRADE, start=start)
        rows = f"{size_told(feed)}, of which {self.earlier.name} ran the first{f' {number}' * (number > 1)}"
        steps = (*self.job.stateful, *self.job.working)
        place = next((step.place for step in steps), "")
        if later.failure is not None:
            error, place = raised_told(later.failure), place_of_failure(later.failure, place)
            claim, message = (
                FindingClass.VIOLATED,
                f"resumed from the checkpoint of {self.earlier.name}, the query raises {error}",
            )
        else:
            expected = from_batch(new, number)
            differs = difference(self.job, expected, later, updates=Updates.LAST_OF_BATCH)
            if differs is None or (trial.kept is not None and expected.rows() == later.rows()):
                return None  # a smaller feed is to show it in the output
            claim = FindingClass.VIOLATED if self._agree else FindingClass.UNDECLARED
            other = "either version started afresh" if self._agree else "a fresh start"
            begin = f"resumed from the checkpoint of {self.earlier.name}"
            message = f"{begin}, the job does not give the result of {other}: {differs}"
        return replace(
            finding_of(Cause.UPGRADE, place, f"{message}; with {rows}", finding_class=claim), trial=trial
        )

    @cached_property
    def _agree(self) -> bool:
        """Whether both versions alone come to the same on all rows."""
        old, new = (
            self._before(self.feed)[0].rows(),
            run_changed(self.job, self.feed, Schedule(), Cause.UPGRADE).rows(),
        )
        return bool(new) and old == new

    def _before(self, feed: Feed) -> tuple[Outcome, list[Checkpoint]]:
        """Run the earlier version alone; return its outcome, and its checkpoint after each batch."""
        checkpoints = list[Checkpoint]()

        def after_batch(_batch: OffsetLogEntry, outcome: Outcome) -> None:
            assert outcome.checkpoint is not None
            checkpoints.append(outcome.checkpoint)

        job = self.earlier.job
        with self.earlier.around():
            rows = _as_read_by(job, self.job, feed)
            return run_changed(job, rows, Schedule(), Cause.UPGRADE, after_batch=after_batch), checkpoints


_NOT_RUN = frozenset({StateFate.REFUSED, StateFate.REREAD, StateFate.UNKNOWN})
"""What is not run: it is refused, not known, or Spark's own state is not what the simulation has of it."""


class _OtherInputError(Exception):
    """The earlier version reads what the later one has no rows of."""


def _as_read_by(old: SparkJob, new: SparkJob, feed: Feed) -> Feed:
    """Return the rows of a feed with the columns that an earlier version reads."""
    known = {field.name: field.dataType for field in new.input.fields}
    other = [field.name for field in old.input.fields if known.get(field.name) != field.dataType]
    if other:
        message = f"it reads {', '.join(other)}, and the rows are those of {', '.join(new.input.names)}"
        raise _OtherInputError(message)
    places = [new.input.names.index(name) for name in old.input.names]
    return [[tuple(row[place] for place in places) for row in batch] for batch in feed]


def from_batch(outcome: Outcome, number: int) -> Outcome:
    """Return an outcome without the output of the first batches."""
    return replace(
        outcome, outputs={batch: rows for batch, rows in outcome.outputs.items() if batch >= number}
    )
