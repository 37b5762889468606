"""The search of one query or sink in one session: kept findings, its schedules, and its sink at each of its effects."""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from headrace.api.errors import HeadraceError
from headrace_properties.explanation import Explanation
from headrace_properties.findings import Finding, FindingClass, Kind, ranked
from headrace_properties.kept_failures import KeptFailure, KeptFailures, Retried
from headrace_properties.replays import ReplayFile, to_replay
from headrace_properties.sinks import ALLOWED, OneTrial
from headrace_properties.sinks.sink_reports import Progress
from headrace_properties.sinks.story import OtherRows
from headrace_properties.spark_jobs.both_engines import compared
from headrace_properties.spark_jobs.calendar_edges import by_calendar
from headrace_properties.spark_jobs.explaining import (
    explain_query,
    explain_sink,
    explain_upgrade,
    placed,
)
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import finding_of_sink, question_of_sink
from headrace_properties.spark_jobs.machine_zones import by_machine_zone
from headrace_properties.spark_jobs.outcomes import SCHEDULES, check_again
from headrace_properties.spark_jobs.smaller_feeds import narrowed
from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import SparkSource
from headrace_properties.verdict import Holds, Verdict
from headrace_sim.deliveries import FeedSource
from headrace_sim.spark.pyspark_versions import differing
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.real.answers import collected, is_used, remember
from headrace_sim.spark.real.server_protocol import SparkAnswer
from headrace_sim.spark.sink_faults import REPLACED_CHECKPOINTS, SinkFaultKind


@dataclass(slots=True)
class QuerySearch:
    """The trials of a query or sink, and what they have shown."""

    target: SparkTarget  # the job or sink
    target_of: Callable[[int], SparkTarget]  # returns it with the rows of another seed
    source: SparkSource  # where it comes from
    seed: int  # of its rows and schedules
    schedules: int = SCHEDULES  # how many, for a job that keeps state or calls functions in Python
    allow: Collection[Cause] = ()  # on what its outcome may depend
    allow_unknown: Collection[str] = ()  # promises that no run needs to test
    progress: Progress | None = None  # told how much is done, and of how much; a true result stops the search
    on_finding: Callable[[Finding], object] = lambda _: None  # as in `SparkTarget.verify`
    report: SparkReport | None = None  # of the search; None: it has not ended
    again: tuple[Retried, ...] = ()  # what was kept and shows again

    @property
    def feed_source(self) -> FeedSource:
        """What its source promises."""
        return self.target.job.declares.source

    def retry(self, kept: KeptFailures) -> Sequence[Retried]:
        """Look for kept findings again, unless the outcome may depend on what they are about."""
        settled = (
            {*self.allow}
            if self.feed_source.once is False
            else {*self.allow, Cause.DUPLICATES, Cause.FORGOTTEN}
        )
        for failure in kept.load():
            trial = failure.replay.trial
            if not isinstance(trial, QueryTrial | SinkTrial) or self._is_undeclared(trial):
                continue
            if not _is_allowed(trial, failure.replay, settled):
                again = _retried(failure, trial, self.target_of(trial.feed_seed))
                if self.progress is not None and self.progress(0, 0):
                    break  # a signal may have ended this trial's process, too
                self.again = (*self.again, again)
        return self.again

    def _is_undeclared(self, trial: QueryTrial | SinkTrial) -> bool:
        """Return whether a trial replaces the checkpoint, which is judged only where that is declared."""
        replaces = isinstance(trial, SinkTrial) and trial.fault.kind in REPLACED_CHECKPOINTS
        return replaces and not self.target.job.declares.new_checkpoint

    def search(self) -> None:
        """Run the schedules and the trials of the sink. What the second engine cannot try is said, and the first one's counts."""
        first, *others = self.target.engines
        self.report = self._elsewhere(self._upgraded(self._verified(first)))
        for target in others:
            try:
                self.report = compared(self.report, self._verified(target))
            except HeadraceError as error:
                unknown = (*self.report.unknown, f"on the real Spark: {error}")
                self.report = dataclasses.replace(self.report, unknown=unknown)

    def _elsewhere(self, report: SparkReport) -> SparkReport:
        """Return a report with the findings on days of the calendar and on machines of other time zones."""
        if self.target.engines[0].laboratory is not None or is_used() or self._is_over(report):
            return report
        shown = [*by_calendar(self.target)]
        if Cause.ZONE not in self.allow and (zone := by_machine_zone(self.target)) is not None:
            shown.append(zone)
        wrong = [
            each
            for each in shown
            if isinstance(each, Finding) and each.finding_class is not FindingClass.NOTE
        ]
        notes = (str(each) for each in shown if each not in wrong)
        findings = ranked([*report.findings, *wrong])
        return dataclasses.replace(report, findings=findings, notes=(*report.notes, *notes))

    def _is_over(self, report: SparkReport) -> bool:
        """Return whether a search was stopped, or nothing ran."""
        stopped = report.sink is not None and report.sink.stopped
        return stopped or (report.job is not None and report.job.schedules < self.schedules)

    def _upgraded(self, report: SparkReport) -> SparkReport:
        """Return a report with the findings of a start from the checkpoint of an earlier version, if one is named."""
        if self.target.upgrade is None:
            return report
        upgrade = self.target.upgrade.check(allowed=Cause.UPGRADE in self.allow)
        seed = self.target.feed_seed
        findings = [
            dataclasses.replace(finding, trial=structs.replace(finding.trial, feed_seed=seed))
            for finding in upgrade.findings
        ]
        return dataclasses.replace(
            report, findings=ranked([*report.findings, *findings]), unknown=(*report.unknown, *upgrade.unknown),
            notes=(*report.notes, *upgrade.notes),
        )  # fmt: skip

    def _verified(self, target: SparkTarget) -> SparkReport:
        return target.verify(
            schedules=self.schedules, seed=self.seed, allow=self.allow, allow_unknown=self.allow_unknown, progress=self.progress,
            on_finding=self.on_finding,
        )  # fmt: skip

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found, and what was kept and is found again only under its own schedule: violated ones first."""
        again = (kept.finding for kept in self.again if kept.finding is not None)
        return ranked([*(self.report.findings if self.report else ()), *again])

    def _target_with(self, seed: int) -> SparkTarget:
        """Return the target with the rows of a seed."""
        return self.target if seed == self.target.feed_seed else self.target_of(seed)

    def explanation(self, finding: Finding) -> Explanation | None:
        """Make the trial of a finding again, and explain what it shows."""
        trial, kind = finding.trial, finding.kind
        recorded = ReplayFile(self.source, trial, {kind.family: {kind.name: str(finding)}})
        return Again(recorded, trial, self._target_with(trial.feed_seed)).explanation()

    def replay(self, finding: Finding) -> bytes | None:
        """Write a finding for a file; ``None``: it is about the query's settings, which no trial shows."""
        trial = finding.trial
        if trial is None:
            return None
        target = self._target_with(trial.feed_seed)
        messages, rows = {finding.kind: str(finding)}, _digest_of_rows(target, trial)
        answers = _answers_to(ReplayFile(self.source, trial, {}), trial, target) if is_used() else {}
        return to_replay(
            self.source, trial, messages, input_digest=rows, answers=answers, versions=target.versions
        )

    def file_of(self, finding: Finding) -> Path | None:
        """Return the file of a kept finding that is found again only under its own schedule."""
        return next((again.path for again in self.again if again.finding is finding), None)


