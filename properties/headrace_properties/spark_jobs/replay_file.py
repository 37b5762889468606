"""A finding about a Spark job or its sink as a replayable file: its shrunk rows and schedule."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from headrace import HistoryFormatError
from headrace.api.json_text import JsonError, read_json
from headrace_properties.findings import Finding
from headrace_properties.printable import printable_json
from headrace_properties.search.kept_failures import KeptFailures
from headrace_properties.search.origins import code_digest
from headrace_properties.search.replay_file import is_spark_file, read_replay
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.explaining import Explanation, explain_query, explain_sink, placed
from headrace_properties.spark_jobs.outcomes import check_again
from headrace_properties.spark_jobs.shrinking import narrowed
from headrace_properties.spark_jobs.sink_findings import finding_of_sink, question_of_sink
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_sim.spark.schedules import Schedule
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks import ALLOWED, OneTrial

SPARK_FORMAT = 1
_MOST_PARTITIONS = 1_000


class SparkReplay(msgspec.Struct, frozen=True):
    """A finding as a file.

    Attributes:
        spark_job: ``MODULE:NAME`` of the job or sink.
        violations: The finding's name, and its message.
        schemas: Of the input: as the user gave them.
        feed: What the module calls its rows.
        feed_seed: Where they are a function of one, or drawn.
        kept: Which rows the finding needs, numbered from 0 over all batches.
        cause: Of a finding about the job, or None.
        changed: What the schedule changes.
        schedule: How the job runs, or None if the rows alone show it.
        fault: What happens to the sink, or None.
        promise: The name of the promise that is broken, or "".
        code_digest: Of the source behind the job; ``""``: unknown.
        input_digest: Of the rows that are kept.
        keys: The declared keys of tables.
        format: Of this file.

    """

    spark_job: str
    violations: dict[str, str]
    schemas: str | dict[str, str] | None
    feed: str
    feed_seed: int
    kept: tuple[int, ...]
    cause: Cause | None = None
    changed: Cause = Cause.FAULTS
    schedule: Schedule | None = None
    fault: SinkFault | None = None
    promise: str = ""
    code_digest: str = ""
    input_digest: str = ""
    keys: dict[str, tuple[str, ...]] = {}
    format: int = SPARK_FORMAT

    def changes(self, target: SparkTarget) -> tuple[str, ...]:
        """List what has changed since the finding was recorded: ``code``, ``input``, or both."""
        today = {
            "code": (self.code_digest, code_digest([target.name])),
            "input": (self.input_digest, _digest(narrowed(target.feed, self.kept))),
        }
        return tuple(name for name, (recorded, now) in today.items() if not recorded or recorded != now)

    def allowed(self, causes: Collection[Cause]) -> bool:
        """Return whether the finding is about what the outcome may depend on."""
        names = {cause.value for cause in causes}
        of_sink = self.fault is not None and self.fault.kind in {SinkFaultKind.NONE, SinkFaultKind.REDELIVER}
        losses = names | {wrong.value for wrong, name in ALLOWED.items() if name in names}
        is_loss = any(told.endswith(f"({loss})") for told in self.violations for loss in losses)
        return self.cause in causes or (of_sink and is_loss)

    def declared(self, target: SparkTarget) -> SparkTarget:
        """Return the target with the keys that were declared, unless some are."""
        return target if target.keys else replace(target, keys=self.keys)

    def wrong(self, target: SparkTarget) -> str:
        """Return why it cannot be run: implausible numbers, or an input with fewer rows now. ``""``: it can."""
        rows, schedule = sum(map(len, target.feed)), self.schedule or Schedule()
        if not all(0 <= row < rows for row in self.kept):
            return f"it needs row {max(self.kept)}, and the input has {rows} rows"
        if not 0 < (schedule.partitions or 1) <= _MOST_PARTITIONS:
            return f"it has {schedule.partitions} partitions"
        if any(size < 0 for size in schedule.cuts or ()):
            return "it has a batch of negative size"
        if (self.cause is Cause.PROMISE) != bool(self.promise) or (
            self.promise and self.promise not in [promise.name for promise in target.promises]
        ):
            return f"it is about the promise {self.promise!r}, which the module no longer makes"
        if (self.cause is None) == (self.fault is None):
            return "it has neither the cause nor the fault of a finding, or both"
        if self.fault is not None and (self.fault.batch < 0 or self.fault.effect < -1):
            return "its fault is at a negative place"
        return ""


def to_file(
    target: SparkTarget, finding: Finding, schemas: str | Mapping[str, str] | None, feed: str, seed: int
) -> bytes:
    """Write a finding for a file.

    Args:
        target: What it is about; its name can be imported.
        finding: What was found.
        schemas: As in `SparkReplay`; so are ``feed`` and ``seed``.
        feed: What the module calls its rows.
        seed: Of the rows.

    """
    trial = finding.trial
    kept = tuple(range(sum(map(len, target.feed)))) if trial.kept is None else trial.kept
    file = SparkReplay(
        target.name,
        {finding.kind.title: str(finding)},
        dict(schemas) if isinstance(schemas, Mapping) else schemas,
        feed,
        seed,
        kept,
        code_digest=code_digest([target.name]),
        input_digest=_digest(narrowed(target.feed, kept)),
        keys={table: tuple(columns) for table, columns in target.keys.items()},
    )
    about: dict[str, Any] = (
        {
            "cause": trial.cause,
            "changed": trial.changed,
            "schedule": trial.schedule,
            "promise": trial.promise,
        }
        if isinstance(trial, QueryTrial)
        else {"fault": trial.fault}
    )
    return printable_json(msgspec.structs.replace(file, **about)) + b"\n"


def _digest(feed: Sequence[Sequence[Any]]) -> str:
    return hashlib.sha256(repr([list(map(tuple, batch)) for batch in feed]).encode()).hexdigest()


def read_file(path: Path) -> SparkReplay:
    """Read what `to_file` wrote.

    Raises:
        HistoryFormatError: It cannot be read, or is something else, or of another version.

    """
    try:
        file = read_json(path.read_bytes(), msgspec.json.Decoder(SparkReplay).decode)
    except OSError as error:
        raise HistoryFormatError("replay file", str(path), error.strerror or str(error)) from error
    except JsonError as error:
        raise HistoryFormatError("replay file", str(path), str(error)) from error
    if file.format != SPARK_FORMAT:
        problem = f"it has format {file.format}, and this version of Headrace reads format {SPARK_FORMAT}"
        raise HistoryFormatError("replay file", str(path), problem)
    return file


class Again:
    """A recorded finding, and the search for it.

    Args:
        file: What was recorded.
        target: What it is about, as it is today, with all rows.

    Attributes:
        finding: What is found, or None.

    """

    def __init__(self, file: SparkReplay, target: SparkTarget) -> None:
        self._target = target
        self.finding: Finding | None = None
        self._trial: OneTrial | None = None
        if file.cause is not None:
            trial = QueryTrial(
                file.cause, file.changed, file.schedule, file.promise, file.feed_seed, file.kept
            )
            found = check_again(target.job, target.feed, trial, target.promises, target.limits)
            self.finding = None if found is None else placed(target.job, target.feed, found)
        elif file.fault is not None and target.job.sink.function is not None:
            self._trial = replace(target, feed=narrowed(target.feed, file.kept)).try_fault(file.fault)
            shown = [finding_of_sink(found, file.feed_seed, file.kept) for found in self._trial.findings]
            shown += [question_of_sink(asked, file.feed_seed, file.kept) for asked in self._trial.questions]
            same = [found for found in shown if found.kind.title in file.violations]
            self.finding = next(iter(same or shown), None)

    def explanation(self) -> Explanation | None:
        """Explain the finding, if there is one."""
        if self.finding is not None and isinstance(self.finding.trial, QueryTrial):
            return explain_query(self._target.job, self._target.feed, self.finding.trial)
        return None if self._trial is None or self.finding is None else explain_sink(self._trial)


@dataclass(frozen=True, slots=True)
class RetriedFinding:
    """A kept finding that has been rechecked.

    Attributes:
        path: Of its file.
        file: Its content.
        found: What was found now, or None.
        changes: What has changed since it was recorded: ``code``, ``input``.
        wrong: Why it was not looked for, or "".

    """

    path: Path
    file: SparkReplay
    found: Finding | None = None
    changes: tuple[str, ...] = ()
    wrong: str = ""

    @property
    def passed(self) -> bool:
        """Whether it was rechecked, and not found."""
        return not self.wrong and self.found is None

    def __str__(self) -> str:
        """Report the result."""
        if self.wrong:
            return f"{self.path}: skipped: {self.wrong}"
        if self.found is not None:
            return f"{self.path}: {self.found.finding_class.value} again: {self.found.kind.title}"
        since = f"; its {' and '.join(self.changes)} changed" if self.changes else ""
        return f"{self.path}: no longer violates {', '.join(self.file.violations)}{since}"


def _spark_file(path: Path) -> SparkReplay | None:
    if is_spark_file(path):
        return read_file(path)
    read_replay(path)  # or tell why it cannot be read
    return None


def retry_findings(
    kept: KeptFailures, feed: str, target_of: Callable[[int], SparkTarget], allow: Collection[Cause] = ()
) -> tuple[RetriedFinding, ...]:
    """Recheck kept findings.

    Args:
        kept: Where they are.
        feed: What the module calls its rows: a finding says nothing about others.
        target_of: Returns the target with the rows of a seed.
        allow: On what the outcome may depend: such findings stay as they are.

    """
    found = []
    for path, file in kept.read(_spark_file):
        if file.feed != feed or file.allowed(allow):
            continue
        target = file.declared(target_of(file.feed_seed))
        if file.spark_job == target.name:
            wrong = file.wrong(target)
            again = None if wrong else Again(file, target).finding
            found.append(RetriedFinding(path, file, again, file.changes(target), wrong))
    return tuple(found)
