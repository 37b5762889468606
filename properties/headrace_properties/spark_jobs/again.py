"""A recorded finding about a Spark job or its sink, and the search for it."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace_properties.findings import Finding, Kind
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.explaining import Explanation, explain_query, explain_sink, placed
from headrace_properties.spark_jobs.outcomes import check_again
from headrace_properties.spark_jobs.sink_findings import finding_of_sink, question_of_sink
from headrace_properties.spark_jobs.smaller_feeds import narrowed
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_sim.spark.schedules import Schedule
from headrace_sim.spark.sink_faults import SinkFaultKind
from headrace_sim.spark.sinks import ALLOWED, OneTrial

_MOST_PARTITIONS = 1_000


class Again:
    """A trial that is made again.

    Args:
        trial: What showed a finding.
        kinds: What was found.
        target: What it is about, as it is today, with all rows.

    Attributes:
        finding: What is found, or None.

    """

    def __init__(self, trial: QueryTrial | SinkTrial, kinds: Collection[Kind], target: SparkTarget) -> None:
        self._target = target
        self.finding: Finding | None = None
        self._sink: OneTrial | None = None
        if isinstance(trial, QueryTrial):
            found = check_again(target.job, target.feed, trial, target.promises, target.limits)
            self.finding = None if found is None else placed(target.job, target.feed, found)
        elif target.job.sink.function is not None:
            self._sink = replace(target, feed=narrowed(target.feed, trial.kept)).try_fault(trial.fault)
            seed, kept = trial.feed_seed, trial.kept
            found_now = [finding_of_sink(found, seed, kept) for found in self._sink.findings]
            found_now += [question_of_sink(asked, seed, kept) for asked in self._sink.questions]
            names = {kind.name for kind in kinds}
            same = [found for found in found_now if found.kind.name in names]
            self.finding = next(iter(same or found_now), None)

    def explanation(self) -> Explanation | None:
        """Explain the finding, if there is one."""
        if self.finding is not None and isinstance(self.finding.trial, QueryTrial):
            return explain_query(self._target.job, self._target.feed, self.finding.trial)
        return None if self._sink is None or self.finding is None else explain_sink(self._sink)


def with_keys(target: SparkTarget, keys: Mapping[str, tuple[str, ...]]) -> SparkTarget:
    """Return a target with the keys that were declared for a recorded finding, unless some are declared now."""
    return target if target.keys else replace(target, keys=keys)


def digest_of_rows(target: SparkTarget, trial: QueryTrial | SinkTrial) -> str:
    """Return the digest of the rows that a trial keeps."""
    rows = [list(map(tuple, batch)) for batch in narrowed(target.feed, trial.kept)]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def is_allowed(trial: QueryTrial | SinkTrial, kinds: Collection[Kind], causes: Collection[Cause]) -> bool:
    """Return whether a trial showed what the outcome may depend on. ``kinds``: what it showed; ``causes``: what is allowed."""
    if isinstance(trial, QueryTrial):
        return trial.cause in causes
    if trial.fault.kind not in {SinkFaultKind.NONE, SinkFaultKind.REDELIVER}:
        return False
    allowed = {cause.value for cause in causes}
    allowed |= {wrong.value for wrong, name in ALLOWED.items() if name in allowed}
    return any(kind.name in allowed for kind in kinds)


def implausible_rows(trial: QueryTrial | SinkTrial, target: SparkTarget) -> str:
    """Return why a trial cannot be made: implausible numbers, or an input with fewer rows now. ``""``: it can."""
    rows = sum(map(len, target.feed))
    if not all(0 <= row < rows for row in trial.kept or ()):
        return f"it needs row {max(trial.kept or ())}, and the input has {rows} rows"
    if isinstance(trial, SinkTrial):
        negative = trial.fault.batch < 0 or trial.fault.effect < -1
        return "its fault is at a negative place" if negative else ""
    schedule = trial.schedule or Schedule()
    if not 0 < (schedule.partitions or 1) <= _MOST_PARTITIONS:
        return f"it has {schedule.partitions} partitions"
    if any(size < 0 for size in schedule.cuts or ()):
        return "it has a batch of negative size"
    promises = [promise.name for promise in target.promises]
    if (trial.cause is Cause.PROMISE) != bool(trial.promise) or (
        trial.promise and trial.promise not in promises
    ):
        return f"it is about the promise {trial.promise!r}, which the module no longer makes"
    return ""