class Again:
    """A recorded trial of a Spark job or its sink, made again unless its numbers are implausible.

    Args:
        replay: What was recorded.
        trial: Its trial.
        target: What it is about, as it is today, with all rows.

    Attributes:
        wrong: Why it cannot be made, or "".
        changes: What has changed since it was recorded: ``code``, ``input``, ``PySpark``, ``Python``, ``Java``, ``jars``.
        of_another_release: Says what is, by name.
        finding: What is found, or None.

    """

    def __init__(self, replay: ReplayFile, trial: QueryTrial | SinkTrial, target: SparkTarget) -> None:
        declared = replay.source.keys if isinstance(replay.source, SparkSource) else {}
        self._target = target = target if target.keys else dataclasses.replace(target, keys=declared)
        self.wrong = _implausible(trial, target)
        self.changes = replay.changes(_digest_of_rows(target, trial))
        self.of_another_release = differing(replay.versions or {}, target.versions)
        self.changes += tuple(self.of_another_release)
        self.finding: Finding | None = None
        self._sink: OneTrial | None = None
        self._rows: OtherRows | None = None
        remember(replay.answers or {})
        if self.wrong:
            return
        if isinstance(trial, QueryTrial):
            if trial.cause is Cause.UPGRADE:
                self.finding = None if target.upgrade is None else target.upgrade.find(trial)
                return
            if trial.cause in _ELSEWHERE:
                smaller = dataclasses.replace(target, feed=narrowed(target.feed, trial.kept))
                self.finding = _ELSEWHERE[trial.cause](smaller)
                return
            finding = check_again(target.job, target.feed, trial, target.promises, target.limits)
            self.finding = None if finding is None else placed(target.job, target.feed, finding)
        elif target.job.sink.function is not None:
            smaller = dataclasses.replace(target, feed=narrowed(target.feed, trial.kept))
            self._sink = smaller.try_fault(trial.fault)
            if trial.promise:
                self.finding = smaller.broken_again(trial)
                self._rows = smaller.rows_beside(trial, self._sink.batches)
                return
            seed, kept = trial.feed_seed, trial.kept
            shown = [(finding_of_sink(finding, seed, kept), finding.rows) for finding in self._sink.findings]
            shown += [(question_of_sink(asked, seed, kept), asked.rows) for asked in self._sink.questions]
            same = [finding for finding in shown if replay.shows(finding[0].kind)]
            self.finding, self._rows = next(iter(same or shown), (None, None))

    def explanation(self) -> Explanation | None:
        """Explain the finding, if there is one."""
        if self.finding is not None and isinstance(self.finding.trial, QueryTrial):
            if self.finding.trial.cause in _ELSEWHERE:
                return None
            if (upgrade := self._target.upgrade) and self.finding.trial.cause is Cause.UPGRADE:
                return explain_upgrade(upgrade, self.finding.trial)
            target = self._target
            return explain_query(target.job, target.feed, self.finding.trial, target.promises)
        if self._sink is None or self.finding is None:
            return None
        trial, rows = self.finding.trial, self._rows
        if rows is None:
            return explain_sink(self._sink)
        smaller = dataclasses.replace(self._target, feed=narrowed(self._target.feed, trial.kept))
        return explain_sink(smaller.try_fault(trial.fault, rows=rows), rows)


_ELSEWHERE: dict[Cause, Callable[[SparkTarget], Finding | None]] = {
    Cause.ZONE: by_machine_zone,
    Cause.CALENDAR: lambda target: next(
        (found for found in by_calendar(target) if isinstance(found, Finding)), None
    ),
}
"""What looks again for what no schedule shows."""


def _answers_to(
    replay: ReplayFile, trial: QueryTrial | SinkTrial, target: SparkTarget
) -> dict[str, SparkAnswer]:
    """Return what the real Spark says to a trial, which is made again to hear it."""
    with collected() as answers:
        Again(replay, trial, target)
    return answers


def _retried(failure: KeptFailure, trial: QueryTrial | SinkTrial, target: SparkTarget) -> Retried:
    again = Again(failure.replay, trial, target)
    finding = again.finding
    if again.wrong:
        return Retried(failure, wrong=again.wrong)
    verdicts: dict[Kind, Verdict] = dict.fromkeys(failure.replay.kinds, Holds(1))
    if finding is not None:
        verdicts = {finding.kind: finding.verdict}
    return Retried(failure, verdicts, again.changes, finding=finding)


def _digest_of_rows(target: SparkTarget, trial: QueryTrial | SinkTrial) -> str:
    """Return the digest of the rows that a trial keeps."""
    rows = [list(map(tuple, batch)) for batch in narrowed(target.feed, trial.kept)]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _is_allowed(trial: QueryTrial | SinkTrial, replay: ReplayFile, causes: Collection[Cause]) -> bool:
    """Return whether a trial showed a dependence that is allowed. ``causes``: what is allowed."""
    if isinstance(trial, QueryTrial):
        return trial.cause in causes
    if trial.fault.kind not in {SinkFaultKind.NONE, SinkFaultKind.DELIVERED}:
        return False
    allowed = {cause.value for cause in causes}
    allowed |= {wrong.value for wrong, name in ALLOWED.items() if name in allowed}
    return any(kind.name in allowed for kind in replay.kinds)


_MOST_PARTITIONS = 1_000


def _implausible(trial: QueryTrial | SinkTrial, target: SparkTarget) -> str:
    """Return why a trial cannot be made: implausible numbers, or an input with fewer rows now. ``""``: it can."""
    rows = sum(map(len, target.feed))
    if not all(0 <= row < rows for row in trial.kept or ()):
        return f"it needs row {max(trial.kept or ())}, and the input has {rows} rows"
    if isinstance(trial, SinkTrial):
        negative = trial.fault.batch < 0 or trial.fault.effect < -1
        if negative:
            return "its fault is at a negative place"
        return _of_unknown_promise(trial, target) if trial.promise else ""
    schedule = trial.schedule or Schedule()
    if not 0 < (schedule.partitions or 1) <= _MOST_PARTITIONS:
        return f"it has {schedule.partitions} partitions"
    if any(size < 0 for size in schedule.cuts or ()):
        return "it has a batch of negative size"
    return _of_unknown_promise(trial, target) if trial.promise or trial.cause is Cause.PROMISE else ""


def _of_unknown_promise(trial: QueryTrial | SinkTrial, target: SparkTarget) -> str:
    """Return that a trial is about a promise that the module does not make, or ""."""
    if any(promise.name == trial.promise for promise in target.promises):
        return ""
    return f"it is about the promise {trial.promise!r}, which the module no longer makes"
